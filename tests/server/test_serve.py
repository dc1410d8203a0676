"""``pywheel serve`` up to the server: its options and its refusals."""

import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from pywheel.cli.app import app
from tests.isolated.child import run_well
from tests.server.client import Process, problem

pytestmark = pytest.mark.stress


def serve(folder, *options):
    """Return the exit code and what was said."""
    command = [sys.executable, "-m", "pywheel.cli", "serve", "--store", f"sqlite:///{folder}/jobs.db", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--open", "--host", "0.0.0.0"], "--open is for this host only"),
        (["--work"], "name it"),
        (["--cors", "shop.example"], "origins such as"),
        (["--cors", "https://shop.example/"], "origins such as"),
        (["--host", "203.0.113.1", "--port", "0"], "cannot be listened to"),
        (["nowhere:queue"], "there is no module nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(tmp_path, options, said):
    code, text = serve(tmp_path, *options)
    assert code == 2
    assert said in text
    assert text.count("\n") == 1


def test_the_log_of_a_program_stays_as_the_program_has_set_it_up(tmp_path, monkeypatch):
    lines = "import atexit, logging", "logging.basicConfig(format='OURS %(message)s')", "from pywheel import JobQueue"
    ends = "queue = JobQueue('memory:')", "atexit.register(logging.getLogger().warning, 'the end')"
    (tmp_path / "shop.py").write_text("\n".join((*lines, *ends)))
    monkeypatch.chdir(tmp_path)
    _, text = serve(tmp_path, "shop:queue", "--host", "203.0.113.1", "--port", "0")
    assert text.splitlines()[-1] == "OURS the end"


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = serve(tmp_path, "--open", "--port", str(port))
    assert (code, f"127.0.0.1:{port} cannot be listened to" in text) == (2, True)


def test_it_says_where_it_listens_and_to_whom(tmp_path):
    server = Process(tmp_path)
    try:
        assert problem(server("GET", "/v1/topics")) == "token-missing"
        assert f"{server.url} (with tokens" in server.log.read_text()
    finally:
        assert server.stop() == 0


def test_the_help_has_examples():
    said = CliRunner().invoke(app, ["serve", "--help"]).output
    assert "--open" in said
    assert "pywheel serve --read-only" in said


def test_without_starlette_it_says_what_to_install():
    code = """
import sys
sys.modules["starlette"] = None
try:
    from pywheel.server import app
except ModuleNotFoundError as error:
    print(error)
"""
    assert "pip install 'pywheel-timer[server]'" in run_well("-c", code)

"""``pywheel serve`` up to the server: its options and its refusals."""

import pytest

from tests.cli.running import running
from tests.isolated.child import run_well
from tests.server.client import Process, problem

pytestmark = pytest.mark.stress


def test_the_log_of_a_program_stays_as_the_program_has_set_it_up(tmp_path):
    lines = "import atexit, logging", "logging.basicConfig(format='OURS %(message)s')", "from pywheel import JobQueue"
    ends = "queue = JobQueue('memory:')", "atexit.register(logging.getLogger().warning, 'the end')"
    (tmp_path / "shop.py").write_text("\n".join((*lines, *ends)))
    with running("serve", "shop:queue", "--host", "203.0.113.1", "--port", "0", folder=tmp_path) as command:
        assert command.ends(2).splitlines()[-1] == "OURS the end"


def test_it_says_where_it_listens_and_to_whom(tmp_path):
    with Process(tmp_path) as server:
        assert problem(server("GET", "/v1/topics")) == "token-missing"
        assert f"{server.url} (with tokens" in server.log.read_text()


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

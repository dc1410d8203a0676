"""The command in a process of its own: completion, a missing extra, a worker, the demo."""

import os
import signal
import subprocess
import sys

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from tests.isolated.child import environment, run
from tests.jobs.waiting import until

MODULE = """
from pywheel import JobQueue
queue = JobQueue({url!r})
@queue.handler("t")
def handle(job):
    print("handled", job.id, flush=True)
"""


def test_completion_can_be_had():
    result = run("-m", "pywheel.cli", "--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert result.returncode == 0
    assert "complete" in result.stdout


def test_without_the_extra_it_says_how_to_get_it():
    code = "import sys; sys.modules['typer'] = None; from pywheel.cli import main; main()"
    result = run("-c", code)
    assert result.returncode == 2
    assert result.stderr == "pywheel: the command line needs typer: pip install 'pywheel-timer[cli]'\n"


def test_nothing_given_shows_the_help():
    result = run("-m", "pywheel.cli")
    assert result.returncode == 2
    assert "Commands" in result.stdout
    assert any(line.strip().startswith("pywheel work shop:queue") for line in result.stdout.splitlines())
    assert "Exit codes" in result.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("view", ["--live", "--no-live"])
def test_work_runs_the_handlers_of_a_module_until_it_is_told_to_stop(tmp_path, view):
    url = f"sqlite:///{tmp_path}/jobs.db"
    (tmp_path / "shop.py").write_text(MODULE.format(url=url))
    command = [sys.executable, "-m", "pywheel.cli", "work", "shop:queue", view]
    with JobQueue(url) as queue:
        id = queue.put("t")
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            until(lambda: queue.get(id).state is State.DONE)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, err
    assert f"handled {id}".encode() in out
    assert b"Traceback" not in err


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_the_demo_accounts_for_every_job():
    result = run("-m", "pywheel.cli", "demo", "--jobs", "400", "--seconds", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    lines = dict(
        line.split("  ", 1) for line in result.stdout.splitlines() if "  " in line and not line.startswith(" ")
    )
    assert {name: lines[name].split()[0] for name in ("put", "delivered", "lost", "early")} == {
        "put": "400",
        "delivered": "400",
        "lost": "0",
        "early": "0",
    }
    assert "answered" in result.stdout


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path):
    command = [sys.executable, "-m", "pywheel.cli", "demo", "--jobs", "2000", "--seconds", "60"]
    process = subprocess.Popen(
        command, env=environment(TMPDIR=str(tmp_path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        until(lambda: any(tmp_path.glob("*/ledger")))
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert workers_in(tmp_path) == []


def workers_in(folder):
    """Return the processes whose command line names the folder."""
    from pathlib import Path

    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in line:
            found.append(line)
    return found

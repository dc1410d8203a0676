"""The demo of jobs: it accounts for every job, and leaves no process behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.isolated.child import environment, run
from tests.jobs.waiting import until

pytestmark = pytest.mark.stress

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and shells of POSIX")


@POSIX
def test_the_demo_accounts_for_every_job():
    result = run("-m", "demos.jobs", "--jobs", "400", "--seconds", "1")
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


@POSIX
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path):
    command = [sys.executable, "-m", "demos.jobs", "--jobs", "2000", "--seconds", "60"]
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
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        if str(folder).encode() in line:
            found.append(line)
    return found

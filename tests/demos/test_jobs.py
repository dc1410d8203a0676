"""The demo of jobs: it accounts for every job, and leaves no process behind."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.isolated.child import environment, run
from tests.jobs.waiting import until

pytestmark = [pytest.mark.stress, pytest.mark.skipif(os.name == "nt", reason="signals and shells of POSIX")]


def test_the_demo_accounts_for_every_job():
    result = run("-m", "demos.jobs", "--jobs", "400", "--seconds", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    counted = dict(re.findall(r"^(put|delivered|lost|early)  +(\S+)", result.stdout, re.MULTILINE))
    assert counted == {"put": "400", "delivered": "400", "lost": "0", "early": "0"}
    assert "answered" in result.stdout


def test_an_interrupted_demo_leaves_no_process_behind(tmp_path):
    command = [sys.executable, "-m", "demos.jobs", "--jobs", "2000", "--seconds", "60"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=environment(TMPDIR=str(tmp_path)), **pipes)
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
    """Return the command lines of the processes that name the folder."""
    lines = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            lines.append(entry.read_bytes())
    return [line for line in lines if str(folder).encode() in line]

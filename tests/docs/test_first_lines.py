"""The first lines of README.md, docs/index.md and docs/jobs.md deliver a job, in a program of its own."""

import signal
import subprocess
import sys

import pytest

from tests.docs.pages import blocks

pytestmark = pytest.mark.stress


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/jobs.md"])
def test_they_are_few_and_deliver_a_job(page, tmp_path):
    [code] = blocks(page, "py")
    assert len(code.splitlines()) <= 10
    with subprocess.Popen([sys.executable, "-uc", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() in {"closing order 7\n", "hello, world\n"}
        program.send_signal(signal.SIGTERM)
        assert program.wait(timeout=30) == 0

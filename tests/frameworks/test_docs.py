"""What docs/frameworks.md shows works as shown, and what docs/jobs.md shows of Django."""

import subprocess
import sys

import pytest

from tests.docs.pages import blocks
from tests.frameworks.programs import DJANGO
from tests.isolated.child import environment

GUNICORN, *WITH_DJANGO = blocks("docs/frameworks.md", "py")
BEFORE = """
from functools import partial
from shop.models import Order
"""
AFTER = """
jobs = [(job.topic, job.state.name) for job in queue.jobs.list()]
assert jobs == [("order.close", "CANCELLED"), ("order.mail", "DELAYED"), ("close-unpaid", "DELAYED")], jobs
"""


@pytest.mark.parametrize("code", blocks("docs/frameworks.md", "python"), ids=["late", "starlette", "loop", "flask"])
def test_the_example_runs(code, tmp_path):
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_lines_for_gunicorn_are_those_of_the_example():
    example = iter((DJANGO.parent / "gunicorn.conf.py").read_text(encoding="utf-8").split())
    assert [word for word in GUNICORN.split() if word not in example] == []


def test_the_lines_for_django_run_one_after_the_other(tmp_path):
    first, on_commit, pay = WITH_DJANGO
    lines = [BEFORE, first, on_commit, "order = order.pk\n", pay, *blocks("docs/jobs.md", "py"), AFTER]
    for command in (["migrate", "-v", "0"], ["shell", "-v", "0", "-c", "".join(lines)]):
        done = subprocess.run(
            [sys.executable, "manage.py", *command],
            cwd=DJANGO,
            env=environment(SHOP_FOLDER=str(tmp_path), PYWHEEL_STORE=None),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")

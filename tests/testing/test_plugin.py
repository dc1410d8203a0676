"""pytest's plugin: fixtures without a declaration, and their cost for tests that use none."""

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.isolated.child import run, run_well

pytestmark = pytest.mark.stress

EXAMPLE = Path(__file__).parents[2] / "examples" / "order_shop"
TESTS = """
import pywheel

def test_a_queue_goes_by_the_tests_clock(job_queue, manual_clock):
    id = job_queue.put("t", delay="1h")
    assert job_queue.reserve("t") == []
    manual_clock.advance(3600)
    assert [job.id for job in job_queue.reserve("t")] == [id]

def test_a_tester_goes_by_the_tests_clock(queue_tester, manual_clock):
    tester = queue_tester()
    tester.advance("1h")
    assert manual_clock.time() == 3600
    assert not tester.raises and queue_tester(tester.queue, raises=True).raises
"""
TIME_MACHINE = """
import contextlib, types
moves = []

@contextlib.contextmanager
def travel(destination, tick):
    assert (destination, tick) == (0, False)
    yield types.SimpleNamespace(move_to=moves.append)
"""
FROZEN = """
def test_it_moves(jobs):
    jobs.advance("1h")
    assert time_machine.moves[-1].timestamp() == jobs.clock.wall() / 1000
"""


def passed(folder):
    result = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(folder))
    assert result.returncode == 0, result.stdout + result.stderr
    return re.search(r"(\d+) passed", result.stdout)[1]


def test_the_fixtures_are_there_without_a_word(tmp_path):
    (tmp_path / "test_users.py").write_text(TESTS)
    assert passed(tmp_path) == "2"


def test_the_order_service_of_the_examples_is_tested_as_it_says(tmp_path):
    for name in ("shop.py", "test_shop.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    assert passed(tmp_path) == "1"


def test_a_frozen_time_of_the_page_moves_with_the_clock(tmp_path):
    [frozen] = blocks("docs/testing.md", "py")
    (tmp_path / "time_machine.py").write_text(TIME_MACHINE)
    shutil.copy(EXAMPLE / "shop.py", tmp_path)
    (tmp_path / "test_frozen.py").write_text(f"import pytest, shop, time_machine\n{frozen}{FROZEN}")
    assert passed(tmp_path) == "1"


def test_the_plugin_itself_imports_nothing_that_is_slow_to_load():
    code = """
import sys, types
sys.modules["pytest"] = types.SimpleNamespace(fixture=lambda function: function)
import pywheel.testing.fixtures
print(*sorted(sys.modules))
"""
    slow = {"asyncio", "sqlite3", "json", "pywheel.client", "pywheel.stores", "pywheel.jobs"}
    assert slow & set(run_well("-c", code).split()) == set()

"""The ringer of stores on databases: hints go at once, jobs that are due later are gathered."""

from queue import SimpleQueue

import pytest

from pywheel.stores.relational.ringer import Ringer
from tests.jobs.waiting import LIMIT


@pytest.fixture
def ringer():
    """One that tells "w" of all jobs; what it sends is in `sent`."""
    sent = SimpleQueue()
    ringer = Ringer(sent.put, lambda jobs: {"w": set(jobs)})
    ringer.sent = sent
    yield ringer
    ringer.close()


def test_jobs_of_several_puts_are_told_of_at_once(ringer):
    ringer.later({1: ("t", 0), 2: ("t", 0)}, LIMIT)
    ringer.later({3: ("t", 0)}, 0)
    assert ringer.sent.get(timeout=LIMIT) == {"w": {1, 2, 3}}


def test_hints_take_along_the_jobs_that_wait(ringer):
    ringer.later({1: ("t", 0)}, LIMIT)
    ringer.add({"v": None, "w": set()})
    assert ringer.sent.get(timeout=LIMIT) == {"v": None, "w": {1}}


def test_at_the_end_all_that_waits_is_told(ringer):
    ringer.later({1: ("t", 0)}, LIMIT)
    ringer.close()
    assert ringer.sent.get_nowait() == {"w": {1}}


def test_a_crowd_of_jobs_is_told_as_all(ringer):
    ringer.later(dict.fromkeys(range(5000), ("t", 0)), 0)
    assert ringer.sent.get(timeout=LIMIT) == {"w": None}

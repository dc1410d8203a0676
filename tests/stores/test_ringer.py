"""The ringer of stores on databases: hints go at once, jobs that are due later are gathered."""

import threading
import time
from queue import SimpleQueue

import pytest

from pywheel.stores.relational.ringer import Ringer
from tests.jobs.waiting import LIMIT


def hinted(jobs):
    return {"w": {id for _, id, _ in jobs}}


@pytest.fixture
def ringer():
    """One that tells "w" of all jobs; what it sends is in `sent`."""
    sent = SimpleQueue()
    ringer = Ringer(sent.put, hinted)
    ringer.sent = sent
    yield ringer
    ringer.close()


def test_jobs_of_several_puts_are_told_of_at_once(ringer):
    ringer.later([(1, 1, 0), (1, 2, 0)], LIMIT)
    ringer.later([(1, 3, 0)], 0)
    assert ringer.sent.get(timeout=LIMIT) == {"w": {1, 2, 3}}


def test_hints_take_along_the_jobs_that_wait(ringer):
    ringer.later([(1, 1, 0)], LIMIT)
    ringer.add({"v": None, "w": set()})
    assert ringer.sent.get(timeout=LIMIT) == {"v": None, "w": {1}}


def test_at_the_end_all_that_waits_is_told(ringer):
    ringer.later([(1, 1, 0)], LIMIT)
    ringer.close()
    assert ringer.sent.get_nowait() == {"w": {1}}


@pytest.mark.stress
def test_a_flush_returns_once_all_before_it_was_sent():
    sent = []

    def send(hints):
        time.sleep(0.05)
        sent.append(hints)

    ringer = Ringer(send, hinted)
    for number in range(3):
        ringer.add({"w": {number}})
        ringer.later([(1, 10 + number, 0)], LIMIT)
        ringer.flush(LIMIT)
        assert set().union(*(hints["w"] for hints in sent)) == {*range(number + 1), *range(10, 11 + number)}
    ringer.close()
    ringer.flush(LIMIT)  # nobody is there to be waited for


def test_a_flush_ends_though_nothing_can_be_sent():
    stopped = threading.Event()
    ringer = Ringer(lambda hints: stopped.wait(LIMIT), set)
    ringer.add({"w": {1}})
    ringer.flush(0.05)
    stopped.set()
    ringer.close()


def test_a_crowd_of_jobs_is_told_as_all(ringer):
    ringer.later([(1, id, 0) for id in range(5000)], 0)
    assert ringer.sent.get(timeout=LIMIT) == {"w": None}

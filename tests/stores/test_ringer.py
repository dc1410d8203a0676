"""The ringer of stores on databases: hints go at once, jobs that are due later are gathered."""

import threading
import time
import weakref
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


def test_a_system_without_threads_fails_no_writer_and_the_next_hint_takes_the_others_along(ringer, monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        ringer.later([(1, 1, 0)], 0)
    ringer.add({"v": set()})
    assert ringer.sent.get(timeout=LIMIT) == {"v": set(), "w": {1}}


def test_a_signal_handler_may_put_and_close_while_the_thread_starts(ringer, monkeypatch):
    start, began = threading.Thread.start, []

    def interrupted(thread):
        if not began:
            began.append(True)
            ringer.add({"v": set()})
            ringer.close()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    writer = threading.Thread(target=ringer.later, args=([(1, 1, 0)], 0), daemon=True)
    start(writer)
    assert ringer.sent.get(timeout=LIMIT) == {"v": set(), "w": {1}}


def test_an_unforeseen_error_is_logged_and_later_hints_go_all_the_same(caplog):
    sent = SimpleQueue()

    def whom(jobs):
        return hinted(jobs) if len(jobs) > 1 else jobs[1]

    ringer = Ringer(sent.put, whom)
    ringer.later([(1, 1, 0)], 0)
    ringer.flush(LIMIT)
    ringer.later([(1, 2, 0), (1, 3, 0)], 0)
    assert sent.get(timeout=LIMIT) == {"w": {2, 3}}
    ringer.close()
    assert "IndexError" in caplog.text


def test_a_ringer_that_nobody_closed_is_freed_and_its_thread_ends_once_all_is_told():
    sent = SimpleQueue()
    ringer = Ringer(sent.put, hinted)
    ringer.later([(1, 1, 0)], 0)
    thread, dropped = ringer._thread, weakref.ref(ringer)
    del ringer
    assert sent.get(timeout=LIMIT) == {"w": {1}}
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert dropped() is None


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

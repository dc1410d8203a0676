"""The watch for commits of callers' transactions, where the system or a signal comes between."""

import threading
from queue import SimpleQueue

import pytest

from pywheel.stores.within import CommitWatch
from tests.jobs.waiting import LIMIT


@pytest.fixture
def told():
    return SimpleQueue()


@pytest.fixture
def watch():
    """A watch whose jobs are all there."""
    watch = CommitWatch(lambda ids: dict.fromkeys(ids, 0))
    yield watch
    watch.close()


def test_a_system_without_threads_fails_no_put_and_the_next_one_takes_its_news_along(watch, told, monkeypatch):
    def refused(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        watch.add(1, None, lambda: told.put(1))
    watch.add(2, None, lambda: told.put(2))
    assert {told.get(timeout=LIMIT), told.get(timeout=LIMIT)} == {1, 2}


def test_a_signal_handler_may_close_the_store_while_a_put_wakes_the_watch(watch, told, monkeypatch):
    waking, interrupts = threading.Condition.notify_all, []

    def interrupted(condition):
        if interrupts and threading.get_ident() == writer.ident:
            interrupts.pop()()
        waking(condition)

    def put():
        interrupts.append(watch.close)
        watch.add(1, None, lambda: told.put(1))
        interrupts.clear()

    monkeypatch.setattr(threading.Condition, "notify_all", interrupted)
    writer = threading.Thread(target=put, daemon=True)
    writer.start()
    writer.join(10)
    assert not writer.is_alive()

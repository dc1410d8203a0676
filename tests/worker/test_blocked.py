"""A worker that has room but cannot start anything: its loop is blocked, or the system gives it no thread.

What it claimed meanwhile is unspent, and goes to whoever can start it.
"""

import asyncio
import contextlib
import threading

import pytest

from pywheel import Fixed, JobQueue, Worker
from pywheel.jobs import Outcome, State
from pywheel.stores import open
from tests.jobs.waiting import finished, until

TERMS = [{"ttr": 0.2}, {"ttr": 1}, {"ttr": 0.5, "keep_lease": True}, {"ttr": 60}]
NUMBER = 20


@pytest.fixture
def store(url):
    with open(url) as store:
        yield store


async def swift(job):
    await asyncio.sleep(0)


def plain(job):
    pass


@contextlib.contextmanager
def loop_blocked(store, terms):
    """Let a worker work whose loop is blocked by a handler, and that handles "t" as well; give what frees it."""
    gate, blocking = threading.Event(), threading.Event()

    async def block(job):
        blocking.set()
        gate.wait(60)

    queue = JobQueue(store)
    queue.handler("block", ttr=60)(block)
    queue.handler("t", retry=Fixed(0, attempts=1), **terms)(swift)
    with running(queue):
        queue.put("block")
        assert blocking.wait(60)
        try:
            yield gate.set
        finally:
            gate.set()


@contextlib.contextmanager
def threads_refused(store, terms):
    """The same with a worker that gets no thread."""
    queue = JobQueue(store)
    queue.handler("t", retry=Fixed(0, attempts=1), **terms)(plain)
    with running(queue) as worker:
        most, worker._threads._most = worker._threads._most, 0

        def free():
            worker._threads._most = most

        try:
            yield free
        finally:
            free()


@contextlib.contextmanager
def running(queue):
    worker = Worker(queue, grace=60)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        assert worker.join(60)


def outcomes(queue, ids):
    return {attempt.outcome for id in ids for attempt in queue.history(id)}


@pytest.mark.parametrize("terms", TERMS, ids=str)
@pytest.mark.parametrize("blocked", [loop_blocked, threads_refused])
def test_who_can_start_jobs_gets_them_from_who_cannot(store, blocked, terms):
    queue, other = JobQueue(store), JobQueue(store)
    other.handler("t", retry=Fixed(0, attempts=1), **terms)(plain)
    with blocked(store, terms), running(other):
        ids = queue.put_many(queue.job("t") for _ in range(NUMBER))
        for id in ids:
            assert finished(queue, id).state is State.DONE, "while the first one is still blocked"
    assert outcomes(queue, ids) <= {Outcome.DONE, Outcome.RELEASED}


@pytest.mark.parametrize("terms", TERMS, ids=str)
@pytest.mark.parametrize("blocked", [loop_blocked, threads_refused])
def test_jobs_that_could_not_start_spend_no_attempt(store, blocked, terms):
    queue = JobQueue(store)
    with blocked(store, terms) as free:
        ids = queue.put_many(queue.job("t") for _ in range(NUMBER))
        until(lambda: outcomes(queue, ids) == {Outcome.RELEASED})
        free()
        for id in ids:
            assert finished(queue, id).state is State.DONE
    assert outcomes(queue, ids) <= {Outcome.DONE, Outcome.RELEASED}


def test_a_worker_without_threads_says_so_once(store, monkeypatch, caplog):
    start, tries = threading.Thread.start, []

    def refused(thread):
        if thread.name == "pywheel-handlers" and len(tries) < 5:
            tries.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    queue = JobQueue(store)
    queue.handler("t", ttr=1)(plain)
    with running(queue):
        assert finished(queue, queue.put("t")).state is State.DONE
    assert len(tries) == 5
    assert sum("no thread" in record.getMessage() for record in caplog.records) == 1


def test_a_loop_that_gets_no_thread_begins_when_it_gets_one(store, monkeypatch):
    start, tries = threading.Thread.start, []

    def refused(thread):
        if thread.name == "pywheel-loop" and len(tries) < 5:
            tries.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    queue = JobQueue(store)
    queue.handler("t", ttr=1, retry=Fixed(0, attempts=1))(swift)
    with running(queue):
        assert finished(queue, queue.put("t")).state is State.DONE
    assert len(tries) == 5

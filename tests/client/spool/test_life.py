"""The life of a queue with a spool, from beginning to end, and its obstacles."""

import contextlib
import signal
import threading

import pytest

from pywheel import BadOption, JobQueue, NotAStore, StoreAway, StoreBusy, StoreClosed, StoreError
from pywheel.client import program as queue_module
from pywheel.client.circuit_breaker import CircuitBreaker
from pywheel.client.forwarder import Forwarder
from pywheel.client.spool import Spool
from pywheel.events import JobRefused, JobsForwarded, StoreBack, StoreFailed
from pywheel.jobs import NewJob, State
from pywheel.jobs.commands import Put
from pywheel.stores import open as open_store
from tests.client.spool.spooled import back, bodies, fail_with, forwarded
from tests.jobs.waiting import until

# ---- at the beginning -----------------------------------------------------------------------------------------------


PLACE = "server://user:secret@host/jobs?password=secret"


@pytest.fixture
def closed_port(monkeypatch, store):
    """The address of a server that cannot be reached yet; call it to start the server."""
    started = []

    def opened(url, **options):
        if url != PLACE:
            return open_store(url, **options)
        if not started:
            raise StoreAway("connection refused")
        if isinstance(started[0], Exception):
            raise started[0]
        return store

    monkeypatch.setattr(queue_module, "open_store", opened)
    return started.append


def test_a_queue_is_opened_and_takes_puts_before_its_server_is_there(closed_port, store, spool):
    with JobQueue(PLACE, spool=spool) as queue:
        assert "secret" not in repr(queue)
        assert "secret" not in queue.store.url
        assert queue.store.clock.wall() > 0
        assert queue.put("t", 1, delay="1h") == -1
        assert queue.get(-1).json() == 1
        topics, jobs = queue.topics, queue.jobs
        for ask in (topics.counts, jobs.list, topics.list, lambda: queue.get(1), lambda: queue.cancel(1)):
            with pytest.raises(StoreAway, match=r"has been away for .*connection refused") as caught:
                ask()
            assert "secret" not in str(caught.value)
        closed_port(True)
        until(lambda: queue.store.url == store.url)
        until(lambda: forwarded(queue))
        assert queue.topics.counts()["t"].delayed == 1
        assert queue.store.durability == store.durability


def test_a_server_that_turns_out_to_be_none_is_told(closed_port, spool):
    failures = []
    with JobQueue(PLACE, spool=spool, listeners=[failures.append]) as queue:
        closed_port(NotAStore("no such database"))
        until(lambda: "no such database" in str(queue.store._breaker.away))
        assert queue.put("t", 1) < 0
        with pytest.raises(StoreAway, match="no such database"):
            queue.topics.counts()
        told = [type(event.error) for event in failures if isinstance(event, StoreFailed)]
        assert told == [StoreAway, NotAStore]
    with pytest.raises(NotAStore):  # from the beginning
        JobQueue(PLACE, spool=spool)


@pytest.mark.parametrize("wrong", ["memory:", 5, "spool.db", "sqlite:///no/such/folder/spool.db", "its own"])
def test_what_cannot_be_a_spool_is_an_error(tmp_path, wrong):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with pytest.raises((BadOption, TypeError, StoreError)) as caught:
        JobQueue(url, spool=url if wrong == "its own" else wrong)
    assert ("a file of its own" in str(caught.value)) is (wrong == "its own")


# ---- at the end -----------------------------------------------------------------------------------------------------


def test_what_waits_is_forwarded_by_the_next_queue_with_that_spool(store, spool):
    store.away = True
    with JobQueue(store, spool=spool) as queue:
        ids = [queue.put("t", n) for n in range(3)]
        assert bodies(store) == []
    with pytest.raises(StoreClosed):
        queue.put("t", 3)
    store.away = False
    with JobQueue(store, spool=spool) as queue:
        until(lambda: forwarded(queue))
        assert bodies(store) == [0, 1, 2]
        assert [queue.get(id).json() for id in ids] == [0, 1, 2]


def test_a_queue_that_is_open_forwards_what_a_process_that_is_gone_left(queue, store, spool, monkeypatch):
    monkeypatch.setattr("pywheel.client.forwarder._IDLE", 0.01)
    other = Spool(spool)
    other.add([Put((NewJob("t", b"1", 0),), "n")])
    other.close()
    queue.store._forwarder.wake()
    until(lambda: bodies(store) == [1])


def test_a_queue_that_nobody_closed_leaves_no_thread_behind(store, spool):
    before = set(threading.enumerate())
    queue = JobQueue(store, spool=spool)
    queue.put("t", 1)
    [thread] = set(threading.enumerate()) - before
    del queue
    until(lambda: not thread.is_alive())


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers with signals here")
def test_a_signal_handler_puts_in_the_middle_of_a_put(queue, store):
    told = []

    def put(*_):
        number = len(told) + 10_000
        with contextlib.suppress(StoreBusy):  # it interrupted a commit of this thread
            queue.put("t", number)
            told.append(number)
        signal.setitimer(signal.ITIMER_REAL, 0.002)

    before = signal.signal(signal.SIGALRM, put)
    store.away = True
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    try:
        for number in range(150):
            with contextlib.suppress(StoreBusy):
                queue.put("t", number)
                told.append(number)
    finally:
        signal.signal(signal.SIGALRM, lambda *_: None)  # of a signal that it ignores Python may say that
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    back(queue, store)
    assert sorted(bodies(store)) == sorted(told)


def test_close_ends_the_thread_also_from_a_listener(store, spool):
    closed = []

    def close(event):
        if isinstance(event, JobsForwarded):
            queue.close()
            closed.append(event)

    queue = JobQueue(store, spool=spool, listeners=[close])
    store.away = True
    queue.put("t", 1)
    thread = queue.store._forwarder._thread
    store.away = False
    until(lambda: closed and not thread.is_alive())
    queue.close()
    assert bodies(store) == [1]


# ---- what stands in the way -----------------------------------------------------------------------------------------


def test_a_put_that_the_store_fails_at_is_refused_in_the_end_and_holds_up_no_other(queue, store, monkeypatch, heard):
    monkeypatch.setattr("pywheel.client.forwarder._BACKOFF", (0.001, 0.001))

    def fails(when, commands):
        if any(isinstance(command, Put) and any(job.body == b'"bad"' for job in command.jobs) for command in commands):
            raise StoreError("the packet is too large")

    store.away = True
    ids = [queue.put("t", body) for body in ("good", "bad", "better")]
    store.fault = fails
    back(queue, store)
    assert bodies(store) == ["good", "better"]
    assert queue.get(ids[1]).state is State.DEAD
    assert "the packet is too large" in queue.get(ids[1]).last_error
    assert [event.id for event in heard if isinstance(event, JobRefused)] == [ids[1]]
    store.fault = None
    assert queue.jobs.retry(ids[1])
    until(lambda: forwarded(queue))
    assert queue.get(ids[1]).json() == "bad"


@pytest.mark.parametrize("failures", [1, 2])
def test_a_store_that_failed_at_a_put_of_the_spool_is_said_to_be_back_once_it_takes_it(store, spool, heard, failures):
    file = Spool(spool)
    file.add([Put((NewJob("t", b"1", 0),), "n")])
    forwarder = Forwarder(CircuitBreaker("store", lambda: store, heard.append), file, heard.append)
    fail_with(store, StoreError("some rule of the database"))
    for _ in range(failures):
        forwarder.step()
    assert [type(event) for event in heard] == [StoreFailed]
    store.fault = None
    for _ in range(2):
        forwarder.step()
    assert heard[1:] == [JobsForwarded("t", 1), StoreBack(failures)]
    file.close()


def test_a_spool_that_takes_nothing_is_an_error_of_the_put(queue, store):
    queue.store._spool.file.close()
    store.away = True
    with pytest.raises(StoreClosed):
        queue.put("t", 1)

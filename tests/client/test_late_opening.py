"""A queue whose store's address comes from a function: it opens on first use."""

import asyncio
import gc
import os
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from pywheel import JobQueue, Keyring, ManualClock, NotAStore, StoreClosed
from pywheel.client import calls
from pywheel.jobs.queries import GetJob
from pywheel.stores import open as open_store
from pywheel.stores.memory import MemoryStore
from tests.jobs.waiting import LIMIT, working


@pytest.fixture
def asked():
    return []


@pytest.fixture
def place(tmp_path, asked):
    def place():
        asked.append(1)
        return f"sqlite:///{tmp_path}/jobs.db"

    return place


def test_nothing_is_opened_before_the_first_use(place, asked, tmp_path):
    with JobQueue(place) as queue:
        queue.handler("t")(print)
        assert "not used yet" in repr(queue)
        assert (asked, list(tmp_path.iterdir())) == ([], [])
        assert queue.get(queue.put("t", 1)).json() == 1
        queue.put("t", 2)
        assert asked == [1]
        assert str(tmp_path) in repr(queue)


@pytest.mark.parametrize(
    "use", [lambda queue: queue.aio.put("t"), lambda queue: queue.aio.topics.counts()], ids=["aput", "acounts"]
)
def test_a_coroutine_may_be_the_first_to_use_it(place, asked, use):
    with JobQueue(place) as queue:
        asyncio.run(use(queue.aio))
        assert asked == [1]


def test_a_worker_opens_it(place, asked):
    handled = threading.Event()
    with JobQueue(place) as queue:
        queue.handler("t")(lambda job: handled.set())
        with working(queue):
            queue.put("t")
            assert handled.wait(60)
    assert asked == [1]


def test_the_function_may_return_a_store_and_the_clock_counts():
    clock = ManualClock()
    with JobQueue(lambda: "memory:", clock=clock) as queue:
        queue.put("t", delay="1h")
        assert queue.reserve("t") == []
        clock.advance(3_600)
        assert len(queue.reserve("t")) == 1
    store = open_store("memory:")
    with JobQueue(lambda: store) as queue:
        assert queue.store is store


def test_what_is_wrong_with_the_address_is_said_at_the_first_use_and_again():
    places = ["nowhere://", 5, "memory:"]
    with JobQueue(lambda: places.pop(0)) as queue:
        for _ in range(2):
            with pytest.raises(NotAStore):
                queue.put("t")
        assert queue.put("t")


def test_a_queue_that_was_closed_or_lent_before_its_first_use_never_opens_its_store(place, asked):
    with JobQueue(place) as queue:
        queue.use("memory:")
        queue.put("t")
    queue = JobQueue(place)
    queue.close()
    queue.close()
    with pytest.raises(StoreClosed):
        queue.put("t")
    assert asked == []


def test_a_queue_that_is_closed_while_it_opens_is_closed():
    store = MemoryStore()

    def place():
        queue.close()
        return store

    queue = JobQueue(place)
    for _ in range(2):
        with pytest.raises(StoreClosed):
            queue.put("t")
    with pytest.raises(StoreClosed):
        store.ask(GetJob(1))


@pytest.mark.parametrize("part", ["AsyncGroupCommit", "CompletionListener"])
def test_a_queue_may_be_closed_while_the_parts_of_its_first_use_are_made(monkeypatch, part):
    store, made, closes = MemoryStore(), getattr(calls, part), []

    def closed_meanwhile(*arguments):
        closes.append(queue.close())
        return made(*arguments)

    monkeypatch.setattr(calls, part, closed_meanwhile)
    queue = JobQueue(lambda: store)
    for _ in range(2):
        with pytest.raises(StoreClosed):
            queue.put("t")
    with pytest.raises(StoreClosed):
        store.ask(GetJob(1))
    assert queue.calls.batches._closed
    assert queue.calls.waits._closed
    assert closes == [None]


def test_threads_that_use_it_at_once_have_one_store():
    barrier = threading.Barrier(4)

    def place():
        barrier.wait(60)
        return "memory:"

    with JobQueue(place) as queue, ThreadPoolExecutor(4) as pool:
        stores = [one.result(60) for one in [pool.submit(lambda: queue.store) for _ in range(4)]]
        assert {id(store) for store in stores} == {id(queue.store)}
        assert queue.put("t")


@pytest.fixture(params=["plain", "encrypted", "spooled", "both"])
def fronts(request, tmp_path):
    spool, encryption = {"spool": f"sqlite:///{tmp_path}/spool.db"}, {"encryption": Keyring({"a": bytes(32)})}
    return {"plain": {}, "encrypted": encryption, "spooled": spool, "both": spool | encryption}[request.param]


def used_by_two_at_once(stores, fronts):
    """Return a queue whose function returned one of these stores to each of two threads, before either went on."""
    barrier, left = threading.Barrier(2), list(stores)

    def place():
        barrier.wait(LIMIT)
        return left.pop()

    queue = JobQueue(place, **fronts)
    with ThreadPoolExecutor(2) as pool:
        for one in [pool.submit(queue.put, "t") for _ in range(2)]:
            assert one.result(LIMIT)
    return queue


def is_open(store):
    try:
        store.ask(GetJob(1))
    except StoreClosed:
        return False
    return True


def test_of_two_threads_that_get_one_store_at_once_neither_closes_it(fronts):
    store = MemoryStore()
    with used_by_two_at_once([store, store], fronts) as queue:
        assert queue.put("t")
        assert is_open(store)
        assert sum(thread.name == "pywheel-spool" for thread in threading.enumerate()) == ("spool" in fronts)
    assert not is_open(store)


def test_of_two_threads_that_get_a_store_each_one_closes_its_own(fronts):
    stores = [MemoryStore(), MemoryStore()]
    with used_by_two_at_once(stores, fronts) as queue:
        assert queue.put("t")
        assert sorted(map(is_open, stores)) == [False, True]


def test_a_spool_may_be_opened_late_too(place, asked, tmp_path):
    with JobQueue(place, spool=f"sqlite:///{tmp_path}/spool.db") as queue:
        assert asked == []
        assert queue.put("t") > 0


def test_no_other_attribute_comes_from_nowhere():
    assert not hasattr(JobQueue(lambda: "memory:"), "stroe")


@pytest.mark.stress
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_each_process_opens_its_own_after_a_fork(place, tmp_path):
    from tests.isolated.child import run_well

    code = f"""
import os
from pywheel import JobQueue

queue = JobQueue(lambda: "sqlite:///{tmp_path}/forked.db")
child = os.fork()
if child == 0:
    queue.put("t", "child")
    queue.close()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
queue.put("t", "parent")
assert sorted(job.json() for job in queue.jobs.list()) == ["child", "parent"]
print("well")
"""
    assert run_well("-c", code) == "well\n"


@pytest.mark.parametrize("late", [False, True])
def test_a_queue_that_nobody_closed_is_freed_with_its_last_user(late):
    gc.collect()
    gc.disable()
    try:
        queue = JobQueue((lambda: "memory:") if late else "memory:")
        queue.put("t")
        dropped = weakref.ref(queue)
        del queue
        assert dropped() is None
    finally:
        gc.enable()

"""Closing a store while others use it: a result or StoreClosed, and never a crash."""

import threading
from contextlib import suppress

import pytest

from pywheel import JobQueue, StoreClosed, Worker
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from tests.isolated.child import run_well


def put(store):
    [[id]] = store.apply([ops.Put((NewJob("t", b"x", 0),))])
    return id


CLOSE = """
import sys, threading
from pywheel import JobQueue, StoreClosed

told, wrong = [], []

def work(queue, use):
    try:
        while True:
            use(queue)
    except StoreClosed:
        pass
    except BaseException as error:
        wrong.append(repr(error))

def put(queue):
    told.append(queue.put("t", b"x"))

uses = [put, put, lambda queue: queue.store.get(1), lambda queue: queue.counts(), lambda queue: queue.list(limit=50)]
for _ in range(30):
    queue = JobQueue(sys.argv[1])
    before = len(told)
    threads = [threading.Thread(target=work, args=(queue, use)) for use in uses]
    for thread in threads:
        thread.start()
    while len(told) < before + 20:
        pass
    queue.close()
    for thread in threads:
        thread.join()
with JobQueue(sys.argv[1]) as queue:
    assert sum(queue.counts()["t"]) == len(told), (queue.counts(), len(told))
assert not wrong, wrong[:3]
print("well")
"""


def test_threads_that_put_and_read_get_a_result_or_closed(path):
    assert run_well("-c", CLOSE, f"sqlite:///{path}") == "well\n"


CALLS = {
    "put": put,
    "get": lambda store: store.get(1),
    "jobs": lambda store: store.jobs("t", None, 0, 9),
    "counts": lambda store: store.counts(),
    "topics": lambda store: store.topics(),
    "history": lambda store: store.history(1),
    "next_due": lambda store: store.next_due(),
    "window": lambda store: store.window(["t"], range(16), (0, 0), 9, 9),
    "first_due": lambda store: store.first_due(["t"], 0),
    "hints": lambda store: store.hints(-1),
    "listen": lambda store: store.listen("w"),
    "vacuum": lambda store: store.vacuum(1),
    "check": lambda store: store.check(),
    "backup": lambda store: store.backup("nowhere"),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_method_of_a_closed_store_says_so(store, name):
    put(store)
    store.close()
    store.close()
    with pytest.raises(StoreClosed, match="closed: open another"):
        CALLS[name](store)


def test_close_waits_for_the_transaction_under_way(store):
    began, may_end, ended = threading.Event(), threading.Event(), []
    wall = store.clock.wall

    def slow():
        began.set()
        may_end.wait(60)
        return wall()

    store.clock.wall = slow
    writer = threading.Thread(target=lambda: ended.append(put(store)))
    writer.start()
    assert began.wait(60)
    closer = threading.Thread(target=store.close)
    closer.start()
    while not store._database.over:
        pass
    assert closer.is_alive()
    may_end.set()
    writer.join(60)
    closer.join(60)
    store.clock.wall = wall
    assert ended == [1]
    with pytest.raises(StoreClosed):
        put(store)


def test_a_listener_of_a_closed_store_does_nothing_or_says_closed(store):
    listener = store.listen("w")
    store.close()
    for call in (
        lambda: listener.publish(5),
        lambda: listener.wait(0),
        lambda: listener.wake(),
        lambda: listener.stirred(),
        lambda: listener.close(),
    ):
        with suppress(StoreClosed):
            call()


def test_a_listener_that_waits_is_woken_by_close(store):
    listener = store.listen("w")
    seen = []

    def wait():
        try:
            seen.append(listener.wait(60))
        except StoreClosed:
            seen.append(False)

    thread = threading.Thread(target=wait)
    thread.start()
    store.close()
    thread.join(30)
    assert seen == [False]


def test_a_worker_whose_queue_is_closed_ends_without_a_crash(path):
    queue = JobQueue(f"sqlite:///{path}")
    done = threading.Event()
    queue.handler("t")(lambda job: done.set())
    worker = Worker(queue, grace=1)
    worker.start()
    queue.put("t", b"x")
    assert done.wait(60)
    queue.close()
    worker.stop()
    worker.join(60)

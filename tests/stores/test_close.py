"""Closing a store while others use it: a result or StoreClosed, and never a crash."""

import threading

import pytest

from pywheel import StoreClosed
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import Query
from pywheel.stores import Store, open
from pywheel.stores.sqlite.store import SqliteStore
from tests.isolated.child import run_well
from tests.stores.calls import QUERIES, listening
from tests.stores.files import put

CLOSE = """
import sys, threading, time
from pywheel import JobQueue, StoreClosed
from pywheel.jobs.queries import GetJob

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

get = GetJob(1)
looks = [lambda queue: queue.topics.counts(), lambda queue: queue.jobs.list(limit=50)]
uses = [put, put, lambda queue: queue.store.ask(get), *looks]
for _ in range(30):
    queue = JobQueue(sys.argv[1])
    before = len(told)
    threads = [threading.Thread(target=work, args=(queue, use)) for use in uses]
    for thread in threads:
        thread.start()
    while len(told) < before + 20:
        time.sleep(0.001)
    queue.close()
    for thread in threads:
        thread.join()
with JobQueue(sys.argv[1]) as queue:
    assert sum(queue.topics.counts()["t"]) == len(told), (queue.topics.counts(), len(told))
assert not wrong, wrong[:3]
print("well")
"""


@pytest.mark.stress
def test_threads_that_put_and_read_get_a_result_or_closed(shared_url):
    assert run_well("-c", CLOSE, shared_url) == "well\n"


CALLS = {
    "put": put,
    "apply_within": lambda store: store.apply_within(None, ops.Put(())),
    "apply_each": lambda store: store.apply_each([ops.Pause("t", True)]),
    "died": lambda store: store.died(["t"]),
    "notifier": lambda store: store.notifier("w"),
    "quiet": lambda store: store.quiet("t", 0),
    "about": lambda store: store.about(),
    "vacuum": lambda store: store.vacuum(1),
    "verify": lambda store: store.verify(),
    "rewrite": lambda store: store.rewrite(),
    "check": lambda store: store.check(),
    "backup": lambda store: store.backup("nowhere"),
    **{kind.__name__: lambda store, query=query: store.ask(query) for kind, query in QUERIES.items()},
}


@pytest.mark.parametrize("name", CALLS)
def test_every_method_of_a_closed_store_says_so(store, name):
    put(store)
    store.close()
    store.close()
    with pytest.raises(StoreClosed, match="closed: open another"):
        CALLS[name](store)


def test_every_method_was_tried():
    methods = {name for kind in (Store, SqliteStore) for name in vars(kind) if callable(getattr(kind, name))}
    untried = {"apply", "ask", "close", "opened", "sealed", "sealed_result"}
    of_the_process = {"before_exit", "before_fork", "after_fork_in_child", "after_fork_in_parent"}  # also when closed
    tried = {name for name in CALLS if name not in {"put", *(kind.__name__ for kind in QUERIES)}}
    assert {name for name in methods if not name.startswith("_")} == tried | untried | of_the_process
    # Of the package alone: tests have some of their own, which the same process may have run.
    ours = {kind.__name__ for kind in Query.__subclasses__() if kind.__module__ == Query.__module__}
    assert {kind.__name__ for kind in QUERIES} == ours


def while_closing(store, use, expected):
    """Close the store while a thread is in the middle of a transaction; it gets its result."""
    began, may_end, ended = threading.Event(), threading.Event(), []
    wall = store.clock.wall

    def slow():
        began.set()
        may_end.wait(60)
        return wall()

    store.clock.wall = slow
    writer = threading.Thread(target=lambda: ended.append(use()))
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
    assert ended == [expected]


def test_close_waits_for_the_transaction_under_way(store):
    while_closing(store, lambda: put(store), 1)
    with pytest.raises(StoreClosed):
        put(store)


def test_a_commit_under_way_ends_and_tells_its_worker_though_it_is_being_closed(store, clock):
    """What it still has to read of other workers, it may."""
    with open(store.url, clock=clock) as other:
        notifier = listening(other)
        while_closing(store, lambda: store.apply([ops.Put((NewJob("t", b"x", 0), NewJob("t", b"x", 0)))]), [[1, 2]])
        assert notifier.wait(60) is True
        hints = notifier.hints()
        assert hints.reload or {due.id for due in hints.due} == {1, 2}


def test_a_notifier_of_a_closed_store_does_nothing_or_says_closed(store):
    notifier = listening(store)
    store.close()
    notifier.publish(5)
    notifier.beat(0)
    notifier.quiet()
    notifier.ring(notifier.worker)
    notifier.wake()
    assert notifier.wait(60) is False
    for query in (notifier.members, notifier.hints):
        with pytest.raises(StoreClosed):
            query()
    notifier.close()
    notifier.close()


@pytest.mark.parametrize("close", ["the store", "the notifier"])
def test_a_notifier_that_waits_is_woken_by_close(store, close):
    notifier = listening(store)
    began, seen = threading.Event(), []
    page = notifier._page
    wait = page.wait

    def waiting(*arguments):
        began.set()
        wait(*arguments)

    page.wait = waiting
    thread = threading.Thread(target=lambda: seen.append(notifier.wait(600)))
    thread.start()
    assert began.wait(60)
    (store if close == "the store" else notifier).close()
    thread.join(60)
    assert len(seen) == 1
    assert notifier.wait(600) is False


NOTIFIERS = """
import os, sys, threading
from pywheel import StoreClosed
from pywheel.jobs import commands as ops
from pywheel.stores import open

wrong = []

def listen(store):
    try:
        while True:
            notifier = store.notifier("w")
            try:
                use(store, notifier)
            finally:
                notifier.close()
    except StoreClosed:
        pass
    except BaseException as error:
        wrong.append(repr(error))

def use(store, notifier):
    store.apply([ops.Announce(notifier.worker, ("t",))])
    notifier.publish(2**60)
    for _ in range(3):
        notifier.beat(0)
        notifier.wait(0.0005)
        notifier.members()
        notifier.hints()
        notifier.ring(notifier.worker)

for _ in range(40):
    store = open(sys.argv[1])
    threads = [threading.Thread(target=listen, args=(store,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    store.apply([ops.Pause("t", True)])
    store.close()
    pipes = [os.pipe() for _ in range(10)]  # they get the numbers of what was closed
    for thread in threads:
        thread.join()
    for reading, writing in pipes:
        os.close(writing)
        assert os.read(reading, 1) == b""
        os.close(reading)
assert not wrong, wrong[:3]
print("well")
"""


@pytest.mark.stress
def test_notifiers_that_begin_and_listen_while_it_is_closed_get_a_result_or_closed(shared_url):
    assert run_well("-c", NOTIFIERS, shared_url) == "well\n"

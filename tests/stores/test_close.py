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
from tests.jobs.waiting import until
from tests.stores.calls import QUERIES, listening
from tests.stores.files import put

HEAD = """
import os, sys, threading, time
from pywheel import JobQueue, StoreClosed
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetJob
from pywheel.stores import open

wrong = []

def started(use, *arguments):
    "Return a thread that uses a store until it is closed."
    def work():
        try:
            while True:
                use(*arguments)
        except StoreClosed:
            pass
        except BaseException as error:
            wrong.append(repr(error))

    thread = threading.Thread(target=work)
    thread.start()
    return thread
"""

PROGRAMS = {
    "puts and reads": """
told, get = [], GetJob(1)

def put(queue):
    told.append(queue.put("t", b"x"))

looks = [lambda queue: queue.topics.counts(), lambda queue: queue.jobs.list(limit=50)]
uses = [put, put, lambda queue: queue.store.ask(get), *looks]
for _ in range(30):
    queue = JobQueue(sys.argv[1])
    before = len(told)
    threads = [started(use, queue) for use in uses]
    while len(told) < before + 20:
        time.sleep(0.001)
    queue.close()
    for thread in threads:
        thread.join()
with JobQueue(sys.argv[1]) as queue:
    assert sum(queue.topics.counts()["t"]) == len(told), (queue.topics.counts(), len(told))
""",
    "begins to listen and listens": """
def listen(store):
    notifier = store.notifier("w")
    try:
        store.apply([ops.Announce(notifier.worker, ("t",))])
        notifier.publish(2**60)
        for _ in range(3):
            notifier.beat(0)
            notifier.wait(0.0005)
            notifier.members()
            notifier.hints()
            notifier.ring(notifier.worker)
    finally:
        notifier.close()

for _ in range(40):
    store = open(sys.argv[1])
    threads = [started(listen, store) for _ in range(3)]
    store.apply([ops.Pause("t", True)])
    store.close()
    pipes = [os.pipe() for _ in range(10)]  # they get the numbers of what was closed
    for thread in threads:
        thread.join()
    for reading, writing in pipes:
        os.close(writing)
        assert os.read(reading, 1) == b""
        os.close(reading)
""",
}


@pytest.mark.drawn(2)
@pytest.mark.stress
@pytest.mark.parametrize("what", PROGRAMS)
def test_a_thread_beside_a_close_gets_a_result_or_closed_whatever_it_does(shared_url, what):
    program = f'{HEAD}{PROGRAMS[what]}assert not wrong, wrong[:3]\nprint("well")'
    assert run_well("-c", program, shared_url) == "well\n"


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


def test_a_close_waits_for_the_commit_under_way_which_tells_its_worker(store, clock, pool):
    """What the commit still has to read of other workers, it may."""
    began, may_end = threading.Event(), threading.Event()
    wall = store.clock.wall

    def slow():
        began.set()
        may_end.wait(60)
        return wall()

    with open(store.url, clock=clock) as other:
        notifier = listening(other)
        store.clock.wall = slow
        writing = pool.submit(store.apply, [ops.Put((NewJob("t", b"x", 0), NewJob("t", b"x", 0)))])
        assert began.wait(60)
        closing = pool.submit(store.close)
        until(lambda: store._database.over)
        assert not closing.done()
        may_end.set()
        assert (writing.result(60), closing.result(60)) == ([[1, 2]], None)
        store.clock.wall = wall
        with pytest.raises(StoreClosed):
            put(store)
        assert notifier.wait(60) is True
        hints = notifier.hints()
        assert hints.reload or {due.id for due in hints.due} == {1, 2}


@pytest.mark.parametrize("close", ["the store", "the notifier"])
def test_a_notifier_that_waits_is_woken_by_close(store, pool, close):
    notifier = listening(store)
    began = threading.Event()
    page = notifier._page
    wait = page.wait

    def waiting(*arguments):
        began.set()
        wait(*arguments)

    page.wait = waiting
    seen = pool.submit(notifier.wait, 600)
    assert began.wait(60)
    (store if close == "the store" else notifier).close()
    assert isinstance(seen.result(60), bool)
    assert notifier.wait(600) is False

"""Signal handlers in the middle of puts."""

import json
import signal

import pytest

from pywheel import StoreBusy, StoreClosed
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores import open
from pywheel.testing import ManualClock
from tests.isolated.child import ROOT, run
from tests.often import often
from tests.stores.files import interrupted, put

CHILD = str(ROOT / "tests" / "stores" / "interrupts_child.py")

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")


@pytest.mark.drawn(4)
@pytest.mark.stress
@pytest.mark.parametrize("seed", often(range(4)))
def test_a_storm_of_interrupts_leaves_a_store_that_works_and_every_put_that_was_told(shared_url, seed):
    puts = 1000 if shared_url.startswith("sqlite:") else 300
    result = run(CHILD, shared_url, str(puts), str(seed))
    assert result.returncode == 0, result.stderr
    # Python cannot raise an exception that ends a destructor, and prints it instead; drivers have some.
    assert "Traceback" not in result.stderr.partition("Exception ignored")[0]
    missing, twice, errors, interrupted, told = json.loads(result.stdout)
    assert missing == []
    assert twice == 0
    if shared_url.startswith("sqlite:"):
        assert errors == []  # the other threads had none of it
    else:  # a commit on its way to a server cannot be called back
        # and psycopg takes any exception that comes as it reads a number for a bad number
        assert [error for error in errors if "is not known" not in error and "bad value" not in error] == []
    assert interrupted > 0
    assert told + len(errors) >= puts


def in_the_middle(store, handler):
    """Put a job; have a signal handler called in the middle of it. Return the job's id."""
    before = signal.signal(signal.SIGTERM, handler)
    wall = store.clock.wall

    def interrupted():
        store.clock.wall = wall
        signal.raise_signal(signal.SIGTERM)
        return wall()

    store.clock.wall = interrupted  # the store asks for the time in the middle of its turn
    try:
        return put(store)
    finally:
        store.clock.wall = wall
        signal.signal(signal.SIGTERM, before)


def count(store):
    return store.ask(CountJobs())


@pytest.mark.parametrize(("url", "uses"), [("memory:", [put, count]), ("sqlite:///{}", [put])], ids=["memory", "file"])
def test_a_signal_handler_in_the_middle_of_a_put_is_told_that_the_store_is_busy(path, clock, url, uses):
    seen = []

    def handler(*_):
        for use in uses:
            with pytest.raises(StoreBusy, match="a signal handler cannot"):
                use(store)
            seen.append(use)

    with open(url.format(path), clock=clock) as store:
        id = in_the_middle(store, handler)
        assert seen == uses
        assert (store.ask(GetJob(id)).id, put(store)) == (id, id + 1)


def test_a_put_that_a_signal_handler_closes_the_store_in_is_told_and_all_else_is_closed():
    with open("memory:", clock=ManualClock()) as store:
        assert in_the_middle(store, lambda *_: store.close()) == 1
        for use in (put, count):
            with pytest.raises(StoreClosed):
                use(store)


def test_an_interrupted_transaction_is_undone_and_the_next_one_works(store):
    put(store)
    with interrupted(ops.Put):
        store.apply([ops.Put((NewJob("t", b"", 0), NewJob("new", b"", 0)))])
    assert {name: count.delayed for name, count in store.ask(CountJobs()).items()} == {"t": 1}
    assert put(store) == 2
    assert store.apply([ops.Put((NewJob("new", b"", 0),))]) == [[3]]
    assert {name: count.delayed for name, count in store.ask(CountJobs()).items()} == {"t": 2, "new": 1}


def test_what_the_main_thread_can_not_give_back_others_take_over(store, pool):
    put(store)
    store._group_commit._token.acquire()  # as if signals had ended every attempt to give it back
    store._presence.page.enter(0)
    assert pool.submit(put, store).result(60) == 2
    assert put(store) == 3

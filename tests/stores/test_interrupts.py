"""Signal handlers that raise, in the middle of puts."""

import json
import signal
import threading

import pytest

from pywheel import StoreBusy
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob
from pywheel.stores.sql import engine
from tests.isolated.child import ROOT, run
from tests.often import often
from tests.stores.files import put

CHILD = str(ROOT / "tests" / "stores" / "interrupts_child.py")

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")


@pytest.mark.stress
@pytest.mark.parametrize("seed", often(range(4)))
def test_a_storm_of_interrupts_leaves_a_store_that_works_and_every_put_that_was_told(shared_url, seed):
    puts = 1000 if shared_url.startswith("sqlite:") else 300
    result = run(CHILD, shared_url, str(puts), str(seed))
    assert result.returncode == 0, result.stderr
    # Python cannot raise an exception that ends a destructor, and prints it instead; drivers have some.
    assert "Traceback" not in result.stderr.partition("Exception ignored")[0]
    missing, twice, errors, interrupted, _, _, told = json.loads(result.stdout)
    assert missing == []
    assert twice == 0
    if shared_url.startswith("sqlite:"):
        assert errors == []  # the other threads had none of it
    else:  # a commit on its way to a server cannot be called back
        # and psycopg takes any exception that comes as it reads a number for a bad number
        assert [error for error in errors if "is not known" not in error and "bad value" not in error] == []
    assert interrupted > 0
    assert told + len(errors) >= puts


def test_a_put_in_a_signal_handler_that_interrupted_a_put_is_busy_and_the_put_goes_on(store):
    seen = []

    def handler(number, frame):
        try:
            put(store)
        except StoreBusy as error:
            seen.append(error)

    before = signal.signal(signal.SIGUSR1, handler)
    wall = store.clock.wall

    def interrupted():
        signal.raise_signal(signal.SIGUSR1)
        return wall()

    try:
        store.clock.wall = interrupted  # the store asks for the time in the middle of its turn
        id = put(store)
    finally:
        store.clock.wall = wall
        signal.signal(signal.SIGUSR1, before)
    assert len(seen) == 1
    assert store.ask(GetJob(id)).id == id
    assert put(store) == id + 1


def test_an_interrupted_transaction_is_undone_and_the_next_one_works(store, monkeypatch):
    put(store)
    real = engine._PARTS[ops.Put]

    def interrupted(*arguments):
        yield from real(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(engine._PARTS, ops.Put, interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.apply([ops.Put((NewJob("t", b"", 0), NewJob("new", b"", 0)))])
    assert {name: count.delayed for name, count in store.ask(CountJobs()).items()} == {"t": 1}
    assert put(store) == 2
    assert store.apply([ops.Put((NewJob("new", b"", 0),))]) == [[3]]
    assert {name: count.delayed for name, count in store.ask(CountJobs()).items()} == {"t": 2, "new": 1}


def test_what_the_main_thread_can_not_give_back_others_take_over(store):
    put(store)
    store._group_commit._token.acquire()  # as if signals had ended every attempt to give it back
    store._presence.page.enter(0)
    told = []
    thread = threading.Thread(target=lambda: told.append(put(store)))
    thread.start()
    thread.join(60)
    assert told == [2]
    assert put(store) == 3

"""Facts of every store on a server: bad input, threads, exits, clocks. One body for all of them."""

import gc
import itertools
import time
import weakref
from functools import partial
from urllib.parse import quote

import pytest

from pywheel import BadAddress, JobQueue
from pywheel.jobs import State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetJob, GetNote, ListNotes
from pywheel.stores import open
from tests.isolated.child import run_well
from tests.jobs.waiting import finished, until, working
from tests.stores.calls import in_threads, listening
from tests.stores.files import put
from tests.stores.refusing import refused


@pytest.fixture
def url(server):
    return server.url()


@pytest.fixture
def store(url):
    with open(url) as store:
        yield store


# ---- bad input ------------------------------------------------------------------------------------------------------

SERIAL = itertools.count()


def test_names_that_are_part_of_statements_are_few(server):
    base = server.url().partition("?")[0]
    for option in ("prefix",) if server.program == "redis-server" else ("prefix", "schema"):
        for word in ("'; DROP TABLE x; --", "a b", "", "A", "1a", "x" * 50, 'a"b', "ü"):
            refused(BadAddress, option, open, f"{base}?{option}={quote(word, safe='')}")


# ---- threads, and the end -------------------------------------------------------------------------------------------


def test_thirty_two_threads_that_put_get_an_id_each(store):
    def work():
        return [put(store, topic=f"t{n % 3}", key=None if n % 2 else f"k{next(SERIAL)}") for n in range(10)]

    assert len({id for ids in in_threads(*[work] * 32) for id in ids}) == 320
    assert sum(count.delayed for count in store.ask(CountJobs()).values()) == 320


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # psycopg warns of open connections
def test_a_store_that_nobody_closed_is_freed(url):
    queue = JobQueue(url)
    queue.put("t")
    dropped = weakref.ref(queue.store)
    del queue
    until(lambda: gc.collect() >= 0 and dropped() is None)  # not once: a thread tells of the put


LEAVE = """
import sys
from pywheel import JobQueue
queue = JobQueue(sys.argv[1])
queue.put("t", b"first")
print(queue.put("t", b"x"))
"""


@pytest.mark.parametrize("how", ["", "import threading; threading.Thread(target=queue.topics.counts).start()"])
def test_a_program_that_ends_with_its_store_open_ends_well_and_its_last_put_is_heard_of(store, how):
    """Whoever tells the workers is a thread of its own: what it has not told yet, it tells at the end."""
    notifier = listening(store)
    id = int(run_well("-c", f"{LEAVE}{how}", store.secret_url))

    def told():
        notifier.wait(0.1)
        hints = notifier.hints()
        assert not hints.reload
        return id in {due.id for due in hints.due}

    until(told)
    notifier.close()


def test_a_worker_finds_a_job_of_which_nobody_told_it(store, monkeypatch):
    """Whoever put it was killed between the commit and the telling; also if it is the first of its topic."""
    with open(store.secret_url) as other:
        queue = JobQueue(store)
        queue.handler("t")(print)
        queue.handler("new")(print)
        with working(queue):
            finished(queue, queue.put("t"))
            time.sleep(2.5)  # it reads all once more, soon after it began
            silence(other, monkeypatch)
            for topic in ("t", "new"):
                id = put(other, topic=topic)  # to ask its own store would tell it of the topic
                until(lambda id=id: other.ask(GetJob(id)).state is State.DONE)


def silence(store, monkeypatch):
    """Have a store tell nobody of what it does."""
    if not hasattr(store, "_presence") or not hasattr(store._presence, "tell"):
        pytest.skip("it is the server that tells the workers")
    monkeypatch.setattr(store._presence, "tell", lambda *_: None)


# ---- notes ----------------------------------------------------------------------------------------------------------


def test_many_who_take_turns_by_notes_and_puts_with_nonces_go_on_after_each_conflict(url):
    def count(store):
        done = 0
        while done < 25:
            turn = int(store.ask(GetNote("turn")) or b"0") + 1
            step = [ops.Put((), f"turn {turn}"), ops.SetNote(f"turn {turn}", b"", absent=True)]
            if store.apply(step)[1] is None:
                store.apply([ops.SetNote("turn", b"%d" % turn)])
                done += 1

    with open(url) as one, open(url) as two, open(url) as three:
        in_threads(*(partial(count, store) for store in (one, two, three)))
        assert one.ask(GetNote("turn")) == b"75"
        assert len(one.ask(ListNotes("turn "))) == 75

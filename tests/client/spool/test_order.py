"""The order of puts in a spool, and queries about its jobs."""

import contextlib
import random
import threading
from datetime import UTC, datetime
from itertools import count

import pytest

from pywheel import Change, JobQueue, NoSuchJob, Result, StoreAway
from pywheel.client.spool import Spool
from pywheel.clock import MonotonicClock
from pywheel.events import JobRefused
from pywheel.jobs import Outcome, State
from pywheel.jobs.commands import Cancel, Edit
from pywheel.jobs.queries import GetJob
from tests.client.spool.spooled import back, bodies, forwarded, puts_jobs
from tests.jobs.waiting import until

LATER = datetime(2100, 1, 1, tzinfo=UTC)


@contextlib.contextmanager
def forwarding(queue, store=None):
    """Be another process that forwards what waits in the spool now, and does not come to an end; a store is back."""
    other = Spool(queue.store._spool.file.url)
    batch = other.take()
    if store is not None:
        store.away = False
        until(lambda: queue.store._breaker.away is None)
    yield
    other.give_back(batch)
    other.close()


def test_a_put_with_a_key_is_not_overtaken_by_an_older_one_of_the_spool(queue, store):
    store.away = True
    old = queue.put("t", "old", key="k", replace=True)
    with forwarding(queue, store):
        plain = queue.put("t", "plain")
        new = queue.put("t", "new", key="k", replace=True)
        assert (plain > 0, old < 0, new < 0) == (True, True, True)
        assert bodies(store) == ["plain"]
    until(lambda: forwarded(queue))
    assert bodies(store) == ["plain", "new"]
    assert queue.get(old) == queue.get(new) == queue.get(("t", "k"))
    assert queue.put("t", "newest", key="k", replace=True) == queue.get(new).id


def test_a_key_that_is_taken_by_then_is_refused_kept_and_can_be_sent_again(queue, store, heard):
    holder = queue.put("t", "first", key="k")
    store.away = True
    refused, other = queue.put("t", "second", key="k"), queue.put("t", "third")
    both = queue.put_many([queue.job("t", "fourth"), queue.job("t", "fifth", key="k")])
    back(queue, store)
    assert bodies(store) == ["first", "third"]
    assert queue.get(other).id > 0
    for id in (refused, *both):
        job = queue.get(id)
        assert (job.id, job.state) == (id, State.DEAD)
        assert job.last_error.startswith(f"JobExists: job {holder} has the key 'k' already and is live")
        assert queue.cancel(id) is queue.reschedule(id, 5) is Change.DEAD
        result = Result(id, State.DEAD, None, job.last_error)
        assert queue.wait(id, 60) == queue.result(id) == result
        [attempt] = queue.jobs.history(id)
        assert (attempt.outcome, attempt.error) == (Outcome.FAILED, job.last_error)
        assert attempt.ended is not None
    told = [event for event in heard if isinstance(event, JobRefused)]
    assert [(event.id, event.key) for event in told] == [(refused, "k"), (both[0], None), (both[1], "k")]
    assert queue.cancel(holder)
    assert queue.jobs.retry(refused)
    until(lambda: forwarded(queue))
    assert queue.get(refused).json() == "second"
    assert queue.jobs.delete(both[0])
    with pytest.raises(NoSuchJob):
        queue.get(both[0])


def test_a_job_of_the_spool_is_cancelled_there_or_where_it_is(queue, store):
    store.away = True
    queue.put("t", 0)  # finds it away, and may have arrived
    first, second, *pair = queue.put("t", 1), queue.put("t", 2), *queue.put_many([queue.job("t", 3), queue.job("t", 4)])
    assert queue.cancel(first)
    assert queue.cancel(first) is queue.reschedule(first, 5) is Change.CANCELLED
    assert queue.get(first).state is State.CANCELLED
    for ask in (lambda: queue.cancel(pair[0]), lambda: queue.reschedule(second, 5), lambda: queue.jobs.delete(second)):
        with pytest.raises(StoreAway, match="not known yet"):
            ask()
    assert queue.jobs.retry(second) is Change.DELAYED
    back(queue, store)
    assert bodies(store) == [0, 2, 3, 4]
    assert queue.reschedule(second, "1h")
    assert queue.cancel(pair[0])
    assert queue.get(pair[0]).state is State.CANCELLED
    assert [row.outcome for row in queue.jobs.history(pair[0])] == ["cancelled"]
    assert queue.jobs.delete(second)
    with pytest.raises(NoSuchJob):
        queue.get(second)
    assert queue.cancel(second) is Change.NOT_FOUND
    for unknown in (-99, -(2**62)):
        assert queue.cancel(unknown) is queue.jobs.delete(unknown) is Change.NOT_FOUND
        with pytest.raises(NoSuchJob):
            queue.get(unknown)


def test_a_job_of_the_spool_is_cancelled_if_it_is_as_expected(queue, store):
    store.away = True
    queue.put("t", 0)  # finds it away, and may have arrived
    first, second = queue.put("t", 1, at=LATER), queue.put("t", 2, at=LATER)
    due = queue.get(first).due
    for expect in ((due, 1), (due + 1, 0)):
        moved = queue.calls.apply(Edit(first, 5, None, expect))
        assert queue.calls.apply(Cancel(first, expect)) is moved is Change.CHANGED
    with pytest.raises(StoreAway, match="not known yet"):
        queue.calls.apply(Edit(first, 5, None, (due, 0)))
    assert queue.calls.apply(Cancel(first, (due, 0)))
    back(queue, store)
    assert queue.calls.apply(Cancel(second, (due, 1))) is Change.CHANGED
    assert queue.calls.apply(Cancel(second, (due, 0)))


def test_what_may_have_been_sent_is_not_said_to_be_cancelled(queue, store):
    store.away = True
    id = queue.put("t", 1)
    with forwarding(queue), pytest.raises(StoreAway):
        queue.cancel(id)
    with pytest.raises(StoreAway):
        queue.cancel(id)
    back(queue, store)
    assert bodies(store) == [1]
    assert queue.cancel(id)


def test_a_put_whose_answer_was_lost_is_not_said_to_be_cancelled_while_it_waits(queue, store):
    """It may be in the store, where a worker may have it."""

    def lost(when, commands):
        if when == "after" and puts_jobs(commands):
            store.away = True
            raise StoreAway("the answer was lost")

    store.fault = lost
    id = queue.put("t", 1, at=LATER)
    due = queue.get(id).due
    assert id < 0
    for cancel in (Cancel(id), Cancel(id, (due, 1))):
        with pytest.raises(StoreAway, match="not known yet"):
            queue.calls.apply(cancel)
    store.fault = None
    back(queue, store)
    assert bodies(store) == [1]
    assert queue.cancel(id)
    assert store.inner.ask(GetJob(1)).state is State.CANCELLED


def test_nothing_is_said_of_a_key_while_it_may_belong_to_a_job_of_the_spool(queue, store):
    store.away = True
    queue.put("t", 1, key="k")
    with forwarding(queue, store):
        for ask in (queue.cancel, queue.jobs.retry, queue.jobs.delete, lambda ref: queue.reschedule(ref, 5)):
            with pytest.raises(StoreAway, match="not known yet"):
                ask(("t", "k"))
    until(lambda: forwarded(queue))
    assert queue.cancel(("t", "k"))


def test_a_put_in_the_callers_own_transaction_is_never_spooled(queue, store):
    within = []
    store.apply_within = lambda connection, put: within.append((connection, put)) or [7]
    assert queue.put("t", 1, key="k", connection="theirs") == 7
    store.away = True
    queue.put("t", 2)
    assert queue.put("t", 3, connection="theirs") == 7
    with pytest.raises(StoreAway, match="older put of this key"):
        queue.put("t", 4, key="k", connection="theirs")
    assert [connection for connection, _ in within] == ["theirs", "theirs"]


def test_a_job_of_the_spool_is_not_cancelled_in_the_callers_own_transaction(queue, store):
    """It is not in that database; once it is, its id of the spool names it there."""
    within = []
    store.apply_within = lambda connection, command: within.append((connection, command.ref)) or True
    store.away = True
    id = queue.put("t", 1, key="k")
    with forwarding(queue, store):
        for ref in (id, ("t", "k")):
            for ask in (queue.cancel, lambda ref, connection: queue.reschedule(ref, 5, connection=connection)):
                with pytest.raises(StoreAway, match="not known yet"):
                    ask(ref, connection="theirs")
    until(lambda: forwarded(queue))
    assert queue.cancel(id, connection="theirs")
    assert queue.cancel(("t", "k"), connection="theirs")
    assert within == [("theirs", queue.get(id).id), ("theirs", ("t", "k"))]
    assert queue.get(id).id > 0


def test_threads_of_two_queues_beside_a_store_that_comes_and_goes(queue, store, spool):
    told, over, dice = {n: [] for n in range(4)}, threading.Event(), random.Random(1)

    def lose(when, commands):
        if dice.random() < 0.05:
            raise StoreAway(f"the connection broke {when} the commit")

    def produce(topic, key, mine):
        number = 0
        while not over.is_set():
            mine.put(topic, number, key=key, replace=key is not None)
            told[int(topic)].append(number)
            number += 1

    with JobQueue(store, spool=spool) as other:
        store.fault = lose
        threads = [
            threading.Thread(target=produce, args=(str(n), "k" if n > 1 else None, (queue, other)[n % 2])) for n in told
        ]
        for thread in threads:
            thread.start()
        for _ in range(30):
            before = {n: len(numbers) for n, numbers in told.items()}
            until(lambda before=before: all(len(told[n]) > before[n] + 3 for n in told))
            store.away = not store.away
        over.set()
        for thread in threads:
            thread.join()
        store.fault = None
        back(queue, store)
        until(lambda: other.store._breaker.away is None)
    for n, numbers in told.items():
        assert sorted(bodies(store, str(n))) == (numbers if n < 2 else numbers[-1:])


class Leap:
    """Has every wall clock leap beyond all leases when this thread reads one for the nth time."""

    def __init__(self, monkeypatch):
        self.thread, self.reads, self.ahead = threading.get_ident(), 0, 0
        wall = MonotonicClock.wall
        monkeypatch.setattr(MonotonicClock, "wall", lambda clock: self.read() + wall(clock))

    def read(self):
        if threading.get_ident() == self.thread:
            self.reads -= 1
            if self.reads == 0:
                self.ahead += 3_600_000
        return self.ahead


def test_a_put_passes_no_older_one_of_its_key_whenever_the_lease_of_that_ends(queue, store, spool, monkeypatch):
    """Whoever was killed while it forwarded the older one holds it until then."""
    leap = Leap(monkeypatch)
    for reads in count(1):
        key = f"k{reads}"
        store.away = True
        queue.put("t", "old", key=key, replace=True)
        killed = Spool(spool)
        until(killed.take)
        store.away = False
        until(lambda: queue.store._breaker.away is None)
        leap.reads = reads
        queue.put("t", "new", key=key, replace=True)
        over, leap.reads = leap.reads > 0, 1  # the put reads the clock less often
        killed.waiting()
        killed.close()
        until(lambda: forwarded(queue))
        assert queue.get(("t", key)).json() == "new", f"the clock leapt at read {reads} of the put"
        if over:
            break
    assert reads > 1

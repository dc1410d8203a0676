"""Dead jobs: `on_dead` hears of each once, from any worker; so do listeners, and the log."""

import asyncio
import threading

import pytest

from pywheel import JobQueue, StoreAway
from pywheel.events import JobDied
from pywheel.jobs import Outcome, State
from pywheel.jobs.commands import Claim, ClaimPolicy, Expire, Purge
from pywheel.jobs.queries import GetJob
from pywheel.testing import FaultyStore
from tests.jobs.waiting import finished, until, working
from tests.worker.each_store import url

__all__ = ["url"]


def leave(queue, topic="t", count=1):
    """Put jobs, and claim them as somebody who never says how they ended; return their ids."""
    ids = [queue.put(topic, max_attempts=1) for _ in range(count)]
    assert [job.id for job in queue.reserve(topic, count, ttr=0.05)] == ids
    return ids


def handling(queue, topic="t"):
    """Make a handler that never begins with what has died."""

    @queue.handler(topic)
    def handle(job):
        raise AssertionError("a dead job was handled")


def test_of_several_workers_one_calls_on_dead_for_a_job_whose_last_lease_was_lost(live_queue):
    seen = []
    live_queue.on_dead(seen.append)
    handling(live_queue)
    ids = leave(live_queue, count=20)
    with working(live_queue), working(live_queue), working(live_queue):
        until(lambda: {job.id for job in seen} == set(ids))
    assert sorted(job.id for job in seen) == ids  # all is told once the workers have ended
    assert {(job.state, job.attempt, job.lease_until) for job in seen} == {(State.DEAD, 1, None)}
    assert all("lease was lost" in job.last_error for job in seen)
    assert {live_queue.jobs.history(id)[-1].outcome for id in ids} == {Outcome.LOST}


ENDS = {
    "reserve": lambda queue, id: queue.reserve("t"),
    "put with its key": lambda queue, id: queue.put("t", key="k", delay=3_600),
    "put that replaces": lambda queue, id: queue.put("t", key="k", delay=3_600, replace=True),
    "cancel": lambda queue, id: queue.cancel(id),
    "cancel by key": lambda queue, id: queue.cancel(("t", "k")),
    "reschedule": lambda queue, id: queue.reschedule(id, 3_600),
    "edit": lambda queue, id: queue.jobs.edit(id, body=1),
    "purge": lambda queue, id: queue.store.apply([Purge(State.DEAD, 60_000, None, 10)]),
    "claim": lambda queue, id: queue.store.apply([Claim("t", (id,), ClaimPolicy(1_000, 1), "w", 1)]),
    "expire": lambda queue, id: queue.store.apply([Expire(10)]),
    "retry": lambda queue, id: queue.jobs.retry(id, delay=3_600),
}


@pytest.mark.parametrize("ended", ENDS)
def test_whatever_ends_the_last_lease_on_dead_is_called_once(live_queue, ended):
    seen = []
    live_queue.on_dead(seen.append)
    live_queue.handler("t")(lambda job: None)
    id = live_queue.put("t", max_attempts=1, key="k")
    assert [job.id for job in live_queue.reserve("t", ttr=0.02)] == [id]
    until(lambda: live_queue.get(id).state is State.DEAD)
    ENDS[ended](live_queue, id)
    with working(live_queue), working(live_queue):
        until(lambda: seen)
    assert [(job.id, job.state, "lease was lost" in job.last_error) for job in seen] == [(id, State.DEAD, True)]
    assert live_queue.store.died(["t"]) == []


@pytest.mark.parametrize("there", [True, False])
def test_of_another_programs_job_its_own_worker_is_told_once_it_is_there(live_queue, url, there):
    """Whoever ends the lease: its worker is there by then, or comes later."""
    died, seen, others = [], [], []
    live_queue.events.listen(lambda event: died.append(event.job.id) if isinstance(event, JobDied) else None)
    live_queue.on_dead(seen.append)
    handling(live_queue)
    with JobQueue(live_queue.store if url == "memory:" else url) as other:
        other.on_dead(lambda job: others.append(job.id))
        handling(other, "of another")
        ids = leave(live_queue, "of another", 3)
        with working(live_queue):
            if not there:
                until(lambda: sorted(died) == ids)
            with working(other), working(other):
                until(lambda: set(others) == set(ids))
        assert (sorted(others), seen) == (ids, [])
        assert live_queue.store.died(["of another"]) == []


def test_a_job_that_died_with_its_worker_is_logged_and_counted(live_queue, metrics, caplog):
    handling(live_queue)
    [id] = leave(live_queue)
    with working(live_queue):
        until(lambda: metrics.total("dead", "t") == 1)
    lines = [record for record in caplog.records if getattr(record, "event", None) == "job_dead"]
    assert [(line.levelname, line.fields["job"], line.fields["reason"]) for line in lines] == [
        ("ERROR", id, "lease_lost")
    ]


@pytest.mark.parametrize("how", ["fails", "lease is lost"])
def test_no_job_waits_for_what_is_done_about_the_dead(live_queue, how):
    called, release = threading.Event(), threading.Event()

    @live_queue.on_dead
    def hang(job):
        called.set()
        release.wait(60)

    live_queue.handler("t")(lambda job: 1 / 0)
    live_queue.handler("u")(lambda job: None)
    if how == "fails":
        live_queue.put("t", max_attempts=1)
    else:
        leave(live_queue)
    with working(live_queue):
        assert called.wait(60)
        assert finished(live_queue, live_queue.put("u")).state is State.DONE
        release.set()


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("kind", ["function", "coroutine function"])
def test_a_call_for_a_dead_job_that_raises_anything_stops_no_later_call(queue, kind, error, caplog):
    """As of a function that runs a loop of its own, in which something was cancelled."""
    seen = []

    def report(job):
        seen.append(job.id)
        raise error

    async def later(job):
        report(job)

    queue.on_dead(report if kind == "function" else later)
    queue.on_dead(lambda job: seen.append(job.id))
    queue.handler("t")(lambda job: 1 / 0)
    ids = [queue.put("t", max_attempts=1) for _ in range(3)]
    with working(queue):
        until(lambda: len(seen) == 6)
    assert sorted(seen) == sorted(2 * ids)
    assert sum("failed for the dead job" in record.message for record in caplog.records) == 3


def test_a_death_is_told_though_the_store_fails_once_it_was_taken_from_there(live_queue):
    seen, taken, failed = [], [], []

    class Fails(FaultyStore):
        def died(self, topics):
            taken.extend(found := super().died(topics))
            return found

        def ask(self, query):
            if isinstance(query, GetJob) and query.ref in taken and not failed:
                failed.append(taken[:])
                taken.clear()
                raise StoreAway("on purpose")
            return super().ask(query)

    other = JobQueue(Fails(live_queue.store))
    other.on_dead(lambda job: seen.append(job.id))
    handling(other)
    ids = leave(live_queue, count=3)
    with working(other):
        until(lambda: failed)
        until(lambda: len(seen) == 3)
    assert sorted(seen) == ids


def test_deaths_are_told_though_the_system_had_no_thread_when_they_came(queue, refuse_threads):
    seen, ended = [], []
    queue.on_dead(lambda job: seen.append(job.id))
    queue.handler("t")(lambda job: 1 / 0)
    refused = refuse_threads("pywheel-deaths", lambda _: not ended)
    with working(queue) as worker:
        until(lambda: refused)
        id = queue.put("t", max_attempts=1)
        until(lambda: queue.get(id).state is State.DEAD)
        until(lambda: worker._deaths._told.qsize() > 1)
        ended.append(True)
    assert seen == [id]

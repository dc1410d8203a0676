"""Handlers that have no room for a job now: it is given back unspent, and is due later."""

import threading

import pytest

from pywheel import NotNow
from pywheel.jobs import Outcome, State
from tests.jobs.waiting import finished, until, working

REFUSED = 3


def refuse(job, seen):
    """Refuse each job three times."""
    seen[job.id] = seen.get(job.id, 0) + 1
    if seen[job.id] <= REFUSED:
        raise NotNow(0.05, "no room")


def plain(seen):
    return lambda job: refuse(job, seen)


def coroutine(seen):
    async def handle(job):
        refuse(job, seen)

    return handle


def refusing_by_claims(job):
    """Refuse: for a process of its own, which remembers nothing."""
    if job.claims <= REFUSED:
        raise NotNow(0.05, "no room")


@pytest.mark.parametrize("kind", [plain, coroutine])
def test_a_job_that_is_not_for_now_comes_again_with_all_its_attempts(live_queue, metrics, kind):
    seen = {}
    live_queue.handler("t")(kind(seen))
    id = live_queue.put("t", max_attempts=1)
    with working(live_queue):
        job = finished(live_queue, id)
    assert (job.state, job.attempt, seen[id]) == (State.DONE, 1, REFUSED + 1)
    outcomes = [attempt.outcome for attempt in live_queue.jobs.history(id)]
    assert outcomes == [Outcome.RELEASED] * REFUSED + [Outcome.DONE]
    assert metrics.total("released") == REFUSED


@pytest.mark.stress
def test_a_process_of_its_own_may_say_so_too(live_queue):
    live_queue.handler("t", isolate=True)(refusing_by_claims)
    id = live_queue.put("t", max_attempts=1)
    with working(live_queue):
        job = finished(live_queue, id)
    assert (job.state, job.attempt, job.claims) == (State.DONE, 1, REFUSED + 1)


def test_it_is_due_later_and_not_before(live_queue):
    told = threading.Event()

    @live_queue.handler("t")
    def handle(job):
        told.set()
        raise NotNow("1h")

    id = live_queue.put("t")
    due = live_queue.get(id).due
    with working(live_queue):
        told.wait()
        until(lambda: live_queue.get(id).due >= due + 3_600_000)
        assert live_queue.get(id).state is State.DELAYED

"""Handlers that have no room for a job now: it is given back unspent, and is due later."""

import pytest

from pywheel import NotNow
from pywheel.jobs import Outcome, State
from tests.jobs.waiting import finished, working

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

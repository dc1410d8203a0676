"""Several workers on one store: work goes where there is room, and nobody's death, pause or slowness holds it."""

import contextlib
import threading
import time

import pytest

from pywheel import Fixed, JobQueue, Worker
from pywheel.jobs import Counts, State
from pywheel.stores import open
from tests.jobs.waiting import finished, until


@pytest.fixture
def store(any_url):
    with open(any_url) as store:
        yield store


@contextlib.contextmanager
def crew(store, *handlers, **options):
    """Let a worker for each dict of handlers, by topic, work on a queue of its own on one store."""
    workers = []
    for topics in handlers:
        queue = JobQueue(store)
        for topic, (function, policy) in topics.items():
            queue.handler(topic, **policy)(function)
        workers.append(Worker(queue, **{"grace": 60, **options}))
    for worker in workers:
        worker.start()
    try:
        yield workers
    finally:
        for worker in workers:
            worker.stop()
        for worker in workers:
            assert worker.join(60)


def nothing(job):
    pass


def test_workers_with_different_topics_hold_no_job_of_each_other_up(store):
    """Ownership among all workers would leave half of each topic's jobs to one that has no handler for it."""
    queue = JobQueue(store)
    of_nobody = queue.put("c")
    with crew(store, {"a": (nothing, {})}, {"b": (nothing, {})}) as (a, _):
        until(lambda: len(a._notifier.members()) == 2)
        ids = queue.put_many(queue.job(topic, delay=n / 1000) for n in range(100) for topic in "ab")
        for id in ids:
            assert finished(queue, id).state is State.DONE
    assert queue.topics.counts() == {"a": Counts(done=100), "b": Counts(done=100), "c": Counts(delayed=1)}
    assert (queue.get(of_nobody).claims, queue.jobs.history(of_nobody)) == (0, [])


def test_as_many_long_jobs_as_workers_run_at_the_same_time(store):
    """Each worker handles one at a time. Whoever owns two of them cannot: another takes it."""
    queue, number = JobQueue(store), 40
    together = threading.Barrier(number)
    with crew(store, *[{"t": (lambda job: together.wait(60), {"concurrency": 1})}] * number) as workers:
        until(lambda: len(workers[0]._notifier.members()) == number)
        for id in queue.put_many(queue.job("t") for _ in range(number)):
            assert finished(queue, id).state is State.DONE


def test_a_dead_consumers_job_is_due_again_though_nobody_else_knows_it(store):
    """A `reserve()` loop that dies leaves a lease that no worker gave."""
    queue = JobQueue(store)
    id = queue.put("t")
    with crew(store, {"t": (nothing, {})}) as [worker]:
        queue.topics.pause("t")
        queue.topics.resume("t")
        finished(queue, id)
        other = queue.put("u")
        [job] = queue.reserve("u", ttr=0.3, retry=Fixed(0))
        assert job.id == other
        until(lambda: queue.jobs.history(other)[0].outcome is not None, limit=30)
        assert worker.join(0) is False
    assert queue.get(other).state is State.DELAYED


def test_after_a_pause_returned_nothing_starts_and_what_waited_goes_back(store):
    queue = JobQueue(store)
    starts = []

    def slow(job):
        starts.append(time.monotonic())
        time.sleep(0.001)

    with crew(store, *[{"t": (slow, {"concurrency": 2})}] * 2):
        queue.put_many(queue.job("t") for _ in range(2_000))
        until(lambda: len(starts) > 200)
        assert queue.topics.pause("t")
        paused = time.monotonic()
        until(lambda: queue.topics.counts()["t"].running == 0)
        late = [start - paused for start in starts if start > paused]
        assert queue.topics.counts()["t"].done == len(starts)
        queue.topics.resume("t")
        until(lambda: queue.topics.counts()["t"].done == 2_000)
    assert late == []
    assert len(starts) == 2_000

"""No script keeps others waiting for long: what each does is bounded, whatever else is stored. Counted, not timed."""

import threading

import pytest

from pywheel import JobQueue
from pywheel.jobs.commands import Put, Reserve, Terms
from pywheel.jobs.job import NewJob
from pywheel.stores import open
from pywheel.stores.contract import Span
from pywheel.stores.ownership import ALL
from pywheel.testing import ManualClock
from tests.jobs.waiting import working
from tests.stores.on_redis.monitored import Monitor

COMMANDS, VALUES = 2_000, 25_000  # of a script
MANY = 20_000  # twice as many values, where each job is looked at and asked for its priority
TERMS = Terms(60_000, 3)
BESIDE = [(0, -5), (0, 5), (-3, 0), (3, 0), (-5, 9)]


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def monitor(redis_server):
    with Monitor(redis_server) as monitor:
        yield monitor


@pytest.fixture
def store(redis_server, clock):
    with open(redis_server.url(), clock=clock) as store:
        yield store


def put(store, jobs, due, priority, **options):
    ids = []
    for first in range(0, jobs, 1_000):
        some = min(jobs - first, 1_000)
        ids += store.apply([Put(tuple(NewJob("t", b"", due, priority=priority, **options) for _ in range(some)))])[0]
    return ids


def read(store, until, priority, limit):
    """Return the ids of a priority that are due, as a worker reads them."""
    return [due.id for due in store.windows([Span("t", ALL, (-1, 0), until, priority)], limit)]


def assert_short(scripts, values=VALUES):
    assert scripts
    assert max(script.commands for script in scripts) <= COMMANDS
    assert max(script.values for script in scripts) <= values


class TestABacklogOfAnotherPriority:
    @pytest.mark.parametrize(("priority", "others"), BESIDE)
    def test_jobs_behind_it_are_read_without_walking_through_it(self, store, clock, monitor, priority, others):
        now = clock.wall()
        for due in range(now - 30_000, now, 30_000 * 2_000 // MANY):
            put(store, 1_000, due, others)  # at once, and one by one
            store.apply([Put(tuple(NewJob("t", b"", due + later, priority=others) for later in range(1_000)))])
        own = put(store, 20, now, priority)
        monitor.scripts()
        assert read(store, now, priority, 500) == own
        scripts = monitor.scripts()
        assert_short(scripts)
        assert sum(script.values for script in scripts) <= VALUES

    @pytest.mark.parametrize(("priority", "others"), BESIDE)
    def test_a_reserve_takes_what_comes_first_without_walking_through_it(self, store, clock, monitor, priority, others):
        now = clock.wall()
        backlog = put(store, MANY, now - 30_000, others)
        own = put(store, 20, now, priority)
        monitor.scripts()
        [jobs] = store.apply([Reserve("t", 30, TERMS, "w")])
        expected = [*own, *backlog[:10]] if priority > others else backlog[:30]
        assert [job.id for job in jobs] == expected
        assert_short(monitor.scripts())

    def test_a_worker_delivers_beside_it(self, redis_server, monitor):
        with JobQueue(redis_server.url()) as queue:
            now = queue.store.clock.wall()
            put(queue.store, MANY, now - 30_000, -5)
            own = set(put(queue.store, 20, now, 0))
            seen = []
            enough = threading.Event()

            def handle(job):
                seen.append(job.id)
                if own <= set(seen):
                    enough.set()

            queue.handler("t", concurrency=2)(handle)
            monitor.scripts()
            with working(queue):
                assert enough.wait(60)
            scripts = monitor.scripts()
            assert_short(scripts)
            assert len(seen) < MANY / 10

    def test_a_mixture_of_priorities_is_read_and_reserved_in_short_scripts(self, store, clock, monitor):
        now = clock.wall()
        jobs = [NewJob("t", b"", now, priority=0 if place % 400 == 7 else -5) for place in range(MANY)]
        plain = []
        for first in range(0, MANY, 1_000):
            some = jobs[first : first + 1_000]
            [ids] = store.apply([Put(tuple(some))])
            plain += [id for id, job in zip(ids, some, strict=True) if job.priority == 0]
        monitor.scripts()
        assert read(store, now, 0, 500) == plain
        assert [job.id for job in store.apply([Reserve("t", 30, TERMS, "w")])[0]] == plain[:30]
        assert_short(monitor.scripts())

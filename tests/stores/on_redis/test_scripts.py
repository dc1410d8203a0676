"""No script keeps others waiting for long: what each does is bounded, whatever else is stored. Counted, not timed."""

import contextlib
import threading

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from pywheel.jobs.commands import Announce, Expire, Purge, Put, Reserve, Terms
from pywheel.jobs.job import NewJob
from pywheel.stores import open
from pywheel.stores.contract import Span
from pywheel.stores.ownership import ALL
from pywheel.testing import ManualClock
from tests.jobs.waiting import until, working
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


def claim(store, jobs):
    for _ in range(0, jobs, 500):
        assert len(store.apply([Reserve("t", 500, TERMS, "dead")])[0]) == 500


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


@pytest.mark.parametrize("priority", [0, 3])
class TestLostLeases:
    """After an outage: all that was claimed is lost at once."""

    JOBS = 5_000

    @pytest.fixture
    def lost(self, store, clock, priority):
        """The ids of jobs whose leases are over."""
        ids = put(store, self.JOBS, clock.wall(), priority, max_attempts=1)
        claim(store, self.JOBS)
        clock.advance(61)
        return ids

    @pytest.fixture
    def due(self, store, clock, priority):
        """The same, with attempts left."""
        ids = put(store, self.JOBS, clock.wall(), priority)
        claim(store, self.JOBS)
        clock.advance(61)
        return ids

    def test_a_reserve_ends_them_by_pieces(self, store, due, monitor):
        monitor.scripts()
        [jobs] = store.apply([Reserve("t", 10, TERMS, "w")])
        assert [job.id for job in jobs] == due[:10]
        assert_short(monitor.scripts())

    def test_an_expiry_of_all_ends_them_by_pieces_and_names_the_dead(self, store, lost, monitor):
        monitor.scripts()
        [expired] = store.apply([Expire(10**6)])
        assert expired == (self.JOBS, None, tuple(lost))
        assert_short(monitor.scripts())

    def test_an_expiry_ends_no_more_than_asked(self, store, due):
        assert [store.apply([Expire(2_000)])[0].ended for _ in range(4)] == [2_000, 2_000, 1_000, 0]
        assert len(due) == self.JOBS

    def test_a_purge_of_the_dead_ends_them_by_pieces(self, store, lost, monitor):
        monitor.scripts()
        assert store.apply([Purge(State.DEAD, 0, None, 100)]) == [100]
        assert_short(monitor.scripts())
        assert store.counts()["t"].dead == len(lost) - 100

    def test_commands_beside_a_reserve_happen_once(self, store, clock, due):
        [[id], jobs] = store.apply([Put((NewJob("u", b"", clock.wall()),)), Reserve("t", 10, TERMS, "w")])
        assert [job.id for job in jobs] == due[:10]
        assert [job.id for job in store.apply([Reserve("u", 10, TERMS, "w")])[0]] == [id]
        counts = store.counts()
        assert (counts["t"].delayed, counts["t"].running, counts["u"].running) == (self.JOBS - 10, 10, 1)

    def test_callers_at_the_same_time_each_get_their_own(self, redis_server, priority):
        with JobQueue(redis_server.url()) as queue:
            ids = put(queue.store, self.JOBS, queue.store.clock.wall(), priority)
            claimed = [job.id for _ in range(10) for job in queue.reserve("t", 500, ttr=1)]
            assert claimed == ids
            until(lambda: queue.store.counts()["t"].running == 0)
            found, others, failed = [], [], []
            start = threading.Barrier(8)

            def reserve():
                with contextlib.suppress(threading.BrokenBarrierError):
                    start.wait(60)
                try:
                    found.extend(job.id for job in queue.reserve("t", 500))
                    others.append(queue.put("u"))
                except Exception as error:
                    failed.append(error)

            threads = [threading.Thread(target=reserve) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert failed == []
            assert sorted(found) == ids[:4_000]
            assert len(set(others)) == 8

    def test_a_worker_delivers_each_of_them_once_in_short_scripts(self, redis_server, monitor, priority):
        with JobQueue(redis_server.url()) as queue:
            ids = put(queue.store, self.JOBS, queue.store.clock.wall(), priority)
            for _ in range(10):
                queue.reserve("t", 500, ttr=1)
            until(lambda: queue.store.counts()["t"].running == 0)
            seen = []
            queue.handler("t", concurrency=50)(lambda job: seen.append(job.id))
            monitor.scripts()
            with working(queue):
                until(lambda: queue.store.counts()["t"].done == self.JOBS)
            assert sorted(seen) == ids
            assert_short(monitor.scripts())


def test_a_worker_takes_many_hints_by_pieces(store, clock, monitor):
    notifier = store.notifier("w")
    store.apply([Announce(notifier.worker, ("t",))])
    notifier.publish(clock.wall() + 60_000)
    notifier.hints()
    ids = put(store, 9_000, clock.wall(), 5)
    monitor.scripts()
    hints = notifier.hints()
    assert (sorted(due.id for due in hints.due), hints.reload) == (ids, False)
    assert_short(monitor.scripts(), len(ids))
    notifier.close()

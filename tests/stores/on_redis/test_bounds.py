"""No call keeps others waiting for long: its work is bounded, whatever else is stored. Counted, not timed."""

from itertools import chain
from unittest.mock import ANY

import pytest

from pywheel import JobQueue
from pywheel._errors import StoreAway
from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as ops
from pywheel.jobs import queries as q
from pywheel.jobs.limits import Limits
from pywheel.stores import Filter
from pywheel.stores.redis.queries import _names
from tests.jobs.waiting import until, working
from tests.stores.calls import TERMS
from tests.stores.on_redis.monitored import Monitor

MANY = 12_000  # more values than a call may read, were each job looked at
BESIDE = [(0, -5), (0, 5), (-3, 0), (3, 0), (-5, 9)]


@pytest.fixture
def monitor(redis_server):
    with Monitor(redis_server) as monitor:
        yield monitor


def put(store, jobs, due, priority, **options):
    some = (NewJob("t", b"", due, priority=priority, **options),) * min(jobs, 1_000)
    return [id for first in range(0, jobs, 1_000) for id in store.apply([ops.Put(some[: jobs - first])])[0]]


class TestABacklogOfAnotherPriority:
    @pytest.mark.parametrize(("priority", "others"), BESIDE)
    def test_a_claim_takes_what_comes_first_without_walking_through_it(self, store, clock, monitor, priority, others):
        now = clock.wall()
        backlog = put(store, MANY, now - 30_000, others)
        own = put(store, 20, now, priority)
        put(store, 1, now + 7, -9)
        with monitor.short():
            [claimed] = store.apply([ops.Claim("t", (), TERMS, "w", 30, limit=30)])
            expected = [*own, *backlog[:10]] if priority > others else backlog[:30]
            assert [job.id for job in claimed.jobs] == expected
            assert claimed.next <= now
            after = (others, now - 30_000, backlog[-3])
            [claimed] = store.apply([ops.Claim("t", (), TERMS, "w", 30, limit=30, after=after)])
            assert [job.id for job in claimed.jobs] == [*backlog[-2:], *([] if priority > others else own)]
            assert claimed.next == now + 7
            assert store.ask(q.GetNextDues(["t"])) == {"t": now - 30_000}

    @pytest.mark.parametrize("kind", ["paused", "limited"])
    def test_a_claim_that_may_take_none_walks_through_none(self, store, clock, monitor, kind):
        now = clock.wall()
        put(store, MANY, now, 0)
        policy = TERMS if kind == "paused" else TERMS._replace(limits=Limits(1))
        store.apply([ops.Claim("t", (), policy, "w", 1, limit=1), ops.Pause("t", paused=kind == "paused")])
        with monitor.short(1_000):
            [claimed] = store.apply([ops.Claim("t", (), policy, "w", 50, limit=50)])
            assert (claimed.jobs, claimed.paused, len(claimed.left)) == ([], kind == "paused", 50 * (kind == "limited"))


@pytest.mark.parametrize("priority", [0, 3])
class TestLostLeases:
    """After an outage: all that was claimed is lost at once."""

    JOBS = 5_000

    @pytest.fixture
    def lost(self, store, clock, priority):
        """The ids of jobs whose leases are over, and with them all their attempts."""
        return self.claimed(store, clock, priority, max_attempts=1)

    @pytest.fixture
    def due(self, store, clock, priority):
        """The same, with attempts left."""
        return self.claimed(store, clock, priority)

    def claimed(self, store, clock, priority, **options):
        ids = put(store, self.JOBS, clock.wall(), priority, **options)
        for _ in range(0, self.JOBS, 500):
            assert len(store.apply([ops.Reserve("t", 500, TERMS, "dead")])[0]) == 500
        clock.advance(61)
        return ids

    def test_a_reserve_ends_them_by_pieces(self, store, due, monitor):
        with monitor.short():
            [jobs] = store.apply([ops.Reserve("t", 10, TERMS, "w")])
            assert [job.id for job in jobs] == due[:10]

    def test_a_claim_looks_past_those_that_are_suspect(self, store, clock, due, priority, monitor):
        store.apply([ops.Expire(10**6)])
        own = put(store, 20, clock.wall(), priority)
        clock.advance(1)
        with monitor.short():
            [claimed] = store.apply([ops.Claim("t", (), TERMS, "w", 10, suspects=1, limit=10)])
            assert [job.id for job in claimed.jobs] == [due[0], *own[:9]]

    def test_an_expiry_of_all_ends_them_by_pieces_and_names_the_dead(self, store, lost, monitor):
        with monitor.short():
            [expired] = store.apply([ops.Expire(10**6)])
            assert expired == (self.JOBS, None, tuple(lost))

    def test_a_purge_of_the_dead_ends_them_by_pieces(self, store, lost, monitor):
        with monitor.short():
            assert store.apply([ops.Purge(State.DEAD, 0, None, 100)]) == [100]
        assert store.ask(q.CountJobs())["t"].dead == len(lost) - 100

    def test_they_are_counted_and_listed_by_pieces(self, store, lost, monitor):
        with monitor.short():
            assert store.ask(q.CountJobs())["t"].dead == len(lost)
            assert [id for id, _ in sorted(store.ask(q.ListClaims("dead")))] == lost
            assert len(store.ask(q.GetPage(Filter("t", State.DEAD))).jobs) == 100
            assert store.ask(q.GetNextLease()) is not None


def test_a_worker_delivers_each_job_of_a_lost_lease_once_in_short_calls(redis_server, monitor):
    with JobQueue(redis_server.url()) as queue:
        now = queue.store.clock.wall()
        ids = [id for priority in (0, 3) for id in put(queue.store, 1_500, now, priority)]
        for _ in range(6):
            queue.reserve("t", 500, ttr=1)
        until(lambda: queue.store.ask(q.CountJobs())["t"].running == 0)
        seen = []
        queue.handler("t", concurrency=50)(lambda job: seen.append(job.id))
        with monitor.short():
            with working(queue):
                until(lambda: len(seen) >= len(ids) and queue.store.ask(q.CountJobs())["t"].done == len(ids))
            assert sorted(seen) == ids


class TestManyAtOnce:
    """What one caller asks for is several calls; each is whole in itself."""

    JOBS = 1_100

    @pytest.fixture
    def ids(self, store, clock):
        return put(store, self.JOBS, clock.wall(), 0)

    @pytest.mark.parametrize("reserves", [True, False], ids=["reserve", "claim"])
    def test_a_claim_is_several_short_ones(self, store, ids, monitor, reserves):
        claim = ops.Claim("t", (), TERMS, "w", 700, limit=1_000)
        with monitor.short() as calls:
            [claimed] = store.apply([ops.Reserve("t", 1_000, TERMS, "w") if reserves else claim])
        jobs = claimed if reserves else claimed.jobs
        assert [job.id for job in jobs] == ids[:1_000]
        assert reserves or (claimed.begun, claimed.left, claimed.next) == (700, [], jobs[0].due)
        assert len(calls) >= 4

    def test_ends_of_claims_are_several_calls(self, store, clock, ids, monitor):
        [jobs] = store.apply([ops.Reserve("t", 1_000, TERMS, "w")])
        ends = [ops.Ack(job.id, job.claims) if job.id % 2 else ops.Nack(job.id, job.claims, 0, "e") for job in jobs]
        with monitor.short():
            *ended, claimed = store.apply([*ends, ops.Reserve("t", 1_000, TERMS, "w")])
            assert set(ended) == {True, State.DELAYED}
            assert {job.id for job in claimed} == {*ids[1_000:], *(job.id for job in jobs if not job.id % 2)}

    def test_a_put_with_them_stays_one_call(self, store, clock, ids, monitor):
        [jobs] = store.apply([ops.Reserve("t", 600, TERMS, "w")])
        monitor.calls()
        store.apply([*(ops.Ack(job.id, job.claims) for job in jobs), ops.Put((NewJob("t", b"", clock.wall()),))])
        assert len(monitor.calls()) == 1

    def test_bodies_are_counted_over_all_calls(self, store, clock):
        store.apply([ops.Put((NewJob("b", b"x" * 10, clock.wall()),) * 600)])
        assert len(store.apply([ops.Reserve("b", 600, TERMS, "w", 4_005, 0)])[0]) == 400
        [claimed] = store.apply([ops.Claim("b", (), TERMS, "w", 600, bytes=1_000, limit=600)])
        assert (len(claimed.jobs), claimed.begun) == (100, 100)
        [claimed] = store.apply([ops.Claim("b", (), TERMS, "w", 600, bytes=1, limit=600)])
        assert len(claimed.jobs) == 1

    def goes_after_one_call(self, store, monkeypatch):
        answers = iter([store._apply_piece])

        def breaks(commands):
            try:
                return next(answers)(commands)
            except StopIteration:
                raise StoreAway("gone") from None

        monkeypatch.setattr(store, "_apply_piece", breaks)

    def test_what_was_claimed_is_returned_if_the_server_goes_in_between(self, store, ids, monkeypatch):
        self.goes_after_one_call(store, monkeypatch)
        [jobs] = store.apply([ops.Reserve("t", 1_000, TERMS, "w")])
        assert [job.id for job in jobs] == ids[:250]
        with pytest.raises(StoreAway):
            store.apply([ops.Reserve("t", 1_000, TERMS, "w")])

    def test_ends_that_were_not_sent_say_so_if_the_server_goes_in_between(self, store, ids, monkeypatch):
        [jobs] = store.apply([ops.Reserve("t", 600, TERMS, "w")])
        with monkeypatch.context() as patches:
            self.goes_after_one_call(store, patches)
            outcomes = store.apply([ops.Ack(job.id, job.claims) for job in jobs])
        assert outcomes[:250] == [True] * 250
        assert [type(one) for one in outcomes[250:]] == [StoreAway] * 350
        assert store.apply([ops.Ack(job.id, job.claims) for job in jobs[250:]]) == [True] * 350

    def test_a_list_is_several_short_calls(self, store, ids, monitor):
        with monitor.short():
            page = store.ask(q.GetPage(Filter("t"), limit=1_000))
            assert [job.id for job in page.jobs] == ids[:1_000]
            assert [due.id for due in store.ask(q.ListFirstDue("t", 2_000))] == ids
            assert store.ask(q.CountJobs())["t"].delayed == self.JOBS
            assert len(store.ask(q.GetStates(ids))) == self.JOBS
            assert store.verify() == []

    def test_keyed_jobs_are_put_by_few_commands(self, store, clock, monitor):
        jobs = tuple(NewJob("k", b"", clock.wall(), key=str(place)) for place in range(1_000))
        monitor.calls()
        store.apply([ops.Put(jobs)])
        [call] = monitor.calls()
        assert call.commands <= 1_100


def test_an_expiry_looks_past_topics_whose_leases_ended_otherwise(store, clock):
    for topic, ttr in (("a", 10), ("b", 20), ("c", 30)):
        store.apply([ops.Put((NewJob(topic, b"", 0),))])
        [[job]] = store.apply([ops.Reserve(topic, 1, TERMS._replace(ttr=ttr), "w")])
        if topic == "b":
            store.apply([ops.Ack(job.id, job.claims)])
    clock.advance(1)
    assert store.apply([ops.Expire(2)])[0].ended == 2


def test_a_purge_of_many_forgets_them_by_pieces(store, clock, monitor):
    put(store, 3_000, clock.wall(), 0, headers={"h": "1"})
    for _ in range(6):
        [jobs] = store.apply([ops.Reserve("t", 500, TERMS, "w")])
        store.apply([ops.Ack(job.id, job.claims) for job in jobs])
    with monitor.short():
        purge = ops.Purge(State.DONE, 0, None, 2_600)
        [forgotten, [id]] = store.apply([purge, ops.Put((NewJob("t", b"", clock.wall()),))])
        assert (forgotten, store.ask(q.CountJobs())["t"].done) == (2_600, 400)
    assert store.ask(q.GetJob(id)) is not None


class TestAPurgeOfManyTopics:
    """It looks into topics with something old, and its calls are short, however many topics there are."""

    TOPICS = 600

    @pytest.fixture
    def ended(self, store, clock):
        """The ids of jobs that are done, one of each topic."""
        jobs = of_topics(store, self.TOPICS)
        for first in range(0, len(jobs), 100):
            store.apply([ops.Ack(job.id, job.claims) for job in jobs[first : first + 100]])
        clock.advance(1)
        return [job.id for job in jobs]

    def purged(self, store, monitor, age, limit=10_000):
        """Return the number of jobs that a purge deletes, and of commands that it takes."""
        with monitor.short() as calls:
            [gone] = store.apply([ops.Purge(State.DONE, age, None, limit)])
        return gone, sum(call.commands for call in calls)

    def test_it_reads_no_topic_in_which_nothing_is_old(self, store, monitor, ended):
        assert self.purged(store, monitor, 1_001) == (0, 8)
        assert self.purged(store, monitor, 1_000) == (self.TOPICS, ANY)

    def test_a_part_of_it_costs_by_the_jobs_that_it_deletes(self, store, monitor, ended):
        parts = [self.purged(store, monitor, 0, 200) for _ in range(4)]
        assert [gone for gone, _ in parts] == [200, 200, 200, 0]
        assert all(commands < 200 * 15 for _, commands in parts)

    def test_topics_that_it_has_emptied_are_looked_at_once_by_a_later_one(self, store, monitor, ended):
        assert self.purged(store, monitor, 0)[0] == self.TOPICS
        store.apply([ops.Put((NewJob("t000", b"", 0),))])
        [[job]] = store.apply([ops.Reserve("t000", 1, TERMS, "w")])
        store.apply([ops.Ack(job.id, job.claims)])
        gone, commands = self.purged(store, monitor, 0)
        assert gone == 1
        assert commands < 4 * self.TOPICS
        assert self.purged(store, monitor, 1) == (0, 8)

    def test_it_finds_jobs_that_ended_after_the_clock_had_stepped_back(self, store, clock):
        put(store, 1, 0, 0)
        assert store.apply([ops.Purge(State.DONE, 0, None, 10)]) == [0]
        clock.step(-3_600)
        [[job]] = store.apply([ops.Reserve("t", 1, TERMS, "w")])
        store.apply([ops.Ack(job.id, job.claims)])
        clock.advance(1)
        assert store.apply([ops.Purge(State.DONE, 1_000, None, 10)]) == [1]

    def test_it_finds_a_lost_lease_that_was_over_before_another_job_of_its_topic_died(self, store, clock):
        put(store, 2, 0, 0, max_attempts=1)
        [[lost]] = store.apply([ops.Reserve("t", 1, TERMS._replace(ttr=2_000), "w")])
        [[nacked]] = store.apply([ops.Reserve("t", 1, TERMS, "w")])
        clock.advance(30)
        store.apply([ops.Nack(nacked.id, nacked.claims, None, "e")])
        assert store.apply([ops.Purge(State.DEAD, 10_000, None, 10)]) == [1]
        assert store.ask(q.GetStates([lost.id, nacked.id])) == [None, State.DEAD]


class TestListsOfManyTopics:
    """They ask for some topics a call, and read the bodies of the jobs that come first."""

    TOPICS = 600

    @pytest.fixture
    def jobs(self, store, clock):
        """The ids of two jobs of each topic, in the order of their due times. The first 600 have the same key."""
        topics = [f"t{place:03}" for place in range(self.TOPICS)]
        first = [NewJob(topic, b"", clock.wall() + 10 * place, "x") for place, topic in enumerate(topics)]
        second = [NewJob(topic, b"", clock.wall() + 10**6 - 10 * place) for place, topic in enumerate(topics)]
        return [*store.apply([ops.Put(tuple(first))])[0], *reversed(store.apply([ops.Put(tuple(second))])[0])]

    def listed(self, store, filter, newest, limit):
        """Return the ids on each page of a list."""
        pages, after = [], ""
        while after is not None:
            page = store.ask(q.GetPage(filter, after, limit, newest=newest))
            pages.append([job.id for job in page.jobs])
            after = page.next
        return pages

    @pytest.mark.parametrize("newest", [False, True])
    def test_jobs_with_a_key(self, store, monitor, jobs, newest):
        with monitor.short():
            pages = self.listed(store, Filter(key="x"), newest, 250)
        assert [*chain(*pages)] == sorted(jobs[: self.TOPICS], reverse=newest)
        assert [len(page) for page in pages] == [250, 250, 100]

    @pytest.mark.parametrize("newest", [False, True])
    def test_jobs_by_due_time(self, store, clock, monitor, jobs, newest):
        filter = Filter(state=State.DELAYED, due_from=clock.wall() + 5, due_until=clock.wall() + 10**6 - 5)
        with monitor.short():
            pages = self.listed(store, filter, newest, 300)
        assert [*chain(*pages)] == (jobs[-2:0:-1] if newest else jobs[1:-1])
        assert [job.id for job in store.ask(q.ListJobs(filter))] == sorted(jobs[1:-1])[:1_000]

    def test_jobs_by_due_time_go_on_behind_a_page_that_the_first_topics_fill(self, store, clock):
        def put_in(topics, due):
            return store.apply([ops.Put(tuple(NewJob(topic, b"", due) for topic in topics))])[0]

        now = clock.wall()
        store.apply(list(map(ops.Cancel, put_in([f"t{place:03}" for place in range(300)], now))))
        names = _names(store)
        soon = put_in(names[:60] + names[100:140], now + 100)
        late = put_in(names[200:], now + 200)
        pages = self.listed(store, Filter(state=State.DELAYED, due_from=now + 1), False, 100)
        assert [sorted(page) for page in pages if page] == [sorted(soon), sorted(late)]

    @pytest.mark.parametrize("state", [State.RUNNING, State.DONE, State.DEAD, State.CANCELLED])
    def test_few_jobs_of_a_state_beside_thousands_of_others(self, store, clock, monitor, jobs, state):
        put(store, MANY, clock.wall() + 10**6, 0)
        clock.advance(10)
        found = [store.apply([ops.Reserve(topic, 1, TERMS, "w")])[0][0] for topic in ("t000", "t150", "t599")]
        if state is not State.RUNNING:
            end = {State.DONE: ops.Ack, State.DEAD: ops.Nack, State.CANCELLED: ops.Release}[state]
            more = (None, "e") if state is State.DEAD else ()
            store.apply([end(job.id, job.claims, *more) for job in found])
        if state is State.CANCELLED:
            store.apply([ops.Cancel(job.id) for job in found])
        with monitor.short() as calls:
            assert [job.id for job in store.ask(q.ListJobs(Filter(state=state)))] == [job.id for job in found]
        assert sum(call.values for call in calls) < MANY


def test_a_key_that_finished_jobs_had_more_often_than_one_call_reads_finds_the_others_behind_them(store, clock):
    for _ in range(1_000):
        [[id]] = store.apply([ops.Put((NewJob("t", b"", clock.wall(), "k"),))])
        store.apply([ops.Cancel(id)])
    [[id]] = store.apply([ops.Put((NewJob("t", b"", clock.wall(), "k"),))])
    [[job]] = store.apply([ops.Reserve("t", 1, TERMS, "w")])
    store.apply([ops.Ack(job.id, job.claims)])
    assert [job.id for job in store.ask(q.ListJobs(Filter("t", State.DONE, "k")))] == [id]


def test_an_ack_takes_no_command_for_the_purge_to_come(store, clock, monitor):
    put(store, 3, clock.wall(), 0)
    [jobs] = store.apply([ops.Reserve("t", 3, TERMS, "w")])
    store.apply([ops.Ack(jobs[0].id, 1)])  # this one corrects the time noted for the topic's leases
    monitor.calls()
    store.apply([ops.Ack(jobs[1].id, 1)])
    assert [call.commands for call in monitor.calls()] == [9]


def test_a_limit_by_key_counts_its_group_alone(store, clock, monitor):
    keys = [*(f"{name}:{place}" for place in range(1_000) for name in "ab"), "a", "bc", "b"]
    store.apply([ops.Put(tuple(NewJob("t", b"", clock.wall(), key=key) for key in keys))])
    store.apply([ops.Claim("t", (), TERMS, "w", 2_000, limit=2_000)])
    limited = TERMS._replace(limits=Limits(1_001, ":"))
    with monitor.short(5_000):
        [claimed] = store.apply([ops.Claim("t", (), limited, "w", 9, limit=9)])
        assert sorted(job.key for job in claimed.jobs) == ["a", "b", "bc"]
        [[again], [other]] = (put(store, 1, clock.wall(), 0, key=key) for key in ("a:x", "c:x"))
        [claimed] = store.apply([ops.Claim("t", (), limited, "w", 9, limit=9)])
        assert ([job.id for job in claimed.jobs], claimed.full) == ([other], ((again, "a"),))


def test_a_worker_takes_many_hints_by_pieces(store, clock, monitor):
    notifier = store.notifier("w")
    store.apply([ops.Announce(notifier.worker, ("t",))])
    notifier.publish(clock.wall() + 60_000)
    notifier.hints()
    ids = put(store, 9_000, clock.wall(), 5)
    with monitor.short(len(ids)):
        hints = notifier.hints()
        assert (sorted(due.id for due in hints.due), hints.reload) == (ids, False)
    notifier.close()


def of_topics(store, number):
    """Claim a job of each of many topics; return the jobs. Their leases end one after the other."""
    topics = [f"t{place:03}" for place in range(number)]
    store.apply([ops.Put(tuple(NewJob(topic, b"", 0) for topic in topics))])
    commands = [ops.Reserve(topic, 1, TERMS._replace(ttr=1_000 + place), "w") for place, topic in enumerate(topics)]
    return [store.apply([command])[0][0] for command in commands]


@pytest.mark.parametrize("query", [q.GetNextLease(), q.ListWorkers()])
def test_leases_of_many_topics_that_all_ended_leave_no_next_one(store, query):
    """Each call looks past 100 topics: of 200, the first one leaves as many as the next one looks past."""
    jobs = of_topics(store, 200)
    store.apply([ops.Ack(job.id, job.claims) for job in jobs])
    store._lease = (-10.0, None)
    assert store.ask(query) in (None, [])
    assert store.ask(q.GetNextLease()) is None


def test_an_expiry_of_many_topics_names_a_next_lease_that_is_not_too_late(store, clock):
    jobs = of_topics(store, 250)
    store.apply([ops.Ack(job.id, job.claims) for job in jobs[1:-1]])
    _, expired = store.apply([ops.Ack(jobs[0].id, 1), ops.Expire(1)])
    assert clock.wall() < expired.next_lease <= jobs[-1].lease_until


@pytest.mark.parametrize("ends", [[ops.Ack(0, 1)], [ops.Ack(1, 7)]])
def test_thousands_of_void_receipts_are_refused_like_one(store, clock, ends):
    put(store, 1, clock.wall(), 0)
    assert store.apply([*ends * 9_000, ops.Pause("t", paused=False)]) == [False] * 9_001


def test_a_beat_beside_hundreds_of_workers_looks_for_few_and_those_that_died_are_found_all_the_same(
    store, client, monitor
):
    notifier = store.notifier("w")
    there = [f"w{number}" for number in range(400)]
    with client.pubsub() as bells:
        bells.subscribe(*(store.bell_of(worker) for worker in there))
        until(lambda: client.pubsub_numsub(store.bell_of(there[-1]))[0][1])
        store.apply([ops.Announce(worker, ("t",)) for worker in (notifier.worker, *there)])
        monitor.calls()
        notifier.beat(0)
        assert max(call.commands for call in monitor.calls()) < 50
        bells.unsubscribe(store.bell_of(there[0]))

        def found():
            store.run("beat", worker=notifier.worker, behind=0, obeyed=-1, topics=[])
            return len(store.presence.look().workers) == 400

        until(found)
    notifier.close()


def test_thousands_of_workers_that_died_are_taken_from_the_list_by_one_that_lives(store, clock, client):
    notifier = store.notifier("w")
    store.apply([ops.Announce(notifier.worker, ("t",))])
    prefix, dead = store.server.prefix, [f"dead{number}" for number in range(9_000)]
    client.hset(prefix + b":m", mapping=dict.fromkeys(dead, '["t"]'))
    client.hset(prefix + b":b", mapping=dict.fromkeys(dead, f"{clock.wall()} 0 -1"))
    notifier.beat(0)
    assert client.hkeys(prefix + b":m") == client.hkeys(prefix + b":b") == [notifier.worker.encode()]
    notifier.close()

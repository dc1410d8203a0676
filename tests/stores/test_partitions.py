"""Several stores as one: the store of a job, the order of answers, and the effect of a store that is away."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

import pytest

from pywheel import JobQueue
from pywheel._errors import JobExists, StoreAway
from pywheel.jobs import NewJob, State
from pywheel.jobs import commands as c
from pywheel.jobs import queries as q
from pywheel.jobs.job import Due
from pywheel.stores import Filter
from pywheel.stores.contract import intact
from pywheel.stores.notifier import ORDERS
from tests.jobs.waiting import until, working
from tests.stores.calls import put
from tests.stores.files import NOW
from tests.stores.parts import Parts

JOB = NewJob("t", b"b", NOW)
TERMS = c.ClaimPolicy(1_000, 3, hold=200)


@pytest.fixture
def store(clock):
    with Parts(4, clock) as store:
        yield store


def in_each(store, due=NOW):
    """Put a job into each store; return their ids."""
    return [store.ids.outer(number, *put(inner, JOB._replace(due=due))) for number, inner in enumerate(store.stores)]


def keys_of(store, number, some=2):
    """Return keys that a store decides."""
    names = (f"k{name}" for name in range(1_000))
    return [name for name in names if store.ids.of_key("t", name) == number][:some]


def keyed(key, **more):
    return JOB._replace(key=key, **more)


def total(store):
    return sum(sum(counts) for counts in store.ask(q.CountJobs()).values())


class TestPuts:
    def test_jobs_are_spread_some_dozens_at_a_time(self, store):
        ids = [id for _ in range(512) for id in put(store, JOB)]
        assert Counter(map(store.ids.store, ids)) == dict.fromkeys(range(4), 128)
        assert sum(store.ids.store(one) != store.ids.store(other) for one, other in pairwise(ids)) == 7

    def test_what_is_put_together_stays_together(self, store):
        outcomes = store.apply([c.Put((JOB,) * 100), *[c.Put((JOB,))] * 100])
        assert len({store.ids.store(id) for ids in outcomes for id in ids}) == 1

    def test_a_key_is_decided_in_one_store_whoever_asks(self, store):
        ids = {key: put(store, keyed(key))[0] for key in "abcdefgh"}
        assert {store.ids.store(id) for id in ids.values()} == set(range(4))
        for key, id in ids.items():
            [refused] = store.apply([c.Put((keyed(key),))])
            assert isinstance(refused, JobExists)
            assert refused.id == id
            assert f"job {id} has" in str(refused)
            assert store.ask(q.GetJob(("t", key))).id == id
            assert [job.id for job in store.ask(q.ListJobs(Filter("t", key=key), 0, 9))] == [id]

    def test_jobs_with_keys_of_several_stores_are_put_all_or_none(self, store):
        jobs = [keyed(f"k{number}", body=b"%d" % number) for number in range(20)]
        ids = put(store, *jobs, JOB)
        assert [store.ask(q.GetJob(id)).key for id in ids] == [*(job.key for job in jobs), None]
        assert [store.ask(q.GetJob(id)).body for id in ids[:-1]] == [job.body for job in jobs]
        [refused] = store.apply([c.Put((*(keyed(f"n{number}") for number in range(20)), keyed("k7")))])
        assert (type(refused), refused.id) == (JobExists, ids[7])
        [twice] = store.apply([c.Put((*(keyed(f"n{number}") for number in range(20)), keyed("n3")))])
        assert isinstance(twice, JobExists)
        assert total(store) == 21

    @pytest.mark.parametrize("nonce", [None, "n"])
    def test_what_was_put_is_taken_back_if_a_key_is_taken_in_between(self, store, nonce):
        [[one], [other]] = keys_of(store, 0, 1), keys_of(store, 1, 1)

        def look(when, commands):
            if when == "after":
                store.stores[1].fault = take  # the next call is the put

        def take(when, commands):
            store.stores[1].fault = None
            put(store.stores[1].inner, keyed(other))

        store.stores[1].fault = look
        [refused] = store.apply([c.Put((keyed(one), keyed(other)), nonce)])
        assert isinstance(refused, JobExists)
        assert store.ask(q.GetJob(("t", one))) is None
        assert total(store) == 1
        store.apply([c.Cancel(("t", other))])
        ids = put(store, keyed(one), keyed(other), nonce=nonce)
        assert [store.ask(q.GetJob(id)).key for id in ids] == [one, other]

    def test_a_nonce_counts_whatever_store_the_keys_are_in(self, store):
        jobs = [keyed(f"k{number}") for number in range(8)]
        for number, nonce in enumerate("abcdefgh"):
            ids = put(store, jobs[number], nonce=nonce)
            for again in ((jobs[number],), (), (JOB, JOB)):
                assert store.apply([c.Put(again, nonce)]) == [ids]
        others = [job._replace(topic="u") for job in jobs]
        many = put(store, *others, nonce="many")
        for again in (tuple(others), ()):
            assert store.apply([c.Put(again, "many")]) == [many]
        assert total(store) == 16

    def test_a_put_with_a_nonce_that_was_cut_off_in_the_middle_is_made_whole(self, store):
        jobs = [keyed(keys_of(store, number, 1)[0]) for number in range(4)]
        store.stores[2].fault = fail
        with pytest.raises(StoreAway):
            put(store, *jobs, nonce="n")
        store.stores[2].fault = None
        ids = put(store, *jobs, nonce="n")
        assert put(store, *jobs, nonce="n") == ids
        assert total(store) == 4

    def test_a_parent_hands_its_key_on(self, store):
        for key in "abcd":
            put(store, keyed(key))
        [jobs] = store.apply([c.Reserve("t", 4, TERMS, "w")])
        for job in jobs:
            [child] = put(store, keyed(job.key, parent=(job.id, job.claims)))
            assert store.ask(q.GetJob(("t", job.key))).id == child


def fail(when, commands):
    if when == "before" and type(commands[0]) is c.Put and "only looked at" not in str(commands[0]):
        raise StoreAway("away on purpose")


class TestClaims:
    def test_a_reserve_takes_the_first_of_all_stores(self, store):
        _, first, *_ = [in_each(store, NOW - due) for due in (3, 9, 5, 7)]
        [jobs] = store.apply([c.Reserve("t", 3, TERMS, "w")])
        assert [job.id for job in jobs] == first[:3]
        assert [len(store.apply([c.Reserve("t", 4, TERMS, "w")])[0]) for _ in range(5)] == [4, 4, 4, 1, 0]

    def test_a_claim_of_the_first_takes_a_share_of_each_store(self, store):
        ids = [id for _ in range(5) for id in in_each(store)]
        [claimed] = store.apply([c.Claim("t", (), TERMS, "w", 4, limit=8)])
        assert (len(claimed.jobs), claimed.begun, claimed.next <= NOW) == (8, 4, True)
        assert Counter(store.ids.store(job.id) for job in claimed.jobs) == dict.fromkeys(range(4), 2)
        assert sorted(store.ask(q.ListClaims("w"))) == sorted((job.id, 1) for job in claimed.jobs)
        [claimed] = store.apply([c.Claim("t", (), TERMS, "w", 3, limit=3)])
        assert (len(claimed.jobs), claimed.begun, claimed.next <= NOW) == (3, 3, True)
        [claimed] = store.apply([c.Claim("t", (), TERMS, "w", 99, limit=99)])
        assert (len(claimed.jobs), claimed.next) == (len(ids) - 11, None)

    def test_a_claim_of_the_first_takes_what_one_store_has_more_than_the_others(self, store):
        in_each(store, NOW + 50)
        many = put(store.stores[2], *[JOB] * 9)
        [claimed] = store.apply([c.Claim("t", (), TERMS, "w", 99, limit=7)])
        assert [job.id for job in claimed.jobs] == [store.ids.outer(2, id) for id in many[:7]]
        [claimed] = store.apply([c.Claim("t", (), TERMS, "w", 99, limit=7)])
        assert (len(claimed.jobs), claimed.next) == (2, NOW + 50)
        assert store.ask(q.GetNextDues(["t", "u"])) == {"t": NOW + 50}

    def test_a_claim_of_the_first_goes_on_without_a_store_that_is_away(self, store):
        in_each(store)
        store.stores[1].away = True
        [claimed] = store.apply([c.Claim("t", (), TERMS, "w", 9, limit=9)])
        assert len(claimed.jobs) == 3
        assert NOW < claimed.next <= NOW + 1_000
        for inner in store.stores:
            inner.away = True
        with pytest.raises(StoreAway):
            store.apply([c.Claim("t", (), TERMS, "w", 9, limit=9)])

    def test_a_paused_topic_gives_nothing_anywhere(self, store):
        ids = in_each(store)
        assert store.apply([c.Pause("t", paused=True), c.Pause("t", paused=True)]) == [True, False]
        [claimed, reserved] = store.apply([c.Claim("t", tuple(ids), TERMS, "w", 9), c.Reserve("t", 9, TERMS, "w")])
        assert (claimed.jobs, claimed.paused, reserved) == ([], True, [])
        [claimed] = store.apply([c.Claim("t", (), TERMS, "w", 9, limit=9)])
        assert (claimed.jobs, claimed.paused, claimed.next) == ([], True, None)


class TestLooking:
    def test_the_first_that_are_due_are_those_of_all_stores_in_order(self, store):
        first, *_ = [in_each(store, NOW - 9 + number) for number in range(4)]
        found = store.ask(q.ListFirstDue("t", 100))
        assert len(found) == 16
        assert found == sorted(found)
        assert store.ask(q.ListFirstDue("t", 5)) == found[:5]
        assert first == [due.id for due in found[:4]]
        assert store.ask(q.GetNextDues()) == {"t": NOW - 9}

    def test_limits_hold_for_all_stores_together(self, store, clock):
        ids = [id for _ in range(3) for id in in_each(store)]
        store.apply([c.Cancel(id) for id in ids])
        purged = [store.apply([c.Purge(State.CANCELLED, 0, "t", 5)])[0] for _ in range(4)]
        assert purged == [5, 5, 2, 0]
        in_each(store), in_each(store)
        store.apply([c.Reserve("t", 9, TERMS, "w")])
        clock.advance(timedelta(seconds=1))
        assert [store.apply([c.Expire(3)])[0].ended for _ in range(4)] == [3, 3, 2, 0]

    def test_faults_of_any_store_are_found_with_ids_for_everybody(self, store):
        ids = in_each(store)
        for inner in store.stores[1:3]:
            inner.inner._connection.execute("UPDATE job SET state = 9")
        [finding, *_] = store.verify()
        assert {*finding.examples} == {*ids[1:3]}
        assert all(finding.repaired for finding in store.verify(repair=True))
        assert store.verify() == []


class TestOneIsAway:
    def test_what_the_others_were_asked_for_happens(self, store):
        ids = in_each(store)
        [jobs] = store.apply([c.Reserve("t", 4, TERMS, "w")])
        store.stores[1].away = True
        outcomes = store.apply([c.Ack(job.id, 1) for job in jobs])
        assert [type(outcome) for outcome in outcomes] == [
            StoreAway if store.ids.store(job.id) == 1 else bool for job in jobs
        ]
        with pytest.raises(StoreAway):
            intact(outcomes)
        with pytest.raises(StoreAway):
            store.apply([c.Cancel(ids[1])])
        with pytest.raises(StoreAway):
            store.ask(q.CountJobs())
        assert store.ask(q.GetJob(ids[0])).state is State.DONE

    def test_puts_go_to_the_next_one(self, store):
        here = store.ids.store(put(store, JOB)[0])
        store.stores[here].away = True
        with pytest.raises(StoreAway):
            put(store, JOB)
        assert {store.ids.store(put(store, JOB)[0]) for _ in range(9)} == {(here + 1) % 4}

    def test_a_claim_leaves_what_it_could_not_ask_for(self, store):
        ids = in_each(store)
        store.stores[1].away = True
        [claimed] = store.apply([c.Claim("t", tuple(ids), TERMS, "w", 9)])
        assert [job.id for job in claimed.jobs] == [ids[0], ids[2], ids[3]]
        assert [due.id for due in claimed.left] == [ids[1]]
        assert claimed.left[0] > Due(NOW, ids[1], "t")

    def test_a_worker_keeps_its_acks_for_it_and_no_job_is_done_twice(self):
        with JobQueue(Parts(4, None)) as queue:
            store, done = queue.store, []

            @queue.handler("t", concurrency=32)
            def handle(job):
                store.stores[2].away |= not done
                done.append(job.id)

            ids = [id for _ in range(8) for id in in_each(store)]
            with working(queue):
                until(lambda: store.stores[0].ask(q.CountJobs())["t"].done == 8)  # whatever the one that is away
                store.stores[2].away = False
                until(lambda: store.ask(q.CountJobs())["t"].done == len(ids))
            assert sorted(done) == sorted(ids)

    def test_a_worker_goes_on_without_the_one_that_has_its_order(self, monkeypatch):
        monkeypatch.setattr("pywheel.worker.dispatcher._ORDERS", 0.01)
        with JobQueue(Parts(4, None)) as queue:
            store, done = queue.store, []
            queue.handler("t")(lambda job: done.append(job.id))
            note = next(name for name in map("order:{}".format, range(100)) if store.ids.of_note(name) == 2)
            monkeypatch.setattr("pywheel.worker.dispatcher.order_note", lambda _: note)
            with working(queue) as worker:
                until(lambda: store.ask(q.ListWorkers()))
                store.stores[2].away = True
                ids = [put(store, keyed(key))[0] for number in (0, 1, 3) for key in keys_of(store, number, 3)]
                until(lambda: sorted(done) == sorted(ids))
                store.stores[2].away = False
                store.apply([c.SetNote(note, ORDERS["stop"])])
                assert worker.join(60)

    def test_who_announces_is_known_in_all_or_told(self, store):
        notifier = store.notifier("w")
        store.stores[3].away = True
        with pytest.raises(StoreAway):
            intact(store.apply([c.Announce(notifier.worker, ("t",))]))
        notifier.close()


# ---- notes ----------------------------------------------------------------------------------------------------------


def test_a_note_lives_where_the_nonce_does_that_it_is_named_after(store):
    for number in range(40):
        nonce = f"{number:x}" * 9
        assert store.ids.of_note(f"idem:{nonce}") == store.ids.of_note(nonce) == store.ids.of_nonce(nonce)
    assert store.ids.of_note("a:b:c") == store.ids.of_nonce("b:c")
    assert store.ids.of_note("a:") == store.ids.of_nonce("a:")


def test_a_put_and_the_note_beside_it_are_one_transaction(store):
    calls = []
    for number, inner in enumerate(store.stores):
        inner.fault = lambda when, commands, number=number: calls.append((number, when, len(commands)))
    outcomes = store.apply([c.Put((JOB, JOB), "nonce"), c.SetNote("idem:nonce", b"print", 1_000, absent=True)])
    home = store.ids.of_nonce("nonce")
    assert calls == [(home, "before", 2), (home, "after", 2)]
    assert {store.ids.store(id) for id in outcomes[0]} == {home}


def test_notes_come_from_all_stores_by_name(store):
    names = sorted(f"n:{number}" for number in range(30))
    store.apply([c.SetNote(name, name.encode()) for name in names])
    assert len({store.ids.of_note(name) for name in names}) == 4
    assert store.ask(q.ListNotes("n:", limit=7)) == [(name, name.encode()) for name in names[:7]]
    assert [name for name, _ in store.ask(q.ListNotes("n:", names[6], 7))] == names[7:14]
    store.stores[1].away = True
    with pytest.raises(StoreAway):
        store.ask(q.ListNotes(""))


# ---- what fails beside ----------------------------------------------------------------------------------------------


@pytest.fixture
def dead(store, clock):
    """The ids of jobs, one in each store, whose last leases are over."""
    ids = in_each(store)
    store.apply([c.Reserve("t", 4, TERMS._replace(max_attempts=1), "w")])
    clock.advance(2)
    return ids


def test_deaths_are_reported_though_a_store_is_away(store, dead):
    store.apply([c.Expire(9)])
    store.stores[1].away = True
    assert sorted(store.died(["t"])) == [dead[0], dead[2], dead[3]]
    with pytest.raises(StoreAway):  # whoever asks, asks again
        store.died(["t"])
    store.stores[1].away = False
    assert store.died(["t"]) == [dead[1]]


def test_what_no_thread_could_be_started_for_happens_once(store, monkeypatch):
    """The pool has kept what it could not start a thread for, and would do it with its next one."""
    in_each(store)

    def cannot(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patches:
        patches.setattr("threading.Thread.start", cannot)
        [jobs] = store.apply([c.Reserve("t", 4, TERMS, "w")])
        assert len(jobs) == 4
        store.apply([c.SetNote(f"n:{number}", b"v") for number in range(16)])
    calls = []
    for inner in store.stores:
        inner.fault = lambda when, commands: calls.append(commands) if when == "before" else None
    store.ask(q.CountJobs())  # by the threads of the pool
    store._threads.shutdown()
    assert calls == []


def test_leases_are_ended_though_a_store_is_away(store, dead):
    store.stores[1].away = True
    [expired] = intact(store.apply([c.Expire(9)]))
    assert expired == c.Expired(3, None, (dead[0], dead[2], dead[3]))
    for inner in store.stores:
        inner.away = True
    with pytest.raises(StoreAway):
        store.apply([c.Expire(9)])

"""Jobs are carried from one store to another: none twice, none missing, whatever happens in the middle."""

import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from pywheel import BadOption, JobQueue, StoreBusy, StoreError
from pywheel.client import copy_steps
from pywheel.client.copier import Copier
from pywheel.client.copy_steps import HEADER, TOPIC
from pywheel.events import LeaseLost
from pywheel.jobs import Counts, NewJob, Outcome, State
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import CountJobs, GetHistories, GetJob, ListJobs, ListNotes, ListTopics
from pywheel.stores import Filter, open
from pywheel.stores.schedule_notes import PLAN
from pywheel.stores.schedule_notes import TOPIC as SCHEDULES
from pywheel.testing import FaultyStore, run_due
from tests.jobs.waiting import until, working
from tests.often import often
from tests.seeds import SEED
from tests.stores.calls import TERMS
from tests.stores.emptied import emptied

FAR = 4_000_000_000_000


SERVERS = ("sqlite-postgres", "postgres-sqlite", "sqlite-redis", "sqlite-mysql")


@pytest.fixture(
    params=[*often(["memory", "sqlite-sqlite"]), *(pytest.param(name, marks=pytest.mark.servers) for name in SERVERS)]
)
def urls(request, tmp_path):
    """Addresses of two empty stores."""
    if request.param == "memory":
        return None

    def url(name, number):
        if name == "sqlite":
            return f"sqlite:///{tmp_path}/{number}.db"
        if name == "mysql":
            return emptied(request.getfixturevalue("mariadb_server"))
        return request.getfixturevalue(f"{name}_server").url()

    return [url(name, number) for number, name in enumerate(request.param.split("-"))]


@pytest.fixture
def in_memory():
    """Two empty stores in memory."""
    with open("memory:") as old, open("memory:") as new:
        old.url, new.url = "memory:old", "memory:new"
        yield old, new


@pytest.fixture
def stores(urls, in_memory):
    if urls is None:
        yield in_memory
    else:
        with open(urls[0]) as old, open(urls[1]) as new:
            yield old, new


@pytest.fixture
def paged(in_memory, monkeypatch):
    """The same, with thirty jobs in the first, of which a page has ten."""
    monkeypatch.setattr(copy_steps, "PAGE", 10)
    put(in_memory[0], *some(30))
    return in_memory


def put(store, *jobs):
    [ids] = store.apply([ops.Put(jobs)])
    return ids


def live(store):
    jobs = store.ask(ListJobs(Filter(state=State.DELAYED), 0, 10**6))
    return sorted(
        (job.topic, job.body, job.due, job.key, job.ttr, job.max_attempts, *sorted(headers(job).items()))
        for job in jobs
        if job.topic != TOPIC
    )


def finished(store, state=None):
    """The finished jobs, or those in a state, with what was tried."""
    return sorted(
        (
            *(job.topic, job.body, job.created, job.due, job.key or "", job.state),
            *(job.claims, job.attempt, job.lost, job.last_error or "", history),
        )
        for job in store.ask(ListJobs(Filter(state=state), 0, 10**6))
        if job.topic != TOPIC and (state or not job.state.live)
        for history in [store.ask(GetHistories([job.id]))[0]]
    )


def tried(store, number):
    """Put jobs that are done, dead, cancelled, or wait for their next attempt."""

    def claimed():
        [[job]] = store.apply([ops.Reserve("tried", 1, ops.ClaimPolicy(60_000, 3), "w")])
        return job

    for body in (b"%d" % n for n in range(number)):
        for ending in (ops.Ack, ops.Nack, ops.Release, None):
            [id] = put(store, NewJob("tried", body, 1, f"{ending}" if ending else None))
            for _ in range(2):
                store.apply([ops.Nack(id, claimed().claims, 0, "first")])
            if ending is None:
                store.apply([ops.Edit(id, FAR)])
                continue
            claims = claimed().claims
            store.apply([ops.Nack(id, claims, 0, "last") if ending is ops.Nack else ending(id, claims)])
            if ending is ops.Release:
                store.apply([ops.Cancel(id)])


def noted(commands, state):
    """Whether these note in the target how far it is."""
    put = commands[0]
    return isinstance(put, ops.Put) and b'"%b"' % state.encode() in put.jobs[0].body


def headers(job):
    return {name: value for name, value in job.headers.items() if name != HEADER}


def some(number):
    return [
        NewJob(
            f"t{n % 3}",
            b"%d" % n,
            FAR + n,
            f"k{n}" if n % 2 else None,
            70_000 if n % 5 == 0 else None,
            7 if n % 7 == 0 else None,
            {"h": "x"} if n % 4 == 0 else None,
        )
        for n in range(number)
    ]


def test_all_live_jobs_are_carried_as_they_are(stores, monkeypatch):
    monkeypatch.setattr(copy_steps, "PAGE", 50)
    old, new = stores
    put(old, *some(120))
    before = live(old)
    copy = Copier(old, new)
    assert copy.state() == "new"
    assert copy.carry() == (120, 0, 0, 120, 0)
    assert copy.carry() == (0, 0, 0, 120, 0)
    assert live(new) == before == live(old)
    assert all(topic.paused for topic in new.ask(ListTopics()) if topic.name != TOPIC)
    assert not any(topic.paused for topic in old.ask(ListTopics()))
    assert new.verify() == []


def test_a_switch_leaves_each_job_in_one_store(stores):
    old, new = stores
    ids = put(old, *some(20))
    before = live(old)
    copy = Copier(old, new)
    done = copy.switch(10)
    assert (done.jobs, done.late, done.refused) == (20, 0, 0)
    assert done.seconds < 60
    assert copy.state() == "done"
    assert (live(new), live(old)) == (before, [])
    assert {old.ask(GetJob(id)).state for id in ids} == {State.CANCELLED}
    assert {topic.paused for topic in old.ask(ListTopics()) if topic.name != TOPIC} == {True}
    assert not any(topic.paused for topic in new.ask(ListTopics()) if topic.name != TOPIC)
    copies = {job.headers[HEADER].split()[1] for job in new.ask(ListJobs(Filter(), 0, 100)) if job.topic != TOPIC}
    assert copies == set(map(str, ids))
    late = put(old, NewJob("t7", b"late", FAR), NewJob("t1", b"taken", FAR, "k1"))  # by a producer that knows nothing
    assert copy.switch(10)[2:] == (1, 1, 0)
    assert copy.switch(10)[2:] == (0, 1, 0)
    assert [job[1] for job in live(new) if job not in before] == [b"late"]
    assert [old.ask(GetJob(id)).state for id in late] == [State.CANCELLED, State.DELAYED]
    assert old.verify() == new.verify() == []


def test_what_changed_meanwhile_is_changed_in_the_copies_too(stores):
    old, new = stores
    ids = put(old, *some(9))
    copy = Copier(old, new)
    copy.carry()
    edit = ops.Edit(ids[5], body=b"edited", fields={"headers": {"a": "b"}, "priority": 3})
    old.apply([ops.Edit(ids[0], FAR - 5), ops.Cancel(ids[1]), ops.Delete(ids[2]), edit])
    put(old, NewJob("t0", b"replaced", FAR, "k3", replace=True))
    put(old, NewJob("t1", b"successor", FAR, "k1"))
    put(old, NewJob("t9", b"new topic", FAR))
    assert copy.carry() == (2, 3, 0, 9, 1)
    edited = new.ask(GetJob(("t2", "k5")))
    assert (edited.body, headers(edited), edited.due, edited.priority) == (b"edited", {"a": "b"}, FAR + 5, 3)
    for body in (b"again", b"replaced"):  # there and back again
        put(old, NewJob("t0", body, FAR, "k3", replace=True))
        copy.carry()
    put(old, NewJob("t0", b"again", FAR, "k3", replace=True))
    expected = live(old)
    copy.switch(10)
    assert live(new) == expected
    assert new.apply([ops.Edit(edited.id, body=b"z")]) == [ops.Change.MADE]
    assert new.verify() == []


def test_what_was_tried_is_carried_with_the_jobs(stores):
    old, new = stores
    tried(old, 3)
    put(old, *some(9))
    history, attempts = finished(old), finished(old, State.DELAYED)
    assert len(history) == 9
    copy = Copier(old, new)
    assert copy.carry() == (12, 0, 0, 12, 9)
    assert copy.carry() == (0, 0, 0, 12, 0)
    assert (finished(new), finished(new, State.DELAYED)) == (history, attempts)
    dead = next(job for job in new.ask(ListJobs(Filter(state=State.DEAD), 0, 9)))
    assert (dead.last_error, dead.attempt) == ("last", 3)
    tried(old, 1)
    old.apply([ops.Retry(job.id, FAR) for job in old.ask(ListJobs(Filter(state=State.DEAD, key=None), 0, 1))])
    history, attempts = finished(old), finished(old, State.DELAYED)
    done = copy.switch(10)
    assert (done.jobs, done.finished) == (14, 3)
    assert (finished(new), finished(new, State.DELAYED)) == (history, attempts)
    assert new.verify() == []


def test_what_a_repair_has_left_odd_is_carried_as_it_can_be(in_memory):
    old, new = in_memory
    ids = put(old, *(NewJob("t", b"%d" % n, 1) for n in range(3)))
    [jobs] = old.apply([ops.Reserve("t", 3, ops.ClaimPolicy(60_000, 3), "w")])
    old.apply([ops.Ack(job.id, job.claims) for job in jobs])
    past = {id: old.ask(GetHistories([id]))[0] for id in ids}
    past[ids[0]] = [past[ids[0]][0]._replace(outcome=Outcome.LOST)]
    past[ids[2]] = []
    ask = old.ask
    old.ask = lambda query: [past[id] for id in query.ids] if isinstance(query, GetHistories) else ask(query)
    old._connection.execute("UPDATE finished SET claims = claims + 3 WHERE id = ?", (ids[1],))
    assert Copier(old, new).carry().finished == 2
    assert [(job[1], job[6], job[-1][0].outcome) for job in finished(new)] == [
        (b"0", 1, Outcome.DONE),
        (b"1", 1, Outcome.DONE),
    ]
    assert new.verify() == []


def test_what_finishes_while_a_copy_goes_over_is_carried_too(stores):
    old, new = stores
    put(old, *some(3))
    [id] = put(old, NewJob("t", b"runs", 1))
    [[job]] = old.apply([ops.Reserve("t", 1, ops.ClaimPolicy(60_000, 3), "w")])

    def ends(when, commands):  # what is running in the source when it is paused
        if when == "after" and isinstance(commands[0], ops.Pause):
            old.apply([ops.Ack(id, job.claims)])

    def killed(when, commands):
        if when == "after" and noted(commands, "done"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Copier(FaultyStore(old, ends), FaultyStore(new, killed)).switch(10)
    assert finished(new) == []
    assert Copier(old, new).switch(10).finished == 1
    assert Copier(old, new).switch(10).finished == 0
    assert [(job[1], job[5]) for job in finished(new)] == [(b"runs", State.DONE)]
    assert len(live(new)) == 3


def test_a_key_that_was_handed_on_is_its_successors(stores):
    old, new = stores
    [id] = put(old, NewJob("t", b"first", 1, "k"))
    [[job]] = old.apply([ops.Reserve("t", 1, ops.ClaimPolicy(60_000, 3), "w")])
    put(old, NewJob("t", b"second", FAR, "k", parent=(id, job.claims)))
    old.apply([ops.Nack(id, job.claims, 10**9)])
    assert Copier(old, new).switch(10).refused == 0
    assert sorted((job[1], job[3]) for job in live(new)) == [(b"first", "k"), (b"second", "k")]
    assert new.ask(GetJob(("t", "k"))).body == b"second"
    assert new.verify() == []


def test_what_still_runs_is_waited_for_and_then_the_source_works_on(stores):
    old, new = stores
    [id] = put(old, NewJob("t", b"", 1))
    put(old, *some(3))
    old.apply([ops.Pause("t1", True)])
    [[job]] = old.apply([ops.Reserve("t", 1, ops.ClaimPolicy(60_000, 3), "w")])
    copy = Copier(old, new)
    assert copy.carry().waiting == 1
    with pytest.raises(StoreBusy, match="still runs 1 of 't' after"):
        copy.switch(0.1)
    assert {topic.name for topic in old.ask(ListTopics()) if topic.paused} == {"t1"}
    ended = threading.Timer(0.5, lambda: old.apply([ops.Nack(id, job.claims, 10**9)]))
    ended.start()
    assert copy.switch(60).jobs == 4
    ended.join()
    assert {topic.name for topic in new.ask(ListTopics()) if topic.paused} == {"t1"}
    assert len(live(new)) == 4


def test_a_store_with_live_jobs_of_its_own_is_refused(stores):
    old, new = stores
    put(old, *some(3))
    put(new, NewJob("mine", b"", FAR))
    with pytest.raises(BadOption, match="has live jobs, of 'mine'"):
        Copier(old, new).carry()
    assert len(live(new)) == 1
    with pytest.raises(BadOption, match="itself"):
        Copier(old, old)


def test_copies_that_somebody_deleted_are_made_again(stores):
    old, new = stores
    put(old, *some(9))
    before = live(old)
    for _ in range(2):
        Copier(old, new).carry()
        new.apply([ops.Delete(job.id) for job in new.ask(ListJobs(Filter(), 0, 100)) if job.topic != TOPIC])
    assert Copier(old, new).switch(10).jobs == 9
    assert live(new) == before


def test_a_job_that_is_cancelled_in_the_pause_is_not_delivered(stores):
    old, new = stores
    ids = put(old, *some(9))
    cancelled = []

    def cancel(id):
        cancelled.append(id)
        assert old.apply([ops.Cancel(id)]) == [ops.Change.MADE]

    def in_source(when, commands):
        if when == "before" and isinstance(commands[0], ops.Cancel):
            cancel(ids[4])  # its page was read, and its copy made
            assert all(topic.paused for topic in new.ask(ListTopics()) if topic.name != TOPIC)

    def in_target(when, commands):
        if when == "after" and noted(commands, "switched"):
            cancel(ids[2])  # what has ended was looked for before

    faulty = [FaultyStore(old, in_source), FaultyStore(new, in_target)]
    expected = [job for job in live(old) if job[1] not in (b"2", b"4")]
    done = Copier(*faulty).switch(10)
    assert (done.jobs, done.finished) == (7, 2)
    assert {job[1] for job in finished(new)} == {b"2", b"4"}
    assert cancelled == [ids[2], ids[4]]
    assert live(new) == expected


def test_a_copy_that_ends_once_it_has_gone_over_is_finished_by_the_next(stores):
    old, new = stores
    put(old, *some(9))
    Copier(old, new).carry()
    put(old, NewJob("t0", b"replaced", FAR, "k3", replace=True))
    before = live(old)

    def interrupted(when, commands):
        if when == "after" and noted(commands, "switched"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Copier(old, FaultyStore(new, interrupted)).switch(10)
    assert Copier(old, new).state() == "switched"
    assert all(topic.paused for topic in (*old.ask(ListTopics()), *new.ask(ListTopics())) if topic.name != TOPIC)
    with pytest.raises(BadOption, match="give --switch to go on"):
        Copier(old, new).carry()
    assert Copier(old, new).switch(10).jobs == 9
    assert (live(old), live(new)) == ([], before)


def test_a_source_that_goes_away_in_the_pause_is_said_to_be_paused(stores):
    old, new = stores
    put(old, *some(3))
    faulty = FaultyStore(old)

    def fault(when, commands):
        faulty.away = when == "after" and isinstance(commands[0], ops.Pause)

    faulty.fault = fault
    with pytest.raises(StoreError, match="may stay paused: begin again, or resume them by hand"):
        Copier(faulty, new).switch(1)
    assert all(topic.paused for topic in old.ask(ListTopics()))
    assert Copier(old, new).switch(10).jobs == 3
    assert not any(topic.paused for topic in new.ask(ListTopics()) if topic.name != TOPIC)


def test_notes_of_the_service_are_those_of_the_source_until_it_is_gone_over_to(stores):
    old, new = stores
    put(old, *some(3))
    names = ("token:a", "token:b", "outlet:o", "schedule:s", "limit-override:t", "idem:x", "limit:t", "other")
    old.apply([ops.SetNote(name, name.encode()) for name in names])
    new.apply([ops.SetNote("token:z", b"z"), ops.SetNote("other:z", b"z")])
    copy = Copier(old, new)
    copy.carry()
    carried = [(name, name.encode()) for name in ("limit-override:t", "outlet:o", "schedule:s", "token:a", "token:b")]
    assert sorted(new.ask(ListNotes(""))) == sorted([("other:z", b"z"), *carried])
    old.apply([ops.SetNote("token:a", None), ops.SetNote("token:b", b"new"), ops.SetNote("token:c", b"c")])
    copy.switch(10)
    tokens = [("token:b", b"new"), ("token:c", b"c")]
    assert new.ask(ListNotes("token:")) == tokens
    new.apply([ops.SetNote("token:d", b"d")])
    copy.switch(10)
    assert new.ask(ListNotes("token:")) == [*tokens, ("token:d", b"d")]


def test_there_and_back_again(stores):
    old, new = stores
    put(old, *some(30))
    tried(old, 2)
    before, history = live(old), finished(old)
    for source, target in ((old, new), (new, old), (old, new)):
        assert Copier(source, target).switch(10).jobs == 32
        assert (live(source), live(target)) == ([], before)
        source.apply([ops.Pause(topic.name, False) for topic in source.ask(ListTopics())])
    assert finished(new) == history
    assert len(finished(old)) == len(history) + len(before)  # each job that went is there as a cancelled one


@pytest.mark.drawn(3)
@pytest.mark.stress
@pytest.mark.parametrize("first", often([1, 2 + SEED % 8]))
def test_killed_after_any_write_and_begun_again_nothing_is_twice_or_missing(urls, first):
    if urls is None:
        pytest.skip("memory dies with its process")
    with open(urls[0]) as old:
        put(old, *some(1_100))
        tried(old, 20)
        with open(urls[1]) as new:  # the copy of a copy has other nonces
            Copier(old, new).carry()
            put(old, *(NewJob(job.topic, b"new", job.due, job.key, replace=True) for job in some(9) if job.key))
            Copier(old, new).carry()
        tried(old, 2)
        before, history = live(old), finished(old)
    kills = first
    while True:
        arguments = [sys.executable, "-m", "tests.client.copying", *urls, str(kills)]
        ended = subprocess.run(arguments, capture_output=True, text=True, timeout=300)
        if ended.returncode == 0:
            break
        assert ended.returncode == -9, ended.stderr
        kills += 9
    assert kills > 10
    with open(urls[0]) as old, open(urls[1]) as new:
        assert (live(old), live(new)) == ([], before)
        assert finished(new) == history
        assert old.verify() == new.verify() == []


def test_a_finished_job_that_is_deleted_in_the_source_stays_in_the_target_like_one_that_ended_there(in_memory):
    """After a switch the copies are jobs, and end; the next copy cannot tell these from copies of finished jobs."""
    old, new = in_memory
    ids = put(old, NewJob("t", b"cancelled", FAR), NewJob("t", b"done", FAR))
    old.apply([ops.Cancel(ids[0])])
    Copier(old, new).carry()
    old.apply([ops.Delete(ids[0])])
    Copier(old, new).switch(10)
    [copy] = new.ask(ListJobs(Filter(state=State.DELAYED, topic="t"), 0, 9))
    [_, [job]] = new.apply([ops.Edit(copy.id, 0), ops.Reserve("t", 1, TERMS, "w")])
    assert new.apply([ops.Ack(job.id, job.claims)]) == [True]
    ended = finished(new)
    assert [(job[1], job[5]) for job in ended] == [(b"cancelled", State.CANCELLED), (b"done", State.DONE)]
    old.apply([ops.Delete(ids[1]), ops.Pause("t", False)])  # it is in use again
    assert Copier(old, new).carry() == (0, 0, 0, 0, 0)
    assert finished(new) == ended


@contextmanager
def beside_a_producer(store):
    """Have twenty jobs put each time that jobs are listed."""
    ask = store.ask

    def beside(query):
        if isinstance(query, ListJobs):
            put(store, *(NewJob("t", b"", FAR) for _ in range(20)))
        return ask(query)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "ask", beside)
        yield


def test_producers_that_are_faster_than_the_copy_do_not_keep_it(paged):
    old, new = paged
    copy, copies = Copier(old, new), []
    for _ in range(2):
        with beside_a_producer(old):
            copy.carry()
        copies.append(len(live(new)))
    assert 30 <= copies[0] < copies[1] < len(live(old))
    copy.carry()
    assert (live(new), new.verify()) == (live(old), [])


def test_producers_that_are_faster_than_a_switch_do_not_keep_it(paged):
    old, new = paged
    put(old, *(NewJob("t", b"", 0) for _ in range(30)))
    for job in old.apply([ops.Reserve("t", 30, TERMS, "w")])[0]:
        old.apply([ops.Ack(job.id, job.claims)])
    copy = Copier(old, new)
    copy.carry()
    copies = live(new)
    with beside_a_producer(old):
        switched = copy.switch(1)
    assert switched.jobs >= 30
    assert switched.late > 0
    left = len(live(old))
    assert left > 0
    assert copy.switch(1).late == left
    assert (live(old), new.verify()) == ([], [])
    assert [job for job in live(new) if job in copies] == copies


def seems_small(store, monkeypatch):
    """Have a store count ten jobs, whatever it has."""
    ask, few = store.ask, {"t": Counts(delayed=10)}
    monkeypatch.setattr(store, "ask", lambda query: few if isinstance(query, CountJobs) else ask(query))


def test_a_switch_leaves_no_copy_however_few_jobs_there_seemed_to_be(paged, monkeypatch):
    """A later call would hand over its job by another copy. Jobs that are put meanwhile may have lower ids."""
    old, new = paged
    copy = Copier(old, new)
    copy.carry()
    before = live(old)
    seems_small(old, monkeypatch)
    assert copy.switch(1).jobs == 30
    assert (live(old), live(new)) == ([], before)


def test_a_carry_that_ends_before_a_copy_leaves_it(paged, monkeypatch):
    """Jobs that are put meanwhile may have lower ids, from what another process had taken ahead."""
    old, new = paged
    ids = [job.id for job in old.ask(ListJobs(Filter(), 0, 100))]
    copy = Copier(old, new)
    copy.carry()
    old.apply([ops.Delete(ids[0]), ops.Cancel(ids[1])])
    seems_small(old, monkeypatch)
    copy.carry()
    assert live(new) == live(old)


def test_a_job_that_a_switch_finds_late_is_handed_over_though_somebody_had_deleted_its_copy(paged, monkeypatch):
    """Jobs that are put meanwhile may have lower ids: then the switch ends before jobs that were there before."""
    old, new = paged
    copy, before = Copier(old, new), live(old)
    copy.carry()
    copies = [job for job in new.ask(ListJobs(Filter(), 0, 100)) if job.topic != TOPIC]
    new.apply([ops.Delete(job.id) for job in copies[-10:]])
    seems_small(old, monkeypatch)
    switched = copy.switch(20)
    assert (switched.jobs, switched.late) == (20, 10)
    while copy.switch(20).late:
        pass
    assert (live(old), live(new)) == ([], before)


def test_beside_producers_and_workers_every_job_is_done_once(stores, monkeypatch):
    monkeypatch.setattr(copy_steps, "PAGE", 50)
    done, told, over, lost = Counter(), [], threading.Event(), set()

    def listen(event):
        if isinstance(event, LeaseLost):  # on a busy machine what is held for a second may be over
            lost.add(event.job.json())

    old, new = (JobQueue(store, listeners=[listen]) for store in stores)
    old.put_many(old.job("later", n, delay="1h", key=f"l{n}") for n in range(300))

    def produce():
        while not over.is_set():
            number = len(told)
            old.put("now", number, delay=0.05, key=f"n{number}")
            told.append(number)
            time.sleep(0.002)

    def handle(job):
        done[job.json()] += 1

    for queue in (old, new):
        queue.handler("now")(handle)
    producer = threading.Thread(target=produce)
    with working(old), working(new):
        producer.start()
        try:
            copy = Copier(old.store, new.store)
            for number in (20, 40, 60):
                until(lambda: len(told) > number)  # noqa: B023
                copy.carry()
            copy.switch(60)
            number = len(told)
            until(lambda: len(told) > number + 20)
        finally:
            over.set()
            producer.join(60)
        assert copy.switch(60).late >= 20
        until(lambda: len(done) == len(told))
    assert done.keys() == {*told}
    assert {number for number, times in done.items() if times > 1} <= lost
    assert new.topics.counts()["later"].delayed == 300
    assert new.topics.counts()["now"].done == len(told)
    assert live(old.store) == []
    assert old.store.verify() == new.store.verify() == []


def test_the_planner_of_schedules_deletes_no_job_of_the_target(stores):
    """The notes of a source name the planner's last job by its id there, which another job has in the target."""
    old, new = stores
    before, after = JobQueue(old), JobQueue(new)
    before.schedules.set("s", "t0", every="1h")
    for _ in range(10):
        assert before.reschedule(PLAN, 0)
        run_due(before)
    put(old, *some(30))
    waiting = live(old)
    Copier(old, new).switch(10)
    assert after.reschedule(PLAN, 0)
    run_due(after)
    assert [job for job in live(new) if job[0] != SCHEDULES] == [job for job in waiting if job[0] != SCHEDULES]

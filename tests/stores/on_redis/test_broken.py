"""Connections that break, servers that die and come back: a command that was sent again happens once."""

import contextlib
import threading
from functools import partial
from types import SimpleNamespace

import pytest

from pywheel import JobQueue, OutcomeUnknown, StoreAway, StoreClosed, StoreFull, StoreReadOnly
from pywheel.jobs import State
from pywheel.jobs.commands import Ack, Announce, Claim, Nack, Pause, Put, Reserve, SetNote
from pywheel.jobs.job import NewJob
from pywheel.jobs.queries import CountJobs, GetHistories, GetJob, ListWorkers
from pywheel.stores import open
from tests.isolated.child import run_well
from tests.jobs.waiting import Stopwatch, until, working
from tests.ports import reserved_ports
from tests.stores.calls import TERMS, in_threads, listening
from tests.stores.cluster import replicated
from tests.stores.network import Proxy
from tests.stores.servers import Redis

JOB = NewJob("t", b"body", 0, delay=0)


@pytest.fixture
def proxy(redis_server):
    with Proxy(redis_server) as proxy:
        yield proxy


@pytest.fixture
def store(redis_server, proxy):
    with open(redis_server.url(via=proxy)) as store:
        store.apply([Put((NewJob("other", b"", 0),))])  # the scripts are loaded
        store.apply([Put((NewJob("other", b"", 0, "k"),))])
        store.apply([Ack(1, 1)])
        yield store


@contextlib.contextmanager
def changed(client, name, value):
    """Change a setting of the server meanwhile."""
    before = client.config_get(name)[name]
    client.config_set(name, value)
    try:
        yield
    finally:
        client.config_set(name, before)


class TestOnce:
    """The connection is cut when the server has done it, and before the answer has come through."""

    @pytest.mark.parametrize("jobs", [(JOB,), (JOB,) * 100, (JOB, JOB._replace(topic="u")), (JOB._replace(key="k"),)])
    def test_a_put_whose_answer_was_cut_off_happens_once(self, store, proxy, jobs):
        proxy.cut_after(answers=0)
        [ids] = store.apply([Put(jobs)])
        assert [job.id for job in JobQueue(store).jobs.list(limit=1_000) if job.topic != "other"] == ids

    @pytest.mark.parametrize("error", [StoreReadOnly("it is a replica"), StoreFull("it has reached its maxmemory")])
    def test_a_put_whose_answer_was_cut_off_is_in_doubt_whatever_the_server_says_next(
        self, store, proxy, monkeypatch, error
    ):
        fresh, refused = store.server.fresh, []

        def refused_once():
            if not refused:
                refused.append(True)
                raise error
            return fresh()

        monkeypatch.setattr(store.server, "fresh", refused_once)
        proxy.cut_after(answers=0)
        [[id]] = store.apply([Put((JOB,))])
        assert [job.id for job in JobQueue(store).jobs.list("t")] == [id]
        assert refused

    @pytest.mark.parametrize(("name", "value"), [("maxmemory-policy", "allkeys-lru"), ("requirepass", "secret")])
    def test_a_put_whose_answer_was_cut_off_is_in_doubt_where_the_server_takes_no_new_connection_of_ours(
        self, store, proxy, client, monkeypatch, name, value
    ):
        monkeypatch.setattr(store, "_limit", 0.3)
        with changed(client, name, value):
            proxy.cut_after(answers=0)
            with pytest.raises(OutcomeUnknown, match="is not known"):
                store.apply([Put((JOB,))])
            assert client.exists(store.server.prefix + b":d:0:t")

    def test_a_put_whose_answer_was_cut_off_is_in_doubt_where_the_user_may_not_send_it_again(
        self, redis_server, proxy, client, monkeypatch
    ):
        rights = "ACL", "SETUSER", "passing", "reset", "on", ">secret", "~*", "&*", "+@all"
        client.execute_command(*rights)
        with open(redis_server.url(via=proxy, user="passing:secret")) as store:
            monkeypatch.setattr(store, "_limit", 0.3)
            fresh = store.server.fresh

            def denied():
                client.execute_command(*rights, "-fcall")
                return fresh()

            monkeypatch.setattr(store.server, "fresh", denied)
            proxy.cut_after(answers=0)
            with pytest.raises(OutcomeUnknown, match="is not known"):
                store.apply([Put((JOB,))])
            assert client.exists(store.server.prefix + b":d:0:t")

    def test_a_put_whose_answer_was_cut_off_happens_once_though_the_clock_of_the_server_steps_by_hours(
        self, store, proxy, client, monkeypatch
    ):
        fresh = store.server.fresh

        def stepped():
            for key in client.scan_iter(match=store.server.prefix + b":q:*"):
                client.pexpire(key, client.pttl(key) - 14 * 3_600_000)
            return fresh()

        monkeypatch.setattr(store.server, "fresh", stepped)
        proxy.cut_after(answers=0)
        [[id]] = store.apply([Put((JOB,))])
        assert [job.id for job in JobQueue(store).jobs.list("t")] == [id]

    def test_a_put_whose_answer_was_cut_off_as_the_store_was_closed_is_in_doubt(self, store, proxy, monkeypatch):
        def closed():
            raise StoreClosed("this store is closed")

        proxy.cut_after(answers=0)
        with monkeypatch.context() as patches:
            patches.setattr(store.server, "fresh", closed)
            with pytest.raises(OutcomeUnknown, match="is not known"):
                store.apply([Put((JOB,))])
        assert len(JobQueue(store).jobs.list("t")) == 1

    @pytest.mark.parametrize("answers", [0, 1, 40])
    def test_claims_and_acks_whose_answer_was_cut_off_happen_once(self, store, proxy, answers):
        [ids] = store.apply([Put((JOB,) * 5)])
        store.apply([Put((NewJob("x", b"", 0),))])
        proxy.cut_after(answers=answers)
        [claimed] = store.apply([Claim("t", tuple(ids), TERMS, "w", 9)])
        assert [(job.id, job.claims, job.body) for job in claimed.jobs] == [(id, 1, b"body") for id in ids]
        assert claimed.begun == 5
        assert [store.ask(GetJob(job.id)) for job in claimed.jobs] == claimed.jobs
        proxy.cut_after(answers=answers)
        assert store.apply([Ack(id, 1) for id in ids[:3]] + [Nack(ids[3], 1, None)]) == [True] * 3 + [State.DEAD]
        assert [len(store.ask(GetHistories([id]))[0]) for id in ids[:4]] == [1] * 4
        proxy.cut_after(answers=answers)
        [jobs] = store.apply([Reserve("x", 9, TERMS, "w")])
        assert [(job.topic, job.claims) for job in jobs] == [("x", 1)]

    def test_what_a_note_held_is_not_taken_for_a_claim(self, store, proxy):
        store.apply([SetNote("n", b"claim")])
        proxy.cut_after(answers=0)
        assert store.apply([SetNote("n", b"reserve")]) == [b"claim"]

    @pytest.mark.parametrize("requests", [1, 100])
    def test_what_did_not_arrive_is_sent_again(self, store, proxy, requests):
        proxy.cut_after(requests=requests)
        [ids] = store.apply([Put((JOB,))])
        assert [job.id for job in JobQueue(store).jobs.list(topic="t")] == ids

    def test_many_threads_whose_connection_is_cut_all_the_time_put_each_job_once(self, store, proxy, pool):
        told, stopped = [], threading.Event()

        def put(number):
            left = [b"%d.%d" % (number, count) for count in range(40)]
            while left:
                with contextlib.suppress(StoreAway):  # it was cut before anything was sent
                    [ids] = store.apply([Put((JOB._replace(body=left[-1]),))])
                    told.append((ids[0], left.pop()))

        def cut():
            before = 0
            while not stopped.wait(0.02):
                if len(told) > before:  # on a slow machine connections are to begin as well
                    before = len(told)
                    proxy.cut_once()

        cutter = pool.submit(cut)
        in_threads(*(partial(put, number) for number in range(6)))
        stopped.set()
        cutter.result(60)
        jobs = {job.id: job.body for job in JobQueue(store).jobs.list(topic="t", limit=1_000)}
        assert len(set(jobs.values())) == len(jobs)
        assert {id: jobs.get(id) for id, _ in told} == dict(told)
        assert len(told) == 240


class TestLostEnd:
    """A server that comes back without the end of what it had said: as after a crash with appendfsync everysec."""

    @pytest.fixture
    def redis(self):
        with Redis(settings={"appendonly": "no", "save": ""}) as redis:
            yield redis

    def test_ids_and_receipts_given_out_before_are_not_given_out_again(self, redis):
        with open(redis.url()) as store:
            [[kept, other]] = store.apply([Put((JOB, JOB))])
            with redis.connect() as client:
                client.save()
            [[lost]] = store.apply([Put((JOB,))])
            [[claimed]] = store.apply([Reserve("t", 1, TERMS, "w")])
            redis.kill()
            redis.start()
            assert store.ask(GetJob(lost)) is None
            assert store.ask(GetJob(kept)).state is State.DELAYED
            [[new]] = store.apply([Put((JOB,))])
            assert new > lost
            [jobs] = store.apply([Reserve("t", 9, TERMS, "v")])
            assert [job.id for job in jobs] == [kept, other, new]
            assert store.apply([Ack(claimed.id, claimed.claims)]) == [False]
            assert [job.attempt for job in jobs] == [1, 1, 1]
            assert store.apply([Ack(job.id, job.claims) for job in jobs]) == [True] * 3

    @pytest.mark.parametrize("survives", [True, False], ids=["some", "nothing"])
    def test_a_worker_delivers_what_survived_and_begins_with_the_server_again(self, redis, survives):
        url = redis.url()
        with JobQueue(url) as queue:
            done = []
            queue.handler("t", concurrency=1)(lambda job: done.append(job.id))
            with working(queue) as worker:
                expected = [queue.put("t", b"")]
                until(lambda: done == expected)
                later = queue.put("t", b"", delay=3600)
                if survives:
                    expected.append(later)
                    with redis.connect() as client:
                        client.save()
                lost = queue.put("t", b"", delay=3600)
                redis.kill()
                redis.start()
                if survives:
                    with JobQueue(url) as other:
                        assert other.reschedule(later, delay=0)
                until(lambda: done == expected)
                assert queue.store.ask(GetJob(lost)) is None
                expected.append(queue.put("t", b""))
                until(lambda: done == expected)
                until(lambda: [member.worker for member in queue.store.ask(ListWorkers())] == [worker.name])

    @pytest.mark.parametrize("stores", [1, 2])
    def test_after_a_loss_of_all_no_id_and_no_receipt_is_given_out_again_and_the_store_is_found(self, redis, stores):
        url = redis.url(stores=stores)
        with open(url) as store:
            [old] = store.apply([Put((JOB,) * 3)])
            [[claimed, *_]] = store.apply([Reserve("t", 9, TERMS, "w")])
            redis.kill()
            redis.start()
            [new] = store.apply([Put((JOB,) * 3)])
            assert not {*old} & {*new}
            [jobs] = store.apply([Reserve("t", 9, TERMS, "v")])
            assert [job.id for job in jobs] == new
            assert store.apply([Ack(claimed.id, claimed.claims)]) == [False]
            with open(url, create=False) as other:
                assert other.ask(GetJob(new[0])).state is State.RUNNING
            assert store.verify() == []

    def test_a_pause_of_before_is_not_taken_for_a_new_one_with_its_number(self, redis):
        with open(redis.url()) as store:
            notifier = listening(store)
            for paused in (True, False, True, False):
                store.apply([Pause("t", paused)])
            notifier.hints()
            notifier.quiet()  # up to the fourth change
            redis.kill()
            redis.start()
            notifier.wait(0)
            notifier.beat(0)  # it meets the server anew
            store.apply([Announce(notifier.worker, ("t",))])
            notifier.beat(0)
            store.apply([Pause("t", True)])  # the first change
            assert not store.quiet("t", 0)
            notifier.hints()
            notifier.quiet()
            assert store.quiet("t", 0)
            notifier.close()


def test_a_replica_that_took_over_and_was_behind_is_read_anew(redis_server):
    [port] = reserved_ports(1)
    settings = {"port": port, "bind": "127.0.0.1", "repl-diskless-sync-delay": 0}
    with Redis(settings=settings) as master, Redis() as replica, Proxy(master) as proxy:
        with replica.connect() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", port)
        replicated(master)
        url = master.url(via=proxy)
        with JobQueue(url) as queue:
            done = []
            queue.handler("t", concurrency=1)(lambda job: done.append(job.id))
            with working(queue):
                first = queue.put("t", b"", delay=3600)
                replicated(master)
                with replica.connect() as client:
                    client.execute_command("REPLICAOF", "NO", "ONE")  # what follows does not reach it
                lost = queue.put("t", b"", delay=3600)
                with JobQueue(replica.again(url)) as there:
                    assert there.reschedule(first, delay=0)
                proxy.lead_to(replica)
                until(lambda: done == [first])
                new = queue.put("t", b"")
                until(lambda: done == [first, new])
                assert new > lost
                assert queue.store.ask(GetJob(lost)) is None


CALLS_THAT_WAIT = {
    "a put": lambda store: store.apply([Put((JOB,))]),
    "a query": lambda store: store.ask(CountJobs()),
    "a reserve": lambda store: store.apply([Reserve("t", 1, TERMS, "w")]),
    "a notifier": lambda store: store.notifier("w"),
}


@pytest.mark.parametrize("call", CALLS_THAT_WAIT.values(), ids=CALLS_THAT_WAIT)
def test_a_call_on_a_stopped_server_takes_its_time_limit_once(redis_server, call):
    limit = 2.0
    with open(redis_server.url(timeout=f"{limit:g}")) as store:
        store.apply([Put((JOB,))])
        redis_server.pause()
        try:
            watch = Stopwatch()
            with pytest.raises(StoreAway):
                call(store)
            assert watch.seconds() < 1.8 * limit
        finally:
            redis_server.resume()


CLOSED_IN_A_CHILD = """
import os, sys
from pywheel.stores import open

with open(sys.argv[1]) as store:
    ear = store.server.fresh()
    ear.subscribe(b"bell")
    store.call(b"PUBLISH", b"bell", b"rung")
    child = os.fork()
    if child == 0:
        ear.close()
        os._exit(0)
    os.waitpid(child, 0)
    print(ear.heard(60))
"""


def test_a_forked_child_that_lets_go_of_a_connection_reads_nothing_of_it(redis_server):
    """What comes there is the parent's: a bell, or the answer to a command."""
    assert run_well("-c", CLOSED_IN_A_CHILD, redis_server.url()) == "[(b'bell', b'rung')]\n"


def test_an_outage_counts_from_the_last_answer_though_no_new_connection_was_made(redis_server, proxy, monkeypatch):
    with open(redis_server.url(via=proxy)) as store:
        monotonic = [1000.0]
        monkeypatch.setattr("pywheel.stores.server.time", SimpleNamespace(monotonic=lambda: monotonic[0]))
        beside, _ = store.server.take()  # for another thread's call
        proxy.stall()
        with monkeypatch.context() as patches:
            patches.setattr(store.server, "place", store.server.place._replace(timeout=0.3))
            with pytest.raises(StoreAway) as first:
                store.ask(CountJobs())
        proxy.heal()
        beside.call(b"PING")
        store.server.give(beside)
        monotonic[0] += 3600
        store.ask(CountJobs())
        proxy.cut()
        with pytest.raises(StoreAway) as second:
            store.ask(CountJobs())
        assert (first.value.seconds, second.value.seconds) == (0, 0)


def test_an_ear_whose_reading_was_interrupted_is_replaced_and_does_not_connect_by_itself(redis_server, monkeypatch):
    """The client library would, and hear nothing then: nobody has subscribed there."""
    with open(redis_server.url()) as store:
        notifier = listening(store)
        ear = notifier._ear
        store.call(b"PUBLISH", store.bell_of(notifier.worker), b"r")
        with monkeypatch.context() as patches:
            patches.setattr(ear._redis._parser, "read_response", interrupted)
            with pytest.raises(KeyboardInterrupt):
                notifier.wait(60)
        monkeypatch.setattr(ear._redis, "connect", None)
        assert notifier.hints().reload
        notifier.beat(0)
        assert notifier.hints().reload
        assert notifier._ear is not ear
        [[id]] = store.apply([Put((JOB,))])
        assert [due.id for due in notifier.hints().due] == [id]
        notifier.close()


def interrupted(*_, **__):
    raise KeyboardInterrupt

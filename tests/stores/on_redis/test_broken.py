"""Connections that break, servers that die and come back: a command that was sent again happens once."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pywheel import JobQueue, StoreAway, Worker
from pywheel.jobs import Counts, State
from pywheel.jobs.commands import Ack, Announce, Claim, ClaimPolicy, Nack, Put, Reserve, SetNote
from pywheel.jobs.job import NewJob
from pywheel.jobs.queries import CountJobs, GetHistories, GetJob, ListWorkers
from pywheel.stores import open
from tests.isolated.child import environment, run_well
from tests.jobs.waiting import until, working
from tests.stores.network import Proxy
from tests.stores.servers import Redis

HERE = Path(__file__).parent
JOB = NewJob("t", b"body", 0, delay=0)
TERMS = ClaimPolicy(60_000, 3)


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


def put_keyed(store):
    return store.apply([Put((JOB._replace(key="k"),)), Put((JOB,))])


COMMANDS = {
    "put": lambda store: store.apply([Put((JOB,))]),
    "put many": lambda store: store.apply([Put((JOB,) * 100), Put((JOB, JOB._replace(topic="u")))]),
    "put with keys": put_keyed,
}


class TestOnce:
    """The connection is cut when the server has done it, and before the answer has come through."""

    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_put_whose_answer_was_cut_off_happens_once(self, store, proxy, command):
        proxy.stall(requests=False, answers=True)
        outcome = []
        thread = threading.Thread(target=lambda: outcome.extend(COMMANDS[command](store)))
        thread.start()
        until(lambda: self.last_id(store, proxy) > 2)
        proxy.cut_once()
        proxy.heal()
        thread.join(60)
        ids = [id for part in outcome for id in part]
        assert ids == sorted(set(ids))
        assert [job.id for job in JobQueue(store).jobs.list(limit=1_000) if job.topic != "other"] == ids

    @staticmethod
    def last_id(store, proxy):
        """Return the last id that the server gave out: looked at past the proxy."""
        with contextlib.closing(proxy._server.connect()) as client:
            return int(client.get(store.server.prefix + b":n"))

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

    def test_a_reading_call_is_asked_again(self, store, proxy):
        store.apply([Put((JOB,))])
        proxy.cut_after(answers=5)
        assert store.ask(CountJobs())["t"] == Counts(delayed=1)

    def test_many_threads_whose_connection_is_cut_all_the_time_put_each_job_once(self, store, proxy):
        told, stopped = [], threading.Event()

        def put(number):
            for count in range(40):
                body = b"%d.%d" % (number, count)
                with contextlib.suppress(StoreAway):
                    [ids] = store.apply([Put((JOB._replace(body=body),))])
                    told.append((ids[0], body))

        def cut():
            while not stopped.wait(0.02):
                proxy.cut_once()

        threads = [threading.Thread(target=put, args=(number,)) for number in range(6)]
        cutter = threading.Thread(target=cut)
        for thread in [*threads, cutter]:
            thread.start()
        for thread in threads:
            thread.join(60)
        stopped.set()
        cutter.join(60)
        jobs = {job.id: job.body for job in JobQueue(store).jobs.list(topic="t", limit=1_000)}
        assert len(set(jobs.values())) == len(jobs)
        assert {id: jobs.get(id) for id, _ in told} == dict(told)
        assert len(told) == 240


class TestAway:
    def test_a_store_whose_server_is_away_says_so_at_once_and_goes_on_when_it_is_back(self, redis_server, proxy, store):
        proxy.cut()
        for _ in range(2):
            with pytest.raises(
                StoreAway, match=r"^redis\+unix://[^ ]* (does not answer|has not answered for \d+ s) \(.*\): start"
            ):
                store.apply([Put((JOB,))])
        proxy.heal()
        assert len(store.apply([Put((JOB,))])) == 1

    def test_a_network_that_swallows_all_is_away_within_the_limit(self, redis_server, proxy):
        with open(redis_server.url(via=proxy, timeout="300ms")) as store:
            proxy.stall()
            with pytest.raises(StoreAway):
                store.apply([Put((JOB,))])
            with pytest.raises(StoreAway):
                store.ask(CountJobs())
            proxy.heal()
            assert store.apply([Put((JOB,))])

    def test_a_worker_goes_on_when_the_server_is_back_and_keeps_what_was_done(self, redis_server, proxy):
        with JobQueue(redis_server.url(via=proxy)) as queue, JobQueue(queue.store) as other:
            done, gate = [], threading.Event()

            @queue.handler("t", concurrency=2, ttr=60)
            def handle(job):
                if job.body == b"slow":
                    gate.wait(60)
                done.append(job.id)

            with working(queue):
                slow = queue.put("t", b"slow")
                until(lambda: queue.get(slow).state is State.RUNNING)
                proxy.cut()
                gate.set()
                until(lambda: done == [slow])
                time.sleep(0.3)
                proxy.heal()
                until(lambda: other.get(slow).state is State.DONE)
                quick = other.put("t", b"quick")
                until(lambda: other.get(quick).state is State.DONE)
            assert done == [slow, quick]
            assert [row.claim for row in other.jobs.history(slow)] == [1]

    def test_a_bell_that_was_lost_with_its_connection_is_made_up_for(self, redis_server, proxy):
        with open(redis_server.url(via=proxy)) as mine, open(mine.secret_url) as other:
            notifier = mine.notifier("w")
            mine.apply([Announce(notifier.worker, ("t",))])
            notifier.publish(2**50)
            notifier.hints()
            proxy.cut_once()
            assert notifier.wait(60)
            other.apply([Put((JOB,))])
            notifier.beat(0)
            assert notifier.hints().reload
            other.apply([Put((JOB,))])
            assert notifier.wait(60)
            assert len(notifier.hints().due) == 1
            notifier.close()


@pytest.fixture
def fsynced():
    with Redis(fsync=True) as redis:
        yield redis


PRODUCER = """
import sys
from pywheel import JobQueue, StoreError
queue = JobQueue(sys.argv[1])
number = 0
while True:
    number += 1
    try:
        id = queue.put("t", b"%d" % number)
        print(id, number, flush=True)
        job, = queue.reserve("t", 1, ttr=60)
        if number % 3 == 0 and queue.ack(job):
            print("ack", job.id, flush=True)
    except (StoreError, ValueError):
        pass
"""


class TestKilledServer:
    def test_nothing_that_was_told_is_lost_with_appendfsync_always(self, fsynced):
        url = fsynced.url()
        command = [sys.executable, "-c", PRODUCER, url]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as producer:
            lines = [producer.stdout.readline() for _ in range(50)]
            for _ in range(3):
                fsynced.kill()
                fsynced.start()
                lines += [producer.stdout.readline() for _ in range(50)]
            fsynced.kill()
            producer.kill()
            lines += producer.stdout.read().splitlines()
        fsynced.start()
        said = [line.split() for line in lines if len(line.split()) == 2]
        with JobQueue(url) as queue:
            for first, second in said:
                job = queue.get(int(second) if first == "ack" else int(first))
                assert job is not None, (first, second)
                if first == "ack":
                    assert job.state is State.DONE
                else:
                    assert job.body == second.encode()

    def test_a_worker_goes_on_with_a_server_that_was_killed(self, fsynced):
        with JobQueue(fsynced.url()) as queue:
            done = []
            queue.handler("t", concurrency=4)(lambda job: done.append(job.id))
            with working(queue):
                first = queue.put("t", b"")
                far = queue.put("t", b"", delay=1.5)
                until(lambda: done == [first])
                fsynced.kill()
                fsynced.start()
                second = queue.put("t", b"")
                until(lambda: len(done) == 3)
            assert sorted(done) == [first, far, second]


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

    def test_what_survived_is_read_anew_and_delivered(self, redis):
        with JobQueue(redis.url()) as queue:
            done = []
            queue.handler("t", concurrency=1)(lambda job: done.append(job.id))
            with working(queue):
                first = queue.put("t", b"", delay=1)
                with redis.connect() as client:
                    client.save()
                queue.put("t", b"", delay=1)  # lost
                redis.kill()
                redis.start()
                until(lambda: done == [first])
                new = queue.put("t", b"")
                until(lambda: done == [first, new])

    def test_a_server_that_lost_all_is_begun_with_again(self, redis):
        with JobQueue(redis.url()) as queue:
            done = []
            queue.handler("t", concurrency=1)(lambda job: done.append(job.id))
            with working(queue) as worker:
                queue.put("t", b"")
                until(lambda: len(done) == 1)
                redis.kill()
                redis.start()
                new = queue.put("t", b"")
                until(lambda: done[1:] == [new])
                until(lambda: [member.worker for member in queue.store.ask(ListWorkers())] == [worker.name])


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_replica_that_took_over_and_was_behind_is_read_anew(redis_server):
    port = free_port()
    settings = {"port": port, "bind": "127.0.0.1", "repl-diskless-sync-delay": 0}
    with Redis(settings=settings) as master, Redis() as replica, Proxy(master) as proxy:
        with replica.connect() as client:
            client.execute_command("REPLICAOF", "127.0.0.1", port)
        with JobQueue(master.url(via=proxy)) as queue:
            done = []
            queue.handler("t", concurrency=1)(lambda job: done.append(job.id))
            with working(queue):
                first = queue.put("t", b"", delay=2)
                with master.connect() as there, replica.connect() as client:
                    until(lambda: client.info("replication")["master_link_status"] == "up")
                    said = there.info("replication")["master_repl_offset"]
                    until(lambda: client.info("replication")["slave_repl_offset"] >= said)
                    client.execute_command("REPLICAOF", "NO", "ONE")  # what follows does not reach it
                lost = queue.put("t", b"", delay=2)
                proxy.cut()
                proxy._server = replica
                proxy.heal()
                until(lambda: done == [first])
                new = queue.put("t", b"")
                until(lambda: done == [first, new])
                assert new > lost
                assert queue.store.ask(GetJob(lost)) is None


def test_a_worker_that_is_told_to_stop_while_the_server_is_away_stops(redis_server, proxy):
    with JobQueue(redis_server.url(via=proxy)) as queue:
        queue.handler("t")(print)
        worker = Worker(queue, grace=1)
        worker.start()
        until(lambda: worker.name in [member.worker for member in queue.store.ask(ListWorkers())])
        proxy.cut()
        worker.stop()
        assert worker.join(60)
        proxy.heal()


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

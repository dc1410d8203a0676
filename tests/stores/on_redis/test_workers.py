"""Workers beside each other on Redis: presence, deaths and wake-ups."""

import contextlib
import subprocess
import sys
import time
from functools import partial
from math import inf, nan
from struct import pack

import pytest

from pywheel import JobQueue
from pywheel.jobs import State
from pywheel.jobs.commands import Announce, Claim, ClaimPolicy, Pause, Put
from pywheel.jobs.job import Due, NewJob
from pywheel.jobs.queries import ListWorkers
from pywheel.stores import open
from tests.isolated.child import environment
from tests.jobs.waiting import LIMIT, until, working
from tests.stores.calls import listening

CHILD = """
import sys
from pywheel import JobQueue, Worker
queue = JobQueue(sys.argv[1])
queue.handler("t", concurrency=4, ttr=1)(lambda job: None)
Worker(queue, name="child").run()
"""


@contextlib.contextmanager
def worker_process(url):
    with subprocess.Popen([sys.executable, "-c", CHILD, url], env=environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def names(queue):
    return sorted(member.worker.partition("@")[0] for member in queue.store.ask(ListWorkers()))


@pytest.fixture(params=[1, 4])
def url(request, redis_server):
    """The address of an empty store, or of several."""
    return redis_server.url(stores=request.param)


class TestGone:
    def test_who_has_claimed_jobs_of_late_looks_for_deaths_at_each_look(self, url, clock):
        with open(url, clock=clock) as store:
            one, other = store.notifier("one"), store.notifier("other")
            store.apply([Announce(ears.worker, ("t",)) for ears in (one, other)])
            one.beat(0)
            clock.advance(0.25)
            one.beat(0)
            assert not one._presence.busy
            assert one._beat_at < clock.time()
            [[id]] = store.apply([Put((NewJob("t", b"", 0),))])
            store.apply([Claim("t", (id,), ClaimPolicy(1_000, 3), one.worker, 1)])
            one.beat(0)
            assert one._beat_at == clock.time()
            clock.advance(3)
            assert not one._presence.busy
            one.close()
            other.close()

    def test_who_is_alone_looks_for_no_deaths(self, url, clock):
        with open(url, clock=clock) as store:
            one = store.notifier("one")
            store.apply([Announce(one.worker, ("t",)), Put((NewJob("t", b"", 0),))])
            store.apply([Claim("t", (), ClaimPolicy(1_000, 3), one.worker, 1, limit=1)])
            one.beat(0)
            assert one._presence.busy
            clock.advance(0.25)
            one.beat(0)
            assert one._beat_at < clock.time()
            one.close()

    def test_a_worker_that_was_killed_is_gone_as_soon_as_a_neighbour_beats(self, url, monkeypatch):
        monkeypatch.setattr("pywheel.stores.presence.SILENT", 3_600)  # nobody is gone by silence
        with JobQueue(url) as queue, worker_process(url) as process:
            queue.handler("t", concurrency=4)(lambda job: None)
            with working(queue, name="own"):
                until(lambda: names(queue) == ["child", "own"])
                process.kill()
                until(lambda: names(queue) == ["own"])

    def test_a_worker_that_was_killed_is_forgotten_in_every_store(self, redis_server, client):
        with JobQueue(redis_server.url(stores=4)) as queue:
            prefixes = [store.server.prefix for store in queue.store.stores]
            queue.handler("t")(lambda job: None)
            with worker_process(queue.store.url) as process:
                until(lambda: all(client.hlen(prefix + b":a:t") == 1 for prefix in prefixes))
                process.kill()
            with working(queue):
                until(
                    lambda: all(client.hlen(prefix + b":m") == client.zcard(prefix + b":h") == 1 for prefix in prefixes)
                )

    def test_who_closes_leaves_nothing_in_the_store(self, url, client):
        with open(url) as store:
            notifier = listening(store, "t", "u")
            inner = getattr(store, "stores", [store])
            for one in inner:
                one.apply([Put((NewJob("t", b"", 0, delay=0),))])
            notifier.beat(0)

            def left(prefix):
                names = (key[len(prefix) + 1 :].split(b":")[0] for key in client.scan_iter(match=prefix + b":*"))
                return {b"m", b"b", b"h", b"hmax", b"a"} & set(names)

            assert [left(one.server.prefix) for one in inner] == [{b"m", b"b", b"h", b"hmax", b"a"}] * len(inner)
            notifier.close()
            assert [left(one.server.prefix) for one in inner] == [set()] * len(inner)


class TestEmptied:
    def test_after_a_flushall_workers_go_on_and_schedules_that_code_declares_are_back(self, url, client, caplog):
        with JobQueue(url) as queue:
            queue.handler("t")(lambda job: None)
            queue.every("1h", name="hourly")(lambda: None)
            queue.schedules.set("by hand", "t", every="1h")
            with working(queue):
                until(lambda: {shown.schedule.name for shown in queue.schedules.list()} == {"by hand", "hourly"})
                client.flushall()
                until(lambda: [shown.schedule.name for shown in queue.schedules.list()] == ["hourly"])
                assert queue.wait(queue.put("t"), timeout=LIMIT).state is State.DONE
        assert "as after FLUSHALL" in caplog.text


class TestOtherMessages:
    """Channels have no databases, and whoever may publish may send anything."""

    def test_pauses_of_a_store_of_the_same_name_in_another_database_are_not_taken_for_its_own(self, redis_server):
        url = partial(redis_server.url, prefix="twin")
        with open(url(db=0)) as store, open(url(db=1)) as twin:
            notifier = listening(store)
            for paused in (True, False, True):
                twin.apply([Pause("t", paused)])
            notifier.hints()
            notifier.quiet()
            store.apply([Pause("t", True)])
            assert not store.quiet("t", 0)
            assert notifier.hints().reload
            notifier.quiet()
            assert store.quiet("t", 0)
            notifier.close()

    @pytest.mark.parametrize(
        ("own", "message"),
        [
            (False, b"px"),
            (False, b"h\0\0"),
            (True, b"h\0\0\0\1t123"),
            (True, b"h\0\0\0\1\xff"),
            (True, b"h\0\0\0\1t" + pack(">6sdb", b"\0" * 6, nan, 0)),
            (True, b"h\0\0\0\1t" + pack(">6sdb", b"\0" * 6, inf, 0)),
            (True, b""),
        ],
    )
    def test_those_that_nobody_of_ours_sends_are_passed_over(self, redis_server, client, own, message):
        with open(redis_server.url()) as store:
            notifier = listening(store)
            client.publish(store.bell_of(notifier.worker) if own else store.server.prefix + b":bell", message)
            assert notifier.wait(LIMIT)
            [[id]] = store.apply([Put((NewJob("t", b"", 0, delay=0),))])
            assert [due.id for due in notifier.hints().due] == [id]
            notifier.close()


class TestHints:
    def test_a_far_horizon_is_told_once_and_a_near_one_when_much_came_in_vain(self, store, client, clock):
        notifier = store.notifier("w")
        store.apply([Announce(notifier.worker, ("t",))])
        notifier.publish(clock.wall() + 60_000)
        notifier.hints()

        def calls():
            return client.info("stats")["total_commands_processed"]

        before = calls()
        for _ in range(50):
            notifier.publish(clock.wall() + 60_500)
            notifier.publish(clock.wall() + 5_000)
        assert calls() - before <= 1  # the question itself
        notifier.publish(clock.wall() + 1_000)
        store.apply([Put(tuple(NewJob("t", b"", 0, delay=50_000) for _ in range(200)))])
        assert notifier.hints() == ([], False)
        notifier.publish(clock.wall() + 1_000)
        store.apply([Put(tuple(NewJob("t", b"", 0, delay=50_000) for _ in range(200)))])
        assert client.llen(store.server.prefix + b":i:" + notifier.worker.encode()) == 0
        [ids] = store.apply([Put((NewJob("t", b"", 0, delay=900),))])
        assert notifier.hints().due == [Due(clock.wall() + 900, ids[0], "t")]
        notifier.close()

    def test_hints_that_a_broken_connection_may_have_lost_make_a_worker_read_again(self, store, client, clock):
        notifier = store.notifier("w")
        store.apply([Announce(notifier.worker, ("t",))])
        notifier.publish(clock.wall() + 60_000)
        assert not notifier.hints().reload
        client.client_kill_filter(_type="pubsub")
        store.apply([Put((NewJob("t", b"", 0, delay=0),))])
        assert notifier.hints() == ([], True)
        clock.advance(2)
        notifier.beat(0)
        assert notifier.hints().reload
        [[id]] = store.apply([Put((NewJob("t", b"", 0, delay=0),))])
        hints = notifier.hints()
        assert ([due.id for due in hints.due], hints.reload) == ([id], False)
        notifier.close()

    def test_a_worker_alone_asks_little_while_there_is_nothing_to_do(self, redis_server, client):
        with JobQueue(redis_server.url()) as queue:
            queue.handler("t")(lambda job: None)
            queue.put("t", b"", delay=3600)

            def asked():
                """Return how many commands a second there are; those within scripts count."""
                began, before = time.monotonic(), client.info("stats")["total_commands_processed"]
                time.sleep(1)
                return (client.info("stats")["total_commands_processed"] - before) / (time.monotonic() - began)

            with working(queue):
                until(lambda: len(queue.store.ask(ListWorkers())) == 1)
                until(lambda: asked() < 30)  # it reads all once more, soon after it began
                assert client.info("commandstats")["cmdstat_fcall"]["calls"]

"""Puts while the store is away: they wait in a local file, and are forwarded once."""

import asyncio
import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from pywheel import BadJob, JobExists, JobQueue, NoSuchJob, NotAStore, StoreAway, StoreBusy, StoreClosed, StoreError
from pywheel._errors import StoreFull
from pywheel.client import queue as queue_module
from pywheel.client.spool import Spool
from pywheel.events import JobRefused, JobsForwarded, JobsPut, JobsSpooled, StoreBack, StoreFailed
from pywheel.jobs import NewJob, State
from pywheel.jobs.commands import NONCES_KEPT, Claim, Put, Terms
from pywheel.observe import Tally
from pywheel.stores import Filter
from pywheel.stores import open as open_store
from pywheel.testing import FaultyStore, ManualClock
from tests.jobs.waiting import until, working


@pytest.fixture
def spool(tmp_path):
    return f"sqlite:///{tmp_path}/spool.db"


@pytest.fixture
def server(tmp_path):
    """A store that goes away when it is told to; it survives the queue."""
    with open_store(f"sqlite:///{tmp_path}/server.db") as store:
        server = FaultyStore(store)
        server.close = lambda: None
        yield server


@pytest.fixture
def heard():
    return []


@pytest.fixture
def queue(server, spool, heard):
    with JobQueue(server, spool=spool, listeners=[heard.append]) as queue:
        yield queue


def bodies(server, topic="t"):
    """What the server has, in the order of its puts."""
    return [job.json() for job in server.inner.jobs(Filter(topic), 0, 10_000)]


def forwarded(queue):
    """Whether nothing waits."""
    return not queue.store._spool.waiting()


def back(queue, server):
    """Bring the server back; wait until all was forwarded."""
    server.away = False
    until(lambda: forwarded(queue) and queue.store._link.away is None)


# ---- away and back --------------------------------------------------------------------------------------------------


def test_while_the_store_is_there_puts_go_to_it(queue, server):
    assert queue.put("t", 1) == 1
    assert queue.put("t", 2, key="k") == 2
    assert bodies(server) == [1, 2]
    assert sum(queue.store._spool.counts()) == 0


def test_what_was_put_while_it_was_away_is_forwarded_in_order_and_once(queue, server):
    queue.put("t", 0)
    server.away = True
    ids = [queue.put("t", n) for n in range(1, 4)]
    ids += queue.put_many(queue.job("t", n) for n in range(4, 7))
    assert ids == [-1, -2, -3, -4, -5, -6]
    assert bodies(server) == [0]
    back(queue, server)
    assert bodies(server) == list(range(7))
    assert [queue.get(id).json() for id in ids] == list(range(1, 7))
    assert all(queue.get(id).id > 0 for id in ids)
    assert queue.counts()["t"].delayed == 7


def test_a_job_is_forwarded_with_all_that_it_was_put_with(queue, server):
    server.away = True
    due = datetime(2050, 1, 1, tzinfo=UTC)
    id = queue.put("t", b"\x00\xff", at=due, key="k", ttr=5, max_attempts=7, headers={"a": "\N{SNOWMAN}"})
    waiting = queue.get(id)
    assert (waiting.id, waiting.state, waiting.attempt) == (id, State.DELAYED, 0)
    back(queue, server)
    there = queue.get(id)
    assert there == waiting._replace(id=there.id, created=there.created)
    assert there == server.inner.get(("t", "k"))
    assert (there.due, there.ttr, there.max_attempts) == (int(due.timestamp() * 1000), 5_000, 7)


def test_a_delay_counts_from_the_put(queue, server):
    server.away = True
    before = time.time_ns() // 1_000_000
    id = queue.put("t", delay=60)
    after = time.time_ns() // 1_000_000
    back(queue, server)
    assert before + 60_000 <= queue.get(id).due <= after + 60_000


def test_what_may_have_arrived_is_sent_again_and_happens_once(queue, server):
    def lost(when, commands):
        if when == "after" and any(isinstance(command, Put) and command.jobs for command in commands):
            server.fault = None
            raise StoreAway("the answer was lost")

    server.fault = lost
    one = queue.put("t", 1)
    until(lambda: forwarded(queue))
    server.fault = lost
    many = queue.put_many([queue.job("t", 2), queue.job("t", 3, key="k")])
    until(lambda: forwarded(queue))
    assert (one, many) == (-1, [-2, -3])
    assert bodies(server) == [1, 2, 3]
    assert [queue.get(id).id for id in (one, *many)] == [1, 2, 3]


def test_an_answer_that_is_lost_while_forwarding_makes_no_second_job(queue, server):
    server.away = True
    for n in range(5):
        queue.put("t", n)
    lost = []

    def lose(when, commands):
        if when == "after" and any(isinstance(command, Put) for command in commands) and len(lost) < 3:
            lost.append(commands)
            raise StoreAway("the answer was lost")

    server.fault = lose
    back(queue, server)
    assert len(lost) == 3
    assert bodies(server) == list(range(5))


def test_a_busy_store_is_away_too_and_a_full_one_is_not(queue, server):
    def fails(error):
        def fail(when, commands):
            raise error

        return fail

    server.fault = fails(StoreBusy("locked"))
    assert queue.put("t", 1) == -1
    server.fault = None
    back(queue, server)
    server.fault = fails(StoreFull("no room"))
    with pytest.raises(StoreFull):
        queue.put("t", 2)
    server.fault = None
    assert bodies(server) == [1]


def test_what_makes_no_sense_is_refused_at_once(queue, server):
    server.away = True
    with pytest.raises(BadJob):
        queue.put("t", delay="soon")
    good, bad = queue.store.apply([Put((NewJob("t", b"1", 0),)), Put((NewJob("t", "text", 0),))])
    assert good == [-1]
    assert isinstance(bad, BadJob)
    back(queue, server)
    assert bodies(server) == [1]


def test_after_the_first_failure_no_put_goes_to_the_store_until_it_is_back(queue, server):
    callers = []

    def stalled(when, commands):
        callers.append((threading.current_thread().name, commands))
        raise StoreAway("no answer within the time limit")

    server.fault = stalled
    ids = [queue.put("t", n) for n in range(20)]
    with pytest.raises(StoreAway, match="has been away for"):
        queue.pause("t")
    assert len(ids) == 20
    assert [name for name, _ in callers].count(threading.current_thread().name) == 1
    server.fault = None
    back(queue, server)
    assert bodies(server) == list(range(20))
    assert queue.put("t", 20) > 0


def test_whoever_finds_the_store_away_nobody_waits_for_it_again(queue, server):
    id, calls = queue.put("t", 1), []

    def away(when, commands):
        calls.append(threading.current_thread())
        raise StoreAway("no answer within the time limit")

    server.fault = away
    with pytest.raises(StoreAway, match="no answer"):
        queue.cancel(id)
    for ask in (lambda: queue.cancel(id), lambda: queue.get(id), queue.counts, lambda: queue.reserve("t")):
        with pytest.raises(StoreAway, match="has been away for"):
            ask()
    assert queue.put("t", 2) == -1
    assert calls.count(threading.current_thread()) == 1
    server.fault = None
    back(queue, server)
    assert queue.cancel(id) is True


def test_a_busy_store_can_be_read(queue, server):
    def busy(when, commands):
        raise StoreBusy("locked")

    id = queue.put("t", 1)
    server.fault = busy
    assert queue.put("t", 2) == -1
    assert queue.get(id).json() == 1
    assert queue.counts()["t"].delayed == 1


def test_a_worker_on_a_queue_with_a_spool_handles_all_that_was_put(queue, server):
    handled = []
    queue.handler("t", concurrency=2)(lambda job: handled.append(job.json()))
    with working(queue):
        for n in range(60):
            if n % 20 == 10:
                server.away = True
            queue.put("t", n)
            if n % 20 == 19:
                back(queue, server)
        until(lambda: len(handled) >= 60)
    assert sorted(handled) == list(range(60))


def test_without_a_thread_puts_are_kept_all_the_same(queue, server, monkeypatch):
    queue.store._forwarder.stop()
    queue.store._forwarder._over = False

    def no_thread(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        server.away = True
        assert queue.put("t", 1) == -1
        server.away = False
        assert queue.put("t", 2) == -2
    queue.put("t", 3)
    back(queue, server)
    assert sorted(bodies(server)) == [1, 2, 3]


def test_a_batch_of_tasks_gets_what_can_be_had(queue, server):
    async def main():
        there = await queue.aput("t", 0)
        server.away = True
        outcomes = await asyncio.gather(
            queue.aput("t", 1),
            queue.acancel(there),
            queue.aput_many([queue.job("t", 2), queue.job("t", 3)]),
            queue.aput("t", 4),
            return_exceptions=True,
        )
        assert [outcomes[0], outcomes[2], outcomes[3]] == [-1, [-2, -3], -4]
        assert isinstance(outcomes[1], StoreAway)
        assert (await queue.aget(-3)).json() == 3
        back(queue, server)
        assert await queue.acancel(-4)

    asyncio.run(main())
    assert bodies(server) == list(range(5))
    assert queue.get(-4).state is State.CANCELLED


def test_who_looks_on_hears_of_it(queue, server, heard):
    tally = Tally()
    queue.events.listen(tally)
    server.away = True
    queue.put("t", 1)
    queue.put_many([queue.job("u", n) for n in range(3)])
    back(queue, server)
    until(lambda: isinstance(heard[-1], StoreBack))
    assert [type(event) for event in heard] == [
        StoreFailed, JobsSpooled, JobsPut, JobsSpooled, JobsPut, JobsForwarded, JobsForwarded, StoreBack
    ]  # fmt: skip
    assert JobsForwarded("u", 3) in heard
    assert [tally.total(name) for name in ("spooled", "put", "forwarded", "refused")] == [4, 4, 4, 0]


# ---- order and keys -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def forwarding(queue):
    """Be another process that forwards what waits in the spool now, and does not come to an end."""
    other = Spool(queue.store._spool.file.url)
    batch = other.take()
    yield
    other.give_back(batch)
    other.close()


def test_a_put_with_a_key_is_not_overtaken_by_an_older_one_of_the_spool(queue, server):
    server.away = True
    old = queue.put("t", "old", key="k", replace=True)
    with forwarding(queue):
        server.away = False
        until(lambda: queue.store._link.away is None)
        plain = queue.put("t", "plain")
        new = queue.put("t", "new", key="k", replace=True)
        assert (plain > 0, old < 0, new < 0) == (True, True, True)
        assert bodies(server) == ["plain"]
    until(lambda: forwarded(queue))
    assert bodies(server) == ["plain", "new"]
    assert queue.get(old) == queue.get(new) == queue.get(("t", "k"))
    assert queue.put("t", "newest", key="k", replace=True) == queue.get(new).id


def test_a_key_that_is_taken_by_then_is_refused_kept_and_can_be_sent_again(queue, server, heard):
    holder = queue.put("t", "first", key="k")
    server.away = True
    refused, other = queue.put("t", "second", key="k"), queue.put("t", "third")
    both = queue.put_many([queue.job("t", "fourth"), queue.job("t", "fifth", key="k")])
    back(queue, server)
    assert bodies(server) == ["first", "third"]
    assert queue.get(other).id > 0
    for id in (refused, *both):
        job = queue.get(id)
        assert (job.id, job.state) == (id, State.DEAD)
        assert job.last_error == f"JobExists: job {holder} has the key 'k' already and is live"
        assert queue.cancel(id) is queue.reschedule(id, 5) is False
    told = [event for event in heard if isinstance(event, JobRefused)]
    assert [(event.id, event.key) for event in told] == [(refused, "k"), (both[0], None), (both[1], "k")]
    assert queue.cancel(holder)
    assert queue.retry(refused) is True
    until(lambda: forwarded(queue))
    assert queue.get(refused).json() == "second"
    assert queue.delete(both[0]) is True
    with pytest.raises(NoSuchJob):
        queue.get(both[0])


def test_a_job_of_the_spool_is_cancelled_there_or_where_it_is(queue, server):
    server.away = True
    first, second, *pair = queue.put("t", 1), queue.put("t", 2), *queue.put_many([queue.job("t", 3), queue.job("t", 4)])
    assert queue.cancel(first) is True
    assert queue.cancel(first) is False
    assert queue.get(first).state is State.CANCELLED
    for ask in (lambda: queue.cancel(pair[0]), lambda: queue.reschedule(second, 5), lambda: queue.delete(second)):
        with pytest.raises(StoreAway, match="not known yet"):
            ask()
    assert queue.retry(second) is False
    back(queue, server)
    assert bodies(server) == [2, 3, 4]
    assert queue.reschedule(second, "1h") is True
    assert queue.cancel(pair[0]) is True
    assert queue.get(pair[0]).state is State.CANCELLED
    assert [row.outcome for row in queue.history(pair[0])] == ["cancelled"]
    assert queue.delete(second) is True
    with pytest.raises(NoSuchJob):
        queue.get(second)
    assert queue.cancel(second) is False
    for unknown in (-99, -(2**62)):
        assert queue.cancel(unknown) is False
        with pytest.raises(NoSuchJob):
            queue.get(unknown)


def test_what_may_have_been_sent_is_not_said_to_be_cancelled(queue, server):
    server.away = True
    id = queue.put("t", 1)
    with forwarding(queue), pytest.raises(StoreAway):
        queue.cancel(id)
    with pytest.raises(StoreAway):
        queue.cancel(id)
    back(queue, server)
    assert bodies(server) == [1]
    assert queue.cancel(id) is True


def test_nothing_is_said_of_a_key_while_it_may_belong_to_a_job_of_the_spool(queue, server):
    server.away = True
    queue.put("t", 1, key="k")
    with forwarding(queue):
        server.away = False
        until(lambda: queue.store._link.away is None)
        for ask in (queue.cancel, queue.retry, queue.delete, lambda ref: queue.reschedule(ref, 5)):
            with pytest.raises(StoreAway, match="not known yet"):
                ask(("t", "k"))
    until(lambda: forwarded(queue))
    assert queue.cancel(("t", "k")) is True


def test_a_put_in_the_callers_own_transaction_is_never_spooled(queue, server):
    within = []
    server.put_within = lambda connection, put: within.append((connection, put)) or [7]
    assert queue.put("t", 1, key="k", connection="theirs") == 7
    server.away = True
    queue.put("t", 2)
    assert queue.put("t", 3, connection="theirs") == 7
    with pytest.raises(StoreAway, match="older put of this key"):
        queue.put("t", 4, key="k", connection="theirs")
    assert [connection for connection, _ in within] == ["theirs", "theirs"]


# ---- at the beginning -----------------------------------------------------------------------------------------------


@pytest.fixture
def closed_port(monkeypatch, server):
    """The address of a server that cannot be reached yet; call it to start the server."""
    started = []

    def opened(url, **options):
        if url != "server://user:secret@host/jobs?password=secret":
            return open_store(url, **options)
        if not started:
            raise StoreAway("connection refused")
        if isinstance(started[0], Exception):
            raise started[0]
        return server

    monkeypatch.setattr(queue_module, "open_store", opened)
    return started.append


def test_a_queue_is_opened_and_takes_puts_before_its_server_is_there(closed_port, server, spool):
    with JobQueue("server://user:secret@host/jobs?password=secret", spool=spool) as queue:
        assert "secret" not in repr(queue)
        assert "secret" not in queue.store.url
        assert queue.store.clock.wall() > 0
        assert queue.put("t", 1, delay="1h") == -1
        assert queue.get(-1).json() == 1
        for ask in (queue.counts, queue.list, queue.topics, lambda: queue.get(1), lambda: queue.cancel(1)):
            with pytest.raises(StoreAway, match=r"has been away for .*connection refused") as caught:
                ask()
            assert "secret" not in str(caught.value)
        closed_port(True)
        until(lambda: queue.store.url == server.url)
        until(lambda: forwarded(queue))
        assert queue.counts()["t"].delayed == 1
        assert queue.store.durability == server.durability


def test_a_server_that_turns_out_to_be_none_is_told(closed_port, spool):
    url, failures = "server://user:secret@host/jobs?password=secret", []
    with JobQueue(url, spool=spool, listeners=[failures.append]) as queue:
        closed_port(NotAStore("no such database"))
        until(lambda: "no such database" in str(queue.store._link.away))
        assert queue.put("t", 1) < 0
        with pytest.raises(StoreAway, match="no such database"):
            queue.counts()
        assert [type(event.error) for event in failures if isinstance(event, StoreFailed)] == [
            StoreAway,
            NotAStore,
        ]


def test_a_server_that_is_none_from_the_beginning_is_an_error(closed_port, spool):
    closed_port(NotAStore("no such database"))
    with pytest.raises(NotAStore):
        JobQueue("server://user:secret@host/jobs?password=secret", spool=spool)


@pytest.mark.parametrize("wrong", ["memory:", 5, "spool.db", "sqlite:///no/such/folder/spool.db"])
def test_what_cannot_be_a_spool_is_an_error(server, wrong):
    with pytest.raises((BadJob, StoreError)):
        JobQueue(server, spool=wrong)


def test_a_store_is_not_its_own_spool(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with pytest.raises(BadJob, match="a file of its own"):
        JobQueue(url, spool=url)


# ---- at the end -----------------------------------------------------------------------------------------------------


def test_what_waits_is_forwarded_by_the_next_queue_with_that_spool(server, spool):
    server.away = True
    with JobQueue(server, spool=spool) as queue:
        ids = [queue.put("t", n) for n in range(3)]
        assert bodies(server) == []
    with pytest.raises(StoreClosed):
        queue.put("t", 3)
    server.away = False
    with JobQueue(server, spool=spool) as queue:
        until(lambda: forwarded(queue))
        assert bodies(server) == [0, 1, 2]
        assert [queue.get(id).json() for id in ids] == [0, 1, 2]


def test_a_queue_that_is_open_forwards_what_a_process_that_is_gone_left(queue, server, spool, monkeypatch):
    monkeypatch.setattr("pywheel.client.forwarder._IDLE", 0.01)
    other = Spool(spool)
    other.add([Put((NewJob("t", b"1", 0),), "n")])
    other.close()
    queue.store._forwarder.wake()
    until(lambda: bodies(server) == [1])


def test_a_queue_that_nobody_closed_leaves_no_thread_behind(server, spool):
    before = set(threading.enumerate())
    queue = JobQueue(server, spool=spool)
    queue.put("t", 1)
    [thread] = set(threading.enumerate()) - before
    del queue
    until(lambda: not thread.is_alive())


def test_close_ends_the_thread_also_from_a_listener(server, spool):
    closed = []

    def close(event):
        if isinstance(event, JobsForwarded):
            queue.close()
            closed.append(event)

    queue = JobQueue(server, spool=spool, listeners=[close])
    server.away = True
    queue.put("t", 1)
    thread = queue.store._forwarder._thread
    server.away = False
    until(lambda: closed and not thread.is_alive())
    queue.close()
    assert bodies(server) == [1]


# ---- what stands in the way -----------------------------------------------------------------------------------------


def test_a_put_that_the_store_fails_at_is_refused_in_the_end_and_holds_up_no_other(queue, server, monkeypatch, heard):
    monkeypatch.setattr("pywheel.client.forwarder._BACKOFF", (0.001, 0.001))

    def fails(when, commands):
        if any(isinstance(command, Put) and any(job.body == b'"bad"' for job in command.jobs) for command in commands):
            raise StoreError("the packet is too large")

    server.away = True
    ids = [queue.put("t", body) for body in ("good", "bad", "better")]
    server.fault = fails
    back(queue, server)
    assert bodies(server) == ["good", "better"]
    assert queue.get(ids[1]).state is State.DEAD
    assert "the packet is too large" in queue.get(ids[1]).last_error
    assert [event.id for event in heard if isinstance(event, JobRefused)] == [ids[1]]
    server.fault = None
    assert queue.retry(ids[1])
    until(lambda: forwarded(queue))
    assert queue.get(ids[1]).json() == "bad"


def test_a_spool_that_takes_nothing_is_an_error_of_the_put(queue, server):
    queue.store._spool.file.close()
    server.away = True
    with pytest.raises(StoreClosed):
        queue.put("t", 1)


# ---- the file -------------------------------------------------------------------------------------------------------


def puts(spool, count, **more):
    return spool.add([Put((NewJob("t", b"%d" % n, 0, **more),), f"n{n}") for n in range(count)])


def test_two_processes_do_not_forward_at_once_and_nothing_is_overtaken(spool, tmp_path):
    clock = ManualClock()
    with open_store(f"sqlite:///{tmp_path}/other.db"):
        first, second = Spool(spool, clock=clock), Spool(spool, clock=clock)
    assert first.take() == []
    puts(first, 3)
    batch = first.take()
    assert [waiting.put.nonce for waiting in batch] == ["n0", "n1", "n2"]
    first.add([Put((NewJob("t", b"3", 0),), "n3")])
    assert second.take() is None
    assert first.take() is None
    first.settle(batch[:1], [[1]])
    assert second.take() is None
    clock.advance(timedelta(seconds=15))  # the first one was killed
    again = second.take()
    assert [waiting.put.nonce for waiting in again] == ["n1", "n2", "n3"]
    first.settle(batch[1:], [[2], [3]])  # or it was not: too late, its claims are over
    assert second.counts().running == 3
    second.settle(again, [[2], [3], [4]])
    assert second.take() == first.take() == []
    assert second.counts().done == 4
    first.close()
    second.close()


def test_many_jobs_are_taken_in_steps_and_a_put_of_many_comes_whole(spool):
    file = Spool(spool, clock=ManualClock())
    many = Put(tuple(NewJob("t", b"", 0) for _ in range(1_200)), "many")
    puts(file, 600)
    file.add([many, Put((NewJob("t", b"last", 0),), "last")])
    sizes = []
    while batch := file.take():
        sizes.append([len(waiting.put.jobs) for waiting in batch])
        file.settle(batch, [[1] * len(waiting.put.jobs) for waiting in batch])
    assert [sum(size) for size in sizes] == [500, 1_300, 1]
    assert sizes[1] == [1] * 100 + [1_200]
    file.close()


def test_large_bodies_are_taken_a_few_at_a_time(spool):
    file = Spool(spool, clock=ManualClock())
    file.add([Put((NewJob("t", bytes(1 << 20), 0),), f"n{n}") for n in range(9)])
    sizes = []
    while batch := file.take():
        sizes.append(len(batch))
        file.settle(batch, [[1]] * len(batch))
    assert sizes == [4, 4, 1]
    file.close()


def test_what_was_forwarded_is_known_for_31_days_and_then_forgotten(spool):
    clock = ManualClock()
    file = Spool(spool, clock=clock)
    [[first], [refused], [cancelled]] = puts(file, 3)
    assert file.cancel(cancelled)
    file.settle(file.take(), [[1], JobExists("taken", 5)])
    clock.advance(timedelta(milliseconds=NONCES_KEPT - 1))
    file.prune()
    assert None not in (file.find(first), file.find(refused), file.find(cancelled))
    file._look_at = 0.0
    clock.advance(timedelta(milliseconds=1))
    file.prune()
    assert file.find(first) is file.find(cancelled) is None
    assert file.find(refused).state is State.DEAD
    file.close()


def test_a_store_that_forgot_a_put_has_no_such_job(queue, server):
    server.away = True
    id = queue.put("t", 1)
    back(queue, server)
    nonces = server.inner._connection
    nonces.execute("DELETE FROM nonce")
    assert queue.cancel(id) is False
    with pytest.raises(NoSuchJob):
        queue.get(id)
    assert bodies(server) == [1]


def test_the_spools_own_jobs_are_no_workers_business(queue, server):
    server.away = True
    id = queue.put("t", 1)
    [claimed] = queue.store._spool.file.apply([Claim("t", (-id,), Terms(1_000, 3), "w", 1)])
    assert claimed.jobs == []
    assert queue.store._spool.find(10**9) is None

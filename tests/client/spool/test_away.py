"""Puts while the store is away: they wait in a local file, and are forwarded once."""

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from pywheel import BadJob, JobExists, NonceTaken, StoreAway, StoreBusy
from pywheel._errors import StoreFull
from pywheel.events import JobRefused, JobsForwarded, JobsPut, JobsSpooled, StoreBack, StoreFailed
from pywheel.jobs import NewJob, State
from pywheel.jobs.commands import Put
from pywheel.jobs.queries import GetJob
from pywheel.observe import Tally
from tests.client.spool.spooled import back, bodies, fail_with, forwarded, lose_answers, puts_jobs
from tests.jobs.waiting import until, working


def test_what_was_put_while_it_was_away_is_forwarded_in_order_and_once(queue, store):
    queue.put("t", 0)
    store.away = True
    ids = [queue.put("t", n) for n in range(1, 4)]
    ids += queue.put_many(queue.job("t", n) for n in range(4, 7))
    assert ids == [-1, -2, -3, -4, -5, -6]
    assert bodies(store) == [0]
    back(queue, store)
    assert bodies(store) == list(range(7))
    assert [queue.get(id).json() for id in ids] == list(range(1, 7))
    assert all(queue.get(id).id > 0 for id in ids)
    assert queue.topics.counts()["t"].delayed == 7


def test_a_job_is_forwarded_with_all_that_it_was_put_with(queue, store):
    store.away = True
    due = datetime(2050, 1, 1, tzinfo=UTC)
    id = queue.put("t", b"\x00\xff", at=due, key="k", ttr=5, max_attempts=7, headers={"a": "\N{SNOWMAN}"})
    delayed = queue.put("t", delay=60)  # from the put on
    waiting, then = queue.get(id), queue.get(delayed).due
    assert (waiting.id, waiting.state, waiting.attempt) == (id, State.DELAYED, 0)
    back(queue, store)
    there = queue.get(id)
    assert there == waiting._replace(id=there.id, created=there.created)
    assert there == store.inner.ask(GetJob(("t", "k")))
    assert (there.due, there.ttr, there.max_attempts) == (int(due.timestamp() * 1000), 5_000, 7)
    assert queue.get(delayed).due == then


@pytest.mark.parametrize("sign", ["a", "\n", "\N{SNOWMAN}", "\N{PILE OF POO}"])
def test_a_job_with_the_longest_topic_key_and_headers_is_kept_and_forwarded(queue, store, sign):
    name, headers = "n" + 16_383 * sign, {"h": 65_535 * sign}
    store.away = True
    id = queue.put(name, b"1\n2\n", key=name, headers=headers)
    waiting = queue.get(id)
    assert (waiting.topic, waiting.key, waiting.headers, waiting.body) == (name, name, headers, b"1\n2\n")
    back(queue, store)
    there = queue.get(id)
    assert there == waiting._replace(id=there.id, created=there.created)


def test_what_may_have_arrived_is_sent_again_and_happens_once(queue, store):
    lose_answers(store)
    one = queue.put("t", 1)
    until(lambda: forwarded(queue))
    lose_answers(store)
    many = queue.put_many([queue.job("t", 2), queue.job("t", 3, key="k")])
    until(lambda: forwarded(queue))
    assert (one, many) == (-1, [-2, -3])
    assert bodies(store) == [1, 2, 3]
    assert [queue.get(id).id for id in (one, *many)] == [1, 2, 3]


def test_an_answer_that_is_lost_while_forwarding_makes_no_second_job(queue, store):
    store.away = True
    for n in range(5):
        queue.put("t", n)
    lost = lose_answers(store, 3)
    back(queue, store)
    assert len(lost) == 3
    assert bodies(store) == list(range(5))


def test_a_put_that_is_repeated_while_it_waits_happens_once(queue, store):
    put = Put((NewJob("t", b"1", 0), NewJob("t", b"2", 0)), "n")
    store.away = True
    assert [queue.store.apply([put]) for _ in range(2)] == [[[-1, -2]], [[-3, -4]]]
    back(queue, store)
    assert bodies(store) == [1, 2]
    assert [queue.get(id).json() for id in (-1, -2, -3, -4)] == [1, 2, 1, 2]


def test_a_put_with_the_nonce_of_another_is_refused_though_that_came_by_the_spool(queue, store, heard):
    first, waiting, later = [
        Put((NewJob("t", body, 0),), "n", fingerprint) for body, fingerprint in ((b"1", "a"), (b"2", "b"), (b"3", "c"))
    ]
    store.away = True
    queue.store.apply([first, Put((NewJob("t", b"0", 0),)), waiting])
    back(queue, store)
    assert bodies(store) == [1, 0]
    assert [event.id for event in heard if isinstance(event, JobRefused)] == [-3]
    [refused] = queue.store.apply([later])
    assert isinstance(refused, NonceTaken)


def test_a_busy_store_is_away_too_but_for_readers_and_a_full_one_is_not(queue, store):
    id = queue.put("t", 0)
    fail_with(store, StoreBusy("locked"))
    assert queue.put("t", 1) == -1
    assert queue.get(id).json() == 0
    assert queue.topics.counts()["t"].delayed == 1
    store.fault = None
    back(queue, store)
    fail_with(store, StoreFull("no room"))
    with pytest.raises(StoreFull):
        queue.put("t", 2)
    store.fault = None
    assert bodies(store) == [0, 1]


def test_what_makes_no_sense_is_refused_at_once(queue, store):
    store.away = True
    with pytest.raises(BadJob):
        queue.put("t", delay="soon")
    good, bad = queue.store.apply([Put((NewJob("t", b"1", 0),)), Put((NewJob("t", "text", 0),))])
    assert good == [-1]
    assert isinstance(bad, BadJob)
    back(queue, store)
    assert bodies(store) == [1]


def test_a_put_that_the_spool_refuses_takes_no_other_with_it(queue, store, heard, monkeypatch):
    file = queue.store._spool.file
    apply, invalid = file.apply, Put((NewJob("t", "text", 0),))

    def apply_all_but_bad(commands):
        bad = [isinstance(command, Put) and command.jobs[0].body.endswith(b"bad") for command in commands]
        return apply([invalid if is_bad else command for command, is_bad in zip(commands, bad, strict=True)])

    monkeypatch.setattr(file, "apply", apply_all_but_bad)
    monkeypatch.setattr(queue.store._spool, "waiting", lambda: True)  # so puts with keys go there
    puts = [(b"1", None), (b"2", "a"), (b"bad", "b"), (b"3", "c")]
    direct, before, refused, behind = queue.store.apply([Put((NewJob("t", body, 0, key),)) for body, key in puts])
    assert (direct, before, behind) == ([1], [-1], [-2])
    assert isinstance(refused, BadJob)
    assert [event for event in heard if isinstance(event, JobsSpooled)] == [JobsSpooled("t", 2)]
    until(lambda: bodies(store) == [1, 2, 3])


def test_puts_do_not_make_the_probes_come_sooner(queue, store, monkeypatch):
    monkeypatch.setattr("pywheel.client.forwarder._BACKOFF", (1_000.0, 1_000.0))
    probes = []

    def away(when, commands):
        probes.append(threading.current_thread())
        raise StoreAway("no answer")

    store.fault = away
    queue.put("t", 0)
    until(lambda: len(set(probes)) == 2)
    for n in range(1, 50):
        queue.put("t", n)
    assert len(probes) == len(set(probes)) == 2


def test_a_store_that_takes_the_spools_puts_is_back_however_many_come_meanwhile(queue, store):
    store.away = True
    queue.put("t", 0)
    spooled = []

    def fail_late_and_put_fast(when, commands):
        if when == "before" and not puts_jobs(commands):  # a call that began before the probe fails only now
            queue.store._breaker.failed(StoreAway("no answer within the time limit"))
        if when == "after" and puts_jobs(commands) and queue.store._breaker.away and len(spooled) < 10:
            spooled.append(queue.put("t", 1))  # so the spool is never empty

    store.fault = fail_late_and_put_fast
    back(queue, store)
    assert spooled == [-2]


def test_whoever_finds_the_store_away_nobody_waits_for_it_again(queue, store):
    id, calls = queue.put("t", 1), []

    def away(when, commands):
        calls.append(threading.current_thread())
        raise StoreAway("no answer within the time limit")

    store.fault = away
    with pytest.raises(StoreAway, match="no answer"):
        queue.cancel(id)
    for ask, what in ((queue.cancel, id), (queue.get, id), (queue.topics.pause, "t"), (queue.reserve, "t")):
        with pytest.raises(StoreAway, match="has been away for"):
            ask(what)
    assert queue.put("t", 2) == -1
    assert calls.count(threading.current_thread()) == 1
    store.fault = None
    back(queue, store)
    assert queue.cancel(id)


def test_a_worker_on_a_queue_with_a_spool_handles_all_that_was_put(queue, store):
    handled = []
    queue.handler("t", concurrency=2)(lambda job: handled.append(job.json()))
    with working(queue):
        for n in range(60):
            if n % 20 == 10:
                store.away = True
            queue.put("t", n)
            if n % 20 == 19:
                back(queue, store)
        until(lambda: len({*handled}) >= 60)  # a job that began while the store was away may run twice
    assert {*handled} == {*range(60)}


def test_without_a_thread_puts_are_kept_all_the_same(queue, store, monkeypatch):
    queue.store._forwarder.stop()
    queue.store._forwarder._over = False

    def no_thread(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        store.away = True
        assert queue.put("t", 1) == -1
        store.away = False
        assert queue.put("t", 2) == -2
    queue.put("t", 3)
    back(queue, store)
    assert sorted(bodies(store)) == [1, 2, 3]


def test_a_batch_of_tasks_gets_what_can_be_had(queue, store):
    async def main():
        there = await queue.aio.put("t", 0)
        store.away = True
        outcomes = await asyncio.gather(
            queue.aio.put("t", 1),
            queue.aio.cancel(there),
            queue.aio.put_many([queue.job("t", 2), queue.job("t", 3)]),
            queue.aio.put("t", 4),
            return_exceptions=True,
        )
        assert [outcomes[0], outcomes[2], outcomes[3]] == [-1, [-2, -3], -4]
        assert isinstance(outcomes[1], StoreAway)
        assert (await queue.aio.get(-3)).json() == 3
        back(queue, store)
        assert await queue.aio.cancel(-4)

    asyncio.run(main())
    assert bodies(store) == list(range(5))
    assert queue.get(-4).state is State.CANCELLED


def test_who_looks_on_hears_of_it(queue, store, heard):
    tally = Tally()
    queue.events.listen(tally)
    store.away = True
    queue.put("t", 1)
    queue.put_many([queue.job("u", n) for n in range(3)])
    back(queue, store)
    until(lambda: isinstance(heard[-1], StoreBack))
    assert [type(event) for event in heard] == [
        StoreFailed, JobsSpooled, JobsPut, JobsSpooled, JobsPut, JobsForwarded, JobsForwarded, StoreBack
    ]  # fmt: skip
    assert JobsForwarded("u", 3) in heard
    assert [tally.total(name) for name in ("spooled", "put", "forwarded", "refused")] == [4, 4, 4, 0]


def test_who_waits_for_a_spooled_job_hears_of_its_end_in_the_store(queue, store):
    queue.handler("t", results=True)(lambda job: job.json() + 1)
    store.away = True
    id = queue.put("t", 41, key="k", dedupe_for="1h")
    found = []
    waiting = threading.Thread(target=lambda: found.append(queue.wait(id)))
    waiting.start()
    until(lambda: len(queue.calls.waits))
    back(queue, store)
    with working(queue):
        waiting.join(60)
    assert (found[0].id, found[0].state, found[0].json()) == (id, State.DONE, 42)
    with pytest.raises(JobExists, match="had the key 'k' and ended"):
        queue.put("t", 42, key="k", dedupe_for="1h")

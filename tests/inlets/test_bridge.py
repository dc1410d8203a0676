"""The bridge itself, with a broker that does what a test wants."""

import asyncio
import logging

import pytest

from pywheel import BadJob, JobQueue
from pywheel._errors import StoreAway, StoreClosed
from pywheel.events import JobsPut
from pywheel.inlets.bridge import Bridge, Source, SourceAway
from pywheel.inlets.received import Message
from pywheel.jobs.job import NewJob
from tests.outlets.loops import on_a_loop


class Broker(Source):
    """Gives messages out again until they are settled."""

    name = "a broker"

    def __init__(self, *messages):
        self.left = list(messages)
        self.taken, self.refused = [], []
        self.away, self.lost = 0, 0
        self.opened, self.closed = 0, 0
        self.bridge = None

    async def open(self):
        self.opened += 1
        if self.away:
            self.away -= 1
            raise SourceAway("nobody there")

    async def batch(self, stopped):
        if self.left:
            return list(self.left)
        self.bridge.stop()
        return []

    async def settle(self, taken, refused):
        if self.lost:
            self.lost -= 1
            raise SourceAway("it broke")
        self.taken += [message.token for message in taken]
        self.refused += [message.token for message in refused]
        settled = {message.token for message in (*taken, *refused)}
        self.left = [message for message in self.left if message.token not in settled]

    async def close(self):
        self.closed += 1


async def carried(jobs, broker):
    broker.bridge = Bridge(jobs, "t", broker)
    async with asyncio.timeout(60):
        await broker.bridge.run()
    return broker.bridge


def message(token, body=b"x", id=None, delay="60"):
    return Message(token, body, {}, {"pywheel-delay": delay}, identity=id and [id])


@on_a_loop
async def test_what_came_is_put_and_settled_together(jobs):
    told = []
    jobs.events.listen(told.append)
    broker = Broker(*(message(number) for number in range(10)))
    bridge = await carried(jobs, broker)
    assert broker.taken == list(range(10))
    assert jobs.topics.counts()["t"].delayed == bridge.taken == 10
    assert [event.jobs for event in told if isinstance(event, JobsPut)] == [10]
    assert (broker.opened, broker.closed) == (1, 1)


@on_a_loop
async def test_large_messages_are_put_a_few_at_a_time(jobs, monkeypatch):
    """Whoever else writes to the store waits for the end of a transaction."""
    broker = Broker(*(message(number, bytes(1 << 20)) for number in range(20)))
    apply, sizes = jobs.store.apply, []

    def applied(commands):
        sizes.append(len(commands))
        assert len(broker.taken) == sum(sizes[:-1])  # those before are settled
        return apply(commands)

    monkeypatch.setattr(jobs.store, "apply", applied)
    await carried(jobs, broker)
    assert sizes == [8, 8, 4]
    assert broker.taken == list(range(20))


@on_a_loop
async def test_stopped_in_the_midst_of_large_messages_it_settles_none_behind_one_that_is_left(jobs, monkeypatch):
    broker = Broker(*(message(number, bytes(1 << 20)) for number in range(20)))
    apply = jobs.store.apply

    def away(commands):
        if broker.taken:
            broker.bridge.stop()
            raise StoreAway("no answer")
        return apply(commands)

    monkeypatch.setattr(jobs.store, "apply", away)
    await carried(jobs, broker)
    assert broker.taken == list(range(8))
    assert jobs.topics.counts()["t"].delayed == 8


@on_a_loop
async def test_what_cannot_be_a_job_is_refused_and_said(jobs, caplog):
    broker = Broker(message(1), message(2, delay="soon"))
    bridge = await carried(jobs, broker)
    assert (broker.taken, broker.refused, bridge.refused) == ([1], [2], 1)
    assert "refused a message of a broker: pywheel-delay" in caplog.text


@on_a_loop
async def test_what_could_not_be_settled_comes_again_and_is_put_once_if_it_has_an_id(jobs):
    broker = Broker(message(1, id="one"), message(2, id="two"), message(3))
    broker.lost = 2
    await carried(jobs, broker)
    assert broker.taken == [1, 2, 3]
    assert jobs.topics.counts()["t"].delayed == 2 + 3


@on_a_loop
async def test_a_broker_that_is_away_is_tried_again(jobs, caplog):
    broker = Broker(message(1))
    broker.away = 2
    await carried(jobs, broker)
    assert broker.taken == [1]
    assert "a broker is away, again in 0.1 s: nobody there" in caplog.text


@on_a_loop
async def test_while_the_store_is_away_messages_wait_unsettled(jobs, monkeypatch, caplog):
    broker = Broker(message(1), message(2))
    apply, away = jobs.store.apply, [StoreAway("no answer")] * 2

    def applied(commands):
        assert broker.taken == []
        if away:
            raise away.pop()
        return apply(commands)

    monkeypatch.setattr(jobs.store, "apply", applied)
    await carried(jobs, broker)
    assert broker.taken == [1, 2]
    assert "2 messages wait for the store: no answer" in caplog.text


@on_a_loop
async def test_of_several_stores_that_of_one_message_may_be_away_alone(jobs, monkeypatch):
    broker = Broker(message(1), message(2))
    apply, away = jobs.store.apply, [1]

    def first_away(commands):
        if not away:
            return apply(commands)
        away.clear()
        return [StoreAway("one of two"), *apply(commands[1:])]

    monkeypatch.setattr(jobs.store, "apply", first_away)
    await carried(jobs, broker)
    assert sorted(broker.taken) == [1, 2]
    assert jobs.topics.counts()["t"].delayed == 2


@on_a_loop
async def test_stopped_while_the_store_is_away_it_leaves_messages_to_the_broker(jobs, monkeypatch):
    broker = Broker(message(1))

    def away(commands):
        broker.bridge._stopped.set()
        raise StoreAway("no answer")

    monkeypatch.setattr(jobs.store, "apply", away)
    bridge = await carried(jobs, broker)
    assert (broker.taken, bridge.taken, broker.closed) == ([], 0, 1)


@on_a_loop
async def test_a_closed_store_ends_it(jobs):
    broker = Broker(message(1))
    jobs.close()
    with pytest.raises(StoreClosed):
        await carried(jobs, broker)
    assert (broker.taken, broker.closed) == ([], 1)


def test_a_put_that_is_refused_is_a_message_that_is_refused(caplog, monkeypatch):
    with JobQueue("memory:") as jobs:
        monkeypatch.setattr(jobs, "job", lambda *_, **__: NewJob("t", b"x", 0, key="k"))
        broker = Broker(message(1), message(2))
        with caplog.at_level(logging.WARNING):
            asyncio.run(carried(jobs, broker))
    assert (broker.taken, broker.refused) == ([1], [2])
    assert "has the key" in caplog.text


def test_a_topic_that_cannot_be_one_is_refused(jobs):
    with pytest.raises(BadJob, match="topic"):
        Bridge(jobs, "", Broker())

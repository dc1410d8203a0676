"""The bridge itself, with a broker that does what a test wants."""

import asyncio

import pytest

from pywheel import BadJob, JobQueue, ManualClock
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
async def test_large_messages_are_put_a_few_at_a_time(jobs, applied):
    """Whoever else writes to the store waits for the end of a transaction."""
    broker, sizes = Broker(*(message(number, bytes(1 << 20)) for number in range(20))), []

    def act(commands, apply):
        assert len(broker.taken) == sum(sizes)  # those before are settled
        sizes.append(len(commands))
        return apply(commands)

    applied(act)
    await carried(jobs, broker)
    assert sizes == [8, 8, 4]
    assert broker.taken == list(range(20))


@on_a_loop
async def test_what_cannot_be_a_job_is_refused_and_said(jobs, caplog, monkeypatch):
    with pytest.raises(BadJob, match="topic"):
        Bridge(jobs, "", Broker())
    broker = Broker(message(1), message(2, delay="soon"))
    bridge = await carried(jobs, broker)
    assert (broker.taken, broker.refused, bridge.refused) == ([1], [2], 1)
    assert "refused a message of a broker: pywheel-delay" in caplog.text
    monkeypatch.setattr(jobs, "job", lambda *_, **__: NewJob("t", b"x", 0, key="k"))
    broker = Broker(message(1), message(2))  # the store refuses the second
    await carried(jobs, broker)
    assert (broker.taken, broker.refused, "has the key" in caplog.text) == ([1], [2], True)


@on_a_loop
async def test_a_broker_that_is_away_is_tried_again_and_what_was_not_settled_is_put_once_if_it_has_an_id(jobs, caplog):
    broker = Broker(message(1, id="one"), message(2, id="two"), message(3))
    broker.away, broker.lost = 2, 2
    await carried(jobs, broker)
    assert broker.taken == [1, 2, 3]
    assert jobs.topics.counts()["t"].delayed == 2 + 3
    assert "a broker is away, again in 0.1 s: nobody there" in caplog.text


@on_a_loop
async def test_the_pause_between_tries_grows_until_messages_are_settled_though_each_try_connects(jobs, monkeypatch):
    """A message that the client cannot read breaks each connection."""

    async def rest(self, seconds):
        pauses.append(seconds)

    monkeypatch.setattr(Bridge, "_rest", rest)
    pauses, broker = [], Broker(message(1))
    broker.lost = 4
    settle = broker.settle

    async def settle_and_break(taken, refused):
        await settle(taken, refused)
        broker.settle, broker.left, broker.lost = settle, [message(2)], 2

    broker.settle = settle_and_break
    await carried(jobs, broker)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 0.1, 0.2, 0.1]  # the last one after its end


@on_a_loop
async def test_a_connection_that_lasted_ends_the_long_pauses_though_no_message_came(monkeypatch):
    async def rest(self, seconds):
        pauses.append(seconds)

    async def batch(stopped):
        if not lasts:
            broker.bridge.stop()
            return []
        clock.advance(lasts.pop(0))
        raise SourceAway("it broke")

    monkeypatch.setattr(Bridge, "_rest", rest)
    pauses, lasts, clock, broker = [], [5, 5.001], ManualClock(), Broker()
    broker.away, broker.batch = 3, batch
    await carried(JobQueue("memory:", clock=clock), broker)
    assert pauses == [0.1, 0.2, 0.4, 0.8, 0.1, 0.2]  # the last one after its end


@pytest.fixture
def applied(jobs, monkeypatch):
    """Let the store do with each list of commands what a function does with it and the store's own `apply`."""
    real = jobs.store.apply
    return lambda act: monkeypatch.setattr(jobs.store, "apply", lambda commands: act(commands, real))


@on_a_loop
async def test_while_the_store_is_away_messages_wait_unsettled(jobs, applied, caplog):
    broker, away = Broker(message(1), message(2)), [StoreAway("no answer")] * 2

    def act(commands, apply):
        assert broker.taken == []
        if away:
            raise away.pop()
        return apply(commands)

    applied(act)
    await carried(jobs, broker)
    assert broker.taken == [1, 2]
    assert "2 messages wait for the store: no answer" in caplog.text


@on_a_loop
async def test_of_several_stores_that_of_one_message_may_be_away_alone(jobs, applied):
    broker, away = Broker(message(1), message(2)), [StoreAway("one of two")]
    applied(lambda commands, apply: [away.pop(), *apply(commands[1:])] if away else apply(commands))
    await carried(jobs, broker)
    assert sorted(broker.taken) == [1, 2]
    assert jobs.topics.counts()["t"].delayed == 2


@on_a_loop
async def test_stopped_while_the_store_is_away_it_settles_none_from_one_that_is_left_on(jobs, applied):
    broker = Broker(*(message(number, bytes(1 << 20)) for number in range(20)))  # eight at a time

    def act(commands, apply):
        if not broker.taken:
            return apply(commands)
        broker.bridge.stop()
        raise StoreAway("no answer")

    applied(act)
    bridge = await carried(jobs, broker)
    assert broker.taken == list(range(8))
    assert jobs.topics.counts()["t"].delayed == 8
    assert (bridge.taken, broker.closed) == (8, 1)


@on_a_loop
async def test_a_closed_store_ends_it(jobs):
    broker = Broker(message(1))
    jobs.close()
    with pytest.raises(StoreClosed):
        await carried(jobs, broker)
    assert (broker.taken, broker.closed) == ([], 1)

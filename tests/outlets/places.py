"""A place of each broker for outlets, and its messages."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, asynccontextmanager, closing

from pywheel.outlets import kind
from tests.outlets.amqp import amqp

__all__ = ["PLACES", "OfNats"]


class Place:
    """A place of its own on a running server; `name` is what outlets and jobs call it."""

    kind: str
    word: str
    """What an outlet's configuration calls a place."""
    drops_repeats = True

    def __init__(self, server, name):
        self.server, self.name = server, name
        asyncio.run(self.declare())

    def url(self, via=None):
        return self.server.url(via=via)

    def outlet(self, name="", *, via=None, **options):
        return aclosing(kind(self.kind)(self.url(via), **{self.word: name}, **options))

    async def declare(self):
        """Make what must be there before anything is delivered."""


class OfRabbitMQ(Place):
    """A queue."""

    kind, word, drops_repeats = "rabbitmq", "routing_key", False

    async def declare(self):
        async with amqp(self.server) as broker:
            self.name, self.other = await broker.queue(), await broker.queue()

    async def messages(self, name=None):
        """Return id and body of all that has come."""
        async with amqp(self.server) as broker:
            found = await broker.all(name or self.name)
        return [(message.header.properties.message_id, message.body) for message in found]

    async def count(self):
        async with amqp(self.server) as broker:
            return await broker.count(self.name)

    def kill(self):
        self.server.control("eval", "mnesia:sync_log().")  # a queue that was just declared is lost by a kill
        self.server.kill()


class OfRedis(Place):
    """A stream."""

    kind, word = "redis", "stream"

    async def declare(self):
        self.other = f"{self.name}-other"

    def url(self, via=None):
        return f"unix://{via.address if via else self.server.socket}"

    async def messages(self, name=None):
        with closing(self.server.connect()) as client:
            return [(fields[b"id"].decode(), fields[b"body"]) for _, fields in client.xrange(name or self.name)]

    async def count(self):
        return len(await self.messages())

    def kill(self):
        self.server.kill()


class OfNats(Place):
    """A subject of a stream."""

    kind, word = "nats", "subject"

    async def declare(self):
        self.stream, self.name, self.other = self.name, f"{self.name}.due", f"{self.name}.other"
        async with self.jetstream() as stream:
            await stream.add_stream(name=self.stream, subjects=[f"{self.stream}.>"])

    async def messages(self, name=None):
        async with self.jetstream() as stream:
            state = (await stream.stream_info(self.stream)).state
            found = [await stream.get_msg(self.stream, number) for number in range(1, state.last_seq + 1)]
        return [(it.headers["Nats-Msg-Id"], it.data) for it in found if it.subject == (name or self.name)]

    async def count(self):
        return len(await self.messages())

    def kill(self):
        self.server.kill()

    @asynccontextmanager
    async def jetstream(self):
        import nats

        client = await nats.connect(self.server.url())
        try:
            yield client.jetstream()
        finally:
            await client.close()


PLACES = {place.kind: place for place in (OfRabbitMQ, OfRedis, OfNats)}

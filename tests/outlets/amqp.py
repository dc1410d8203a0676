"""A test's view of a RabbitMQ: its queues and their messages."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager

import aiormq

__all__ = ["Amqp", "amqp"]

_numbers = itertools.count(1)


class Amqp:
    """A connection of a test's own."""

    def __init__(self, channel):
        self.channel = channel

    async def queue(self, exchange=None, kind="direct", key="", **arguments):
        """Return the name of a new queue, bound to an exchange of that name if one is wanted."""
        name = f"q{next(_numbers)}"
        await self.channel.queue_declare(name, durable=True, arguments=arguments or None)
        if exchange is not None:
            await self.channel.exchange_declare(exchange, exchange_type=kind, durable=True)
            await self.channel.queue_bind(name, exchange, routing_key=key)
        return name

    async def publish(self, body, key, exchange="", **properties):
        properties = aiormq.spec.Basic.Properties(delivery_mode=2, **properties)
        await self.channel.basic_publish(body, exchange=exchange, routing_key=key, properties=properties)

    async def take(self, queue):
        """Return the next message of a queue, once there is one."""
        async with asyncio.timeout(30):
            while True:
                message = await self.channel.basic_get(queue, no_ack=True)
                if message.delivery.name == "Basic.GetOk":
                    return message
                await asyncio.sleep(0.01)

    async def count(self, queue):
        """Return how many messages are ready in a queue."""
        return (await self.channel.queue_declare(queue, passive=True)).message_count

    async def all(self, queue):
        """Return all that is ready in a queue."""
        return [await self.take(queue) for _ in range(await self.count(queue))]


@asynccontextmanager
async def amqp(server):
    connection = await aiormq.connect(server.url())
    try:
        yield Amqp(await connection.channel())
    finally:
        await connection.close()

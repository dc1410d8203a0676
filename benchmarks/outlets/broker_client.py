"""The brokers' own clients, without pywheel: the floor. As a process it publishes by a timetable."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from abc import ABC, abstractmethod
from typing import Any

IN_FLIGHT = 200
_numbers = itertools.count(1)


def body(due: float) -> bytes:
    """Return 128 bytes that begin with a time."""
    return b"%017.6f" % due + b"x" * 111


class Client(ABC):
    """Publishes, each message confirmed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.name = f"bench{os.getpid()}n{next(_numbers)}"

    @abstractmethod
    async def place(self) -> str:
        """Make a place that is empty; return its name."""

    @abstractmethod
    async def open(self) -> None: ...
    @abstractmethod
    async def publish(self, place: str, body: bytes) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...


class OfRabbitMQ(Client):
    """By aiormq."""

    async def place(self) -> str:
        await self.open()
        await self.channel.queue_declare(self.name, durable=True)
        await self.close()
        return self.name

    async def open(self) -> None:
        import aiormq

        self.properties = aiormq.spec.Basic.Properties
        self.connection = await aiormq.connect(self.address)
        self.channel: Any = await self.connection.channel(publisher_confirms=True, on_return_raises=True)

    async def publish(self, place: str, body: bytes) -> None:
        properties = self.properties(delivery_mode=2, message_id=f"{next(_numbers)}")
        await self.channel.basic_publish(body, routing_key=place, properties=properties, mandatory=True, wait=False)

    async def close(self) -> None:
        await self.connection.close()

    async def consume(self, place: str, count: int) -> list[float]:
        """Return by how many seconds each of the next messages is later than it says."""
        await self.open()
        late: list[float] = []
        done = asyncio.Event()

        async def take(message: Any) -> None:
            late.append(time.time() - float(message.body[:17]))
            if len(late) == count:
                done.set()

        await self.channel.basic_consume(place, take, no_ack=True)
        await done.wait()
        await self.close()
        return late


class OfRedis(Client):
    """By redis-py, what comes together in one pipeline, as the outlet does it."""

    async def place(self) -> str:
        return self.name

    async def open(self) -> None:
        import redis.asyncio

        self.client = redis.asyncio.Redis.from_url(self.address)
        self.waiting: list[Any] = []
        self.carrier: asyncio.Task[None] | None = None

    async def publish(self, place: str, body: bytes) -> None:
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((place, body, future))
        if self.carrier is None or self.carrier.done():
            self.carrier = asyncio.create_task(self._carry())
        await future

    async def _carry(self) -> None:
        while self.waiting:
            wishes, self.waiting = self.waiting, []
            pipeline = self.client.pipeline(transaction=False)
            for place, body, _ in wishes:
                pipeline.xadd(place, {"id": f"{next(_numbers)}", "body": body})
            for (_, _, future), answer in zip(wishes, await pipeline.execute(), strict=True):
                future.set_result(answer)

    async def close(self) -> None:
        await self.client.aclose()


class OfNats(Client):
    """By nats-py."""

    async def place(self) -> str:
        await self.open()
        await self.stream.add_stream(name=self.name, subjects=[f"{self.name}.>"])
        await self.close()
        return f"{self.name}.a"

    async def open(self) -> None:
        import nats

        self.client = await nats.connect(self.address)
        self.stream = self.client.jetstream()

    async def publish(self, place: str, body: bytes) -> None:
        await self.stream.publish(place, body, timeout=30, headers={"Nats-Msg-Id": f"{self.name}{next(_numbers)}"})

    async def close(self) -> None:
        await self.client.close()


class OfKafka(Client):
    """By confluent-kafka's own producer for asyncio, or what it was before that: a poll in a thread."""

    async def place(self) -> str:
        return self.name

    async def open(self) -> None:
        import confluent_kafka

        options = {"bootstrap.servers": self.address, "enable.idempotence": True, "linger.ms": 1}
        self.producer = confluent_kafka.Producer(options)
        loop = asyncio.get_running_loop()
        self.ended = False

        def poll() -> None:
            while not self.ended:
                self.producer.poll(0.1)

        self.thread = loop.run_in_executor(None, poll)

    async def publish(self, place: str, body: bytes) -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def told(error: Any, _: Any) -> None:
            loop.call_soon_threadsafe(future.set_result, error)

        self.producer.produce(place, body, on_delivery=told)
        assert await future is None

    async def close(self) -> None:
        self.ended = True
        await self.thread


CLIENTS: dict[str, type[Any]] = {"rabbitmq": OfRabbitMQ, "redis": OfRedis, "nats": OfNats, "kafka": OfKafka}


async def _by_timetable(address: str, place: str, first: float, rate: int, count: int) -> None:
    client = OfRabbitMQ(address)
    await client.open()
    print("ready", flush=True)
    under_way = set()
    for number in range(count):
        due = first + number / rate
        if (wait := due - time.time()) > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(client.publish(place, body(due)))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    await client.close()
    await asyncio.sleep(60)  # until somebody ends it


if __name__ == "__main__":
    address, place, first, rate, count = sys.argv[1:]
    asyncio.run(_by_timetable(address, place, float(first), int(rate), int(count)))

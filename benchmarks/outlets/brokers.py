"""The outlets into brokers, beside the same messages published by the broker's own client, in turns.

    python -m benchmarks.outlets.brokers                        all, a few minutes
    python -m benchmarks.outlets.brokers --only rabbitmq --rounds 1

The brokers are those of the tests, and Kafka is librdkafka's mock cluster. Prints JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.outlets.broker_client import CLIENTS, IN_FLIGHT, body
from pywheel import JobQueue
from tests.outlets.brokers import Nats, RabbitMQ
from tests.outlets.kafka_mock import Mock
from tests.stores.servers import Redis

_AHEAD = 3.0  # seconds from the first put until the first job is due


@contextlib.contextmanager
def _address(kind: str) -> Iterator[str]:
    """Yield the address of a broker that runs."""
    if kind == "kafka":
        mock = Mock()  # it lives as long as the block
        yield mock.servers
        return
    with {"rabbitmq": RabbitMQ, "nats": Nats, "redis": Redis}[kind]() as server:
        yield f"unix://{server.socket}" if kind == "redis" else server.url()


@contextlib.contextmanager
def _process(module: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process, and wait until it says that it is ready."""
    command = [sys.executable, "-m", f"benchmarks.outlets.{module}", *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        process.stdout.readline()
        yield process
    finally:
        process.terminate()
        process.communicate()


def drained(kind: str, address: str, count: int) -> float:
    """Return jobs a second of a backlog that one worker process delivers, from a SQLite store with fsync."""
    with tempfile.TemporaryDirectory() as folder, JobQueue(f"sqlite:///{folder}/jobs.db") as queue:
        place = asyncio.run(CLIENTS[kind](address).place())
        for start in range(0, count, 1_000):
            queue.put_many(queue.job("t", body(0), to=place) for _ in range(start, min(start + 1_000, count)))
        with _process("broker_worker", queue.store.url, kind, address):
            while (before := queue.topics.counts()["t"].done) < count // 10:
                time.sleep(0.005)
            began = time.perf_counter()
            while (done := queue.topics.counts()["t"].done) < count:
                time.sleep(0.01)
            return (done - before) / (time.perf_counter() - began)


def published(kind: str, address: str, count: int) -> float:
    """Return messages a second of the broker's own client, each confirmed, with as many under way."""

    async def program() -> float:
        client = CLIENTS[kind](address)
        place = await client.place()
        await client.open()
        left = iter(range(count))

        async def one() -> None:
            for _ in left:
                await client.publish(place, body(0))

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(IN_FLIGHT)))
        seconds = time.perf_counter() - began
        await client.close()
        return count / seconds

    return asyncio.run(program())


def late(address: str, rate: int, seconds: int, *, by_pywheel: bool) -> dict[str, float]:
    """Return how late in ms messages reach a consumer of RabbitMQ, at a fixed rate, by their due times.

    The sender is a worker process on a SQLite store, or a process that sleeps and publishes.
    """
    client = CLIENTS["rabbitmq"](address)
    count = rate * seconds
    with tempfile.TemporaryDirectory() as folder, JobQueue(f"sqlite:///{folder}/jobs.db") as queue:
        place = asyncio.run(client.place())
        if by_pywheel:
            with _process("broker_worker", queue.store.url, "rabbitmq", address):
                _put(queue, place, rate, count)
                found = sorted(asyncio.run(client.consume(place, count)))
        else:
            with _process("broker_client", address, place, time.time() + _AHEAD, rate, count):
                found = sorted(asyncio.run(client.consume(place, count)))
    return {f"p{part}": round(found[min(len(found) * part // 100, len(found) - 1)] * 1000, 2) for part in (50, 99, 100)}


def _put(queue: JobQueue, place: str, rate: int, count: int) -> None:
    """Put jobs that are due at a fixed rate, from soon on."""
    first = time.time() + _AHEAD
    dues = [first + n / rate for n in range(count)]
    made = [queue.job("t", body(due), to=place)._replace(due=round(due * 1000), delay=None) for due in dues]
    for start in range(0, count, 1_000):
        queue.put_many(made[start : start + 1_000])


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=list(CLIENTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--seconds", type=int, default=10)
    told = parser.parse_args()
    report: dict[str, Any] = {}
    for kind in [told.only] if told.only else CLIENTS:
        with _address(kind) as address:
            rounds = [
                (drained(kind, address, told.count), published(kind, address, told.count)) for _ in range(told.rounds)
            ]
            report[kind] = {
                "jobs_a_second": [round(jobs) for jobs, _ in rounds],
                "client_alone": [round(alone) for _, alone in rounds],
                "ratio": round(median(jobs / alone for jobs, alone in rounds), 2),
            }
            if kind == "rabbitmq":
                pairs = [
                    [late(address, told.rate, told.seconds, by_pywheel=which) for which in (True, False)]
                    for _ in range(told.rounds)
                ]
                report["rabbitmq_late_ms"] = {
                    "pywheel": [ours for ours, _ in pairs],
                    "client_alone": [alone for _, alone in pairs],
                }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

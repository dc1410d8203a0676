"""How many jobs can be put, and how many bytes they take."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable

from benchmarks.jobs.floor import BODY, Floor
from pywheel import JobQueue

_DRAW = random.Random(2)


def delay() -> float:
    """Return 5 to 20 s."""
    return 5 + 15 * _DRAW.random()


def one_by_one(url: str, raw: Floor, rounds: int = 30, count: int = 100) -> dict[str, float]:
    """Compare `put` with the raw insert, in turns of some milliseconds."""
    queue = JobQueue(url)
    queue.put("t", BODY)
    spent = {"floor": 0.0, "put": 0.0}
    for _ in range(rounds):
        began = time.perf_counter()
        raw.insert(count)
        middle = time.perf_counter()
        for _ in range(count):
            queue.put("t", BODY, delay=delay())
        spent["floor"] += middle - began
        spent["put"] += time.perf_counter() - middle
    queue.close()
    rates = {name: rounds * count / seconds for name, seconds in spent.items()}
    return {**rates, "ratio": rates["put"] / rates["floor"]}


def by_threads(url: str, threads: int, count: int = 24_000) -> float:
    """Return puts a second by many threads."""
    with JobQueue(url) as queue:
        queue.put("t", BODY)

        def work() -> None:
            for _ in range(count // threads):
                queue.put("t", BODY, delay=10)

        crew = [threading.Thread(target=work) for _ in range(threads)]
        began = time.perf_counter()
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        return count / (time.perf_counter() - began)


def by_tasks(url: str, tasks: int, count: int = 60_000) -> float:
    """Return puts a second by many tasks of one loop."""

    async def program(queue: JobQueue) -> float:
        async def work() -> None:
            for _ in range(count // tasks):
                await queue.aio.put("t", BODY, delay=10)

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(tasks)))
        return count / (time.perf_counter() - began)

    with JobQueue(url) as queue:
        queue.put("t", BODY)
        return asyncio.run(program(queue))


def by_batches(url: str, raw: Floor, size: int, count: int = 50_000) -> dict[str, float]:
    """Compare `put_many`, including the making of the jobs, with raw inserts in batches of that size, in turns."""
    queue = JobQueue(url)
    queue.put("t", BODY)
    spent = {"floor": 0.0, "put_many": 0.0}
    for _ in range(count // size):
        began = time.perf_counter()
        raw.insert_many(size)
        middle = time.perf_counter()
        queue.put_many([queue.job("t", BODY, delay=delay()) for _ in range(size)])
        spent["floor"] += middle - began
        spent["put_many"] += time.perf_counter() - middle
    queue.close()
    return {name: count / seconds for name, seconds in spent.items()}


def bytes_a_job(url: str, size: Callable[[], float], *, keyed: bool, count: int = 100_000) -> float:
    """Return by how much the size of a store grows with each job; a key is 18 characters long."""
    with JobQueue(url) as queue:
        before = size()
        for start in range(0, count, 1_000):
            numbers = range(start, start + 1_000)
            queue.put_many(
                queue.job("t", BODY, delay=delay(), key=f"order-{n:012}" if keyed else None) for n in numbers
            )
    return (size() - before) / count  # a closed file has no side file beside it


def fill(url: str, count: int) -> None:
    """Store jobs that are due in some days."""
    with JobQueue(url) as queue:
        for start in range(0, count, 2_000):
            some = range(min(2_000, count - start))
            queue.put_many([queue.job("t", BODY, delay=86_400 * _DRAW.uniform(2, 9)) for _ in some])


def cancels(url: str, stored: int) -> dict[str, float]:
    """Return the seconds of a durable cancel, one by one and 100 tasks at once, among `stored` jobs."""
    fill(url, stored)
    with JobQueue(url) as queue:
        ids = _DRAW.sample(range(1, stored), 6_000)
        began = time.perf_counter()
        for id in ids[:1_000]:
            assert queue.cancel(id)
        one = (time.perf_counter() - began) / 1_000

        async def program() -> None:
            for at in range(1_000, 6_000, 500):
                assert all(await asyncio.gather(*(queue.aio.cancel(id) for id in ids[at : at + 500])))

        began = time.perf_counter()
        asyncio.run(program())
        return {"one": one, "batched": (time.perf_counter() - began) / 5_000}

"""The client process: it puts jobs, and watches them end.

usage: python -m benchmarks.queues.client PEER rate one|tasks|many SECONDS
       python -m benchmarks.queues.client PEER drain COUNT
       python -m benchmarks.queues.client PEER fill COUNT EARLIEST LATEST PACE

`rate` puts as many jobs as it can, due in 5 to 20 s, and prints how many a second: one by one, by 100 tasks of a loop,
or 1000 at once. `drain` puts COUNT due jobs, says so, and prints when the store was seen to have ended some, how many
were left then, and when it had ended all. `fill` puts COUNT jobs with delays between `EARLIEST` and `LATEST` seconds,
`PACE` a second.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from itertools import islice
from typing import Any

from benchmarks.queues.handler import TEXT

TASKS, BATCH = 100, 1_000
LOOK = 0.02  # seconds between two looks into the store
_DRAW = random.Random(3)


class Delays:
    """Delays of 5 to 20 s, until the time is over; `count` is how many there were."""

    def __init__(self, peer: Any, seconds: float) -> None:
        self.count = 0
        self._some = [draw(peer, 5, 20) for _ in range(100)]
        self._end = time.perf_counter() + seconds

    def __iter__(self) -> Iterator[float]:
        while time.perf_counter() < self._end:
            self.count += len(self._some)
            yield from self._some


def draw(peer: Any, earliest: float, latest: float) -> float:
    """Return a delay: a whole multiple of what the peer can tell apart."""
    grain = getattr(peer, "GRAIN", 0.001)
    return round(round(_DRAW.uniform(earliest, latest) / grain) * grain, 3)


def rate(peer: Any, how: str, seconds: float) -> float:
    """Return puts a second. The first put opens the connection, and does not count."""
    if how == "tasks":
        return asyncio.run(by_tasks(peer, seconds))
    peer.put(0.0, TEXT, 20)
    delays = Delays(peer, seconds)
    began = time.perf_counter()
    if how == "many":
        some = iter(delays)
        while jobs := [(0.0, TEXT, delay) for delay in islice(some, BATCH)]:
            peer.put_many(jobs)
    else:
        for delay in delays:
            peer.put(0.0, TEXT, delay)
    return delays.count / (time.perf_counter() - began)


async def by_tasks(peer: Any, seconds: float) -> float:
    """Return puts a second of many tasks, each of which puts one by one."""
    async with getattr(peer, "opened_async", nullcontext)():
        await peer.aput(0.0, TEXT, 20)
        delays = Delays(peer, seconds)
        some = iter(delays)

        async def work() -> None:
            for delay in some:
                await peer.aput(0.0, TEXT, delay)

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(TASKS)))
        return delays.count / (time.perf_counter() - began)


def drain(peer: Any, count: int) -> None:
    """Put jobs that are due, and print when the store had ended some, how many were left, and when it had ended all."""
    for start in range(0, count, BATCH):
        jobs = [(0.0, TEXT, 0.0)] * min(BATCH, count - start)
        if hasattr(peer, "put_many"):
            peer.put_many(jobs)
        else:
            for job in jobs:
                peer.put(*job)
    print("filled", flush=True)
    first, rest = 0.0, 0
    while left := peer.left():
        if not first and left < count:
            first, rest = time.time(), left
        time.sleep(LOOK)
    end = time.time()
    print(first or end, rest, end, flush=True)


def fill(peer: Any, count: int, earliest: float, latest: float, pace: float) -> None:
    """Put jobs that say when they are due, at a steady pace."""
    began = time.perf_counter()
    for number in range(count):
        time.sleep(max(0, began + number / pace - time.perf_counter()))
        delay = draw(peer, earliest, latest)
        peer.put(time.time() + delay, TEXT, delay)


def main(name: str, what: str, *given: str) -> None:
    """Do what the command line says."""
    peer = import_module(f"benchmarks.queues.peers.{name}")
    if what == "rate":
        print(rate(peer, given[0], float(given[1])))
    elif what == "drain":
        drain(peer, int(given[0]))
    else:
        fill(peer, int(given[0]), *map(float, given[1:]))


if __name__ == "__main__":
    main(*sys.argv[1:])

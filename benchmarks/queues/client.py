"""The client process: it puts jobs, and prints how many a second.

usage: python -m benchmarks.queues.client PEER rate one|tasks|many SECONDS
       python -m benchmarks.queues.client PEER fill COUNT EARLIEST LATEST [PACE]

`rate` puts as many as it can, due in 5 to 20 s: one by one, by 100 tasks of a loop, or 1000 at once. `fill` puts so
many with delays between `EARLIEST` and `LATEST` seconds, at once if the peer can do that, or one by one, `PACE` a
second.
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

from benchmarks.queues.record import body

DAY = 86_400
TASKS, BATCH = 100, 1_000
BODY = body(0)
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
    """Return puts a second. The first put opens the connection, and does not count; its job never comes."""
    if how == "tasks":
        return asyncio.run(by_tasks(peer, seconds))
    peer.put(BODY, 2 * DAY)
    delays = Delays(peer, seconds)
    began = time.perf_counter()
    if how == "many":
        some = iter(delays)
        while jobs := [(BODY, delay) for delay in islice(some, BATCH)]:
            peer.put_many(jobs)
    else:
        for delay in delays:
            peer.put(BODY, delay)
    return delays.count / (time.perf_counter() - began)


async def by_tasks(peer: Any, seconds: float) -> float:
    """Return puts a second of many tasks, each of which puts one by one."""
    async with getattr(peer, "opened_async", nullcontext)():
        await peer.aput(BODY, 2 * DAY)
        delays = Delays(peer, seconds)
        some = iter(delays)

        async def work() -> None:
            for delay in some:
                await peer.aput(BODY, delay)

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(TASKS)))
        return delays.count / (time.perf_counter() - began)


def fill(peer: Any, count: int, earliest: float, latest: float, pace: float = 0) -> float:
    """Put jobs that say when they are due; return how many a second."""
    began = time.perf_counter()
    if hasattr(peer, "put_many") and not pace:
        for start in range(0, count, BATCH):
            delays = [draw(peer, earliest, latest) for _ in range(min(BATCH, count - start))]
            peer.put_many([(body(time.time() + delay), delay) for delay in delays])
    else:
        for number in range(count):
            if pace:
                time.sleep(max(0, began + number / pace - time.perf_counter()))
            delay = draw(peer, earliest, latest)
            peer.put(body(time.time() + delay), delay)
    return count / (time.perf_counter() - began)


def main(name: str, what: str, *given: str) -> None:
    """Do what the command line says."""
    peer = import_module(f"benchmarks.queues.peers.{name}")
    if what == "rate":
        print(rate(peer, given[0], float(given[1])))
    else:
        print(fill(peer, int(given[0]), *map(float, given[1:])))


if __name__ == "__main__":
    main(*sys.argv[1:])

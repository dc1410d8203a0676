"""The same puts within a process: ``python -m benchmarks.service.inside STORE TASKS SECONDS``; by asyncio, no HTTP."""

from __future__ import annotations

import asyncio
import sys
import time

from pywheel import JobQueue


async def measured(queue: JobQueue, tasks: int, seconds: float) -> float:
    """Return puts a second."""

    async def work() -> int:
        count = 0
        while time.perf_counter() < until:
            await queue.aio.put("mail", {"order": 12345, "to": "somebody@example.com"}, delay="30m")
            count += 1
        return count

    began = time.perf_counter()
    until = began + seconds
    counts = await asyncio.gather(*(work() for _ in range(tasks)))
    return sum(counts) / (time.perf_counter() - began)


def main() -> None:
    """Print what was measured."""
    store, tasks, seconds = sys.argv[1:]
    with JobQueue(store) as queue:
        print(asyncio.run(measured(queue, int(tasks), float(seconds))))


if __name__ == "__main__":
    main()

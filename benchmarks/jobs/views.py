"""The cost of views of many jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.jobs.floor import BODY
from pywheel import JobQueue, State


def listing(url: str, topics: int, jobs: int) -> dict[str, float]:
    """Return ms of the first 50 jobs, of any state and of one, among the jobs of many topics."""
    with JobQueue(url) as queue:
        for start in range(0, jobs, 1_000):
            queue.put_many(
                [queue.job(f"t{number % topics}", BODY, delay=3_600) for number in range(start, start + 1_000)]
            )
        return {
            "any": _milliseconds(lambda: queue.jobs.list(limit=50)),
            "delayed": _milliseconds(lambda: queue.jobs.list(limit=50, state=State.DELAYED)),
            "done": _milliseconds(lambda: queue.jobs.list(limit=50, state=State.DONE)),
            "of a topic": _milliseconds(lambda: queue.jobs.list("t7", limit=50)),
        }


def counting(url: str, jobs: int, seconds: float = 180) -> dict[str, float]:
    """Return ms of `counts()` with `jobs` jobs, or as many as can be put in the time."""
    with JobQueue(url) as queue:
        stored, end = 0, time.monotonic() + seconds
        while stored < jobs and time.monotonic() < end:
            queue.put_many([queue.job("t", BODY, delay=3_600) for _ in range(5_000)])
            stored += 5_000
        return {"counts": _milliseconds(queue.counts), "jobs": stored}


def _milliseconds(look: Callable[[], Any], rounds: int = 21) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        look()
        times.append(time.perf_counter() - began)
    return 1_000 * median(times)

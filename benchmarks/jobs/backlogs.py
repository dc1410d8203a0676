"""Jobs that cannot begin yet: the cost of a claim beside them, and how fast a limit lets them through."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.jobs.floor import BODY
from benchmarks.jobs.processes import workers
from pywheel import JobQueue
from pywheel.jobs.commands import Claim, Command, Reserve

WORKER = "benchmark"


def claims_beside(url: str, jobs: int, turns: int = 100) -> dict[str, float]:
    """Return how much longer a `reserve(1)` and a worker's claim of one take beside `jobs` due jobs, as a factor.

    The due jobs have a lower priority, or are in a paused topic, or under a limit that is reached.
    """
    with JobQueue(url) as queue:
        asked = _Asked(queue, turns)
        for topic in asked.topics:
            _put(queue, topic, 2, priority=0)
        queue.topics.pause("paused")
        queue.store.apply([asked.claim("limited")])  # takes the only place
        before = {topic: asked.milliseconds(topic) for topic in asked.topics}
        for topic in asked.topics:
            _put(queue, topic, jobs, priority=-1)
        return {
            f"{topic} {way}": after / before[topic][way]
            for topic in asked.topics
            for way, after in asked.milliseconds(topic).items()
        }


class _Asked:
    """Claims of one job each: from a topic with one for each claim, and from two topics that give none."""

    topics = ("priority", "paused", "limited")

    def __init__(self, queue: JobQueue, turns: int) -> None:
        self._queue = queue
        self._turns = turns
        for topic in self.topics:
            queue.handler(topic, ttr=3_600, limit=1 if topic == "limited" else None)(print)

    def claim(self, topic: str) -> Claim:
        """Return the claim of one job by a worker."""
        return Claim(topic, (), self._queue.handlers[topic].policy, WORKER, begin=1, limit=1)

    def milliseconds(self, topic: str) -> dict[str, float]:
        """Return the median of each way to claim a job."""
        policy = self._queue.handlers[topic].policy
        ways: dict[str, Callable[[], Command[Any]]] = {
            "reserve": lambda: Reserve(topic, 1, policy, WORKER),
            "claim": lambda: self.claim(topic),
        }
        if topic == "priority":  # the other topics give nothing
            _put(self._queue, topic, len(ways) * self._turns, priority=0)
        return {
            way: 1_000 * median(self._seconds(command()) for _ in range(self._turns)) for way, command in ways.items()
        }

    def _seconds(self, command: Command[Any]) -> float:
        began = time.perf_counter()
        self._queue.store.apply([command])
        return time.perf_counter() - began


def _put(queue: JobQueue, topic: str, jobs: int, priority: int) -> None:
    for start in range(0, jobs, 2_000):
        some = range(min(2_000, jobs - start))
        queue.put_many([queue.job(topic, BODY, priority=priority) for _ in some])


def through_a_limit(url: str, folder: Path, processes: int, jobs: int = 3_000, seconds: float = 10) -> float:
    """Return starts a second of a group that may run one job at once, for 50 ms each, with many waiting behind."""
    reports = [folder / f"limit{processes}.{number}.json" for number in range(processes)]
    with JobQueue(url) as queue:
        for start in range(0, jobs, 1_000):
            queue.put_many([queue.job("t", b"0.05", key=f"shop:{n}") for n in range(start, start + 1_000)])
        with workers(url, reports, handler="runs_and_tells", handling={"limit": [1, ":"]}, listens=False):
            time.sleep(2)
            before, began = queue.topics.counts()["t"].done, time.perf_counter()
            time.sleep(seconds)
            return (queue.topics.counts()["t"].done - before) / (time.perf_counter() - began)

"""A store's server: what a transaction waits for there."""

from __future__ import annotations

import random
from enum import Enum

from benchmarks.scaling.events import Cores, Disk, Events, Then

BACK = 1.0  # seconds at most until a worker tries a store again that was away: half of it at least


class Way(Enum):
    """How transactions share a server."""

    TOGETHER = "a process or thread for each client, and one flush for all that commit at the time"
    LOOP = "one thread, which takes all requests that wait and flushes once for them"
    LOCK = "one writer at a time, until its flush is over"


class Server:
    """One store's. `away` is from when to when nobody can reach it."""

    def __init__(
        self, events: Events, way: Way, cores: Cores, disk: Disk, away: tuple[float, float], draw: random.Random
    ):
        self._events = events
        self._way = way
        self._draw = draw
        self._away = away
        self._disk = disk
        self._cores = cores
        self._requests: list[tuple[float, float | None, Then]] = []
        self._looping = False

    def transact(self, seconds: float, then: Then, bytes: float | None = None) -> None:  # noqa: A002
        """Take so much processor time, and commit so many bytes, if any; then call."""
        start, end = self._away
        if start <= self._events.now < end:
            wait = end - self._events.now + BACK * self._draw.uniform(0.5, 1)
            self._events.after(wait, lambda: self.transact(seconds, then, bytes))
        elif self._way is Way.LOOP:
            self._requests.append((seconds, bytes, then))
            if not self._looping:
                self._loop()
        elif bytes is None:
            self._cores.use(seconds, then)
        elif self._way is Way.LOCK:
            self._disk.wrote(bytes)
            self._cores.use(seconds + self._disk.takes(), then)
        else:
            self._cores.use(seconds, lambda: self._disk.flush(then, bytes))

    def _loop(self) -> None:
        self._looping = True
        taken, self._requests = self._requests, []
        writes = [bytes for _, bytes, _ in taken if bytes is not None]  # noqa: A001
        self._disk.wrote(sum(writes))
        flush = self._disk.takes() if writes else 0.0
        # It keeps the thread all the while, so that what comes meanwhile is the next batch.
        self._cores.use(sum(seconds for seconds, _, _ in taken) + flush, lambda: self._answer(taken))

    def _answer(self, taken: list[tuple[float, float | None, Then]]) -> None:
        for _, _, then in taken:
            then()
        self._looping = False
        if self._requests:
            self._loop()

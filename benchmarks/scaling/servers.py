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
    """One store. `away` is from when to when nobody can reach it."""

    def __init__(
        self, events: Events, way: Way, cores: Cores, flush: float, away: tuple[float, float], draw: random.Random
    ) -> None:
        self._events = events
        self._way = way
        self._draw = draw
        self._away = away
        self._flush = flush
        self.cores = cores
        self.disk = Disk(events, flush)
        self._requests: list[tuple[float, bool, Then]] = []
        self._looping = False

    def transact(self, seconds: float, then: Then, *, writes: bool = True) -> None:
        """Take so much processor time, and commit if it writes; then call."""
        start, end = self._away
        if start <= self._events.now < end:
            wait = end - self._events.now + BACK * self._draw.uniform(0.5, 1)
            self._events.after(wait, lambda: self.transact(seconds, then, writes=writes))
        elif self._way is Way.LOOP:
            self._requests.append((seconds, writes, then))
            if not self._looping:
                self._loop()
        elif self._way is Way.LOCK:
            self.disk.busy += self._flush if writes else 0.0
            self.cores.use(seconds + (self._flush if writes else 0.0), then)
        elif writes:
            self.cores.use(seconds, lambda: self.disk.flush(then))
        else:
            self.cores.use(seconds, then)

    def _loop(self) -> None:
        self._looping = True
        taken, self._requests = self._requests, []

        def answer() -> None:
            self._looping = False
            for _, _, then in taken:
                then()
            if self._requests and not self._looping:
                self._loop()

        flush = self._flush if any(writes for _, writes, _ in taken) else 0.0
        self.disk.busy += flush
        # It keeps the thread all the while, so that what comes meanwhile is the next batch.
        self.cores.use(sum(seconds for seconds, _, _ in taken) + flush, answer)

"""A store's server: what a transaction waits for there."""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum

from benchmarks.scaling.events import Cores, Disk, Events, Then

BACK = 1.0  # seconds at most until a worker tries a store again that was away: half of it at least


Request = Callable[[], tuple[float, float | None]]
"""Does what a transaction does; returns its processor seconds, and its bytes of log: None if it changed nothing."""


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
        self._requests: list[tuple[Request, Then]] = []
        self._looping = False

    def read(self, seconds: float, then: Then) -> None:
        """Take some processor time, and change nothing; then call."""
        if self._way is Way.LOCK:
            self._events.after(seconds, then)  # readers need no lock
        else:
            self.transact(lambda: (seconds, None), then)

    def transact(self, request: Request, then: Then) -> None:
        """Run a transaction, and call when it is committed."""
        start, end = self._away
        if start <= self._events.now < end:
            wait = end - self._events.now + BACK * self._draw.uniform(0.5, 1)
            self._events.after(wait, lambda: self.transact(request, then))
        elif self._way is Way.LOOP:
            self._requests.append((request, then))
            if not self._looping:
                self._loop()
        elif self._way is Way.LOCK:
            self._cores.use(lambda: self._locked(request), then)
        else:
            self._together(request, then)

    def _together(self, request: Request, then: Then) -> None:
        written: list[float | None] = []

        def work() -> float:
            seconds, size = request()
            written.append(size)
            return seconds

        def worked() -> None:
            [size] = written
            if size is None:
                then()
            else:
                self._disk.flush(then, size)

        self._cores.use(work, worked)

    def _locked(self, request: Request) -> float:
        seconds, size = request()
        if size is None:
            return seconds
        self._disk.wrote(size)
        return seconds + self._disk.takes()

    def _loop(self) -> None:
        self._looping = True
        taken, self._requests = self._requests, []
        costs = [request() for request, _ in taken]
        writes = [size for _, size in costs if size is not None]
        self._disk.wrote(sum(writes))
        flush = self._disk.takes() if writes else 0.0
        # The thread stays busy all the while, so that later requests form the next batch.
        self._cores.use(sum(seconds for seconds, _ in costs) + flush, lambda: self._answer([then for _, then in taken]))

    def _answer(self, taken: list[Then]) -> None:
        for then in taken:
            then()
        self._looping = False
        if self._requests:
            self._loop()

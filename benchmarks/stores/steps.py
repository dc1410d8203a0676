"""The cost of putting and delivering a job, beside many others."""

from __future__ import annotations

import time
from contextlib import ExitStack
from statistics import median
from typing import Self

from benchmarks.jobs.floor import BODY
from benchmarks.jobs.put import fill
from benchmarks.stores.place import Place
from pywheel import JobQueue, Tally, Worker


class Stepper:
    """A queue of one address and a worker of it; `step` puts jobs and has them delivered."""

    def __init__(self, url: str) -> None:
        self._tally = Tally()
        self._queue = JobQueue(url, listeners=[self._tally])
        self._queue.handler("t", concurrency=8)(lambda job: None)
        self._worker = Worker(self._queue)
        self._worker.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.stop()
        self._worker.join()
        self._queue.close()

    def step(self, count: int) -> float:
        """Return the seconds of a job, from the first put to the last ack that is durable."""
        done = self._tally.total("done") + count
        began = time.perf_counter()
        for start in range(0, count, 1_000):
            self._queue.put_many([self._queue.job("t", BODY) for _ in range(min(1_000, count - start))])
        while self._tally.total("done") < done:
            time.sleep(0.001)
        return (time.perf_counter() - began) / count


def steps(here: Place, million: int, turns: int = 7, count: int = 1_000) -> dict[str, float]:
    """Return us of a job beside a thousandth of `million` far jobs, and the factor beside more, in turns.

    `history`: beside `million` done jobs.
    """
    with ExitStack() as stack:
        steppers = {}
        for name, stored in (("few", million // 1_000), ("tenth", million // 10), ("all", million), ("history", 0)):
            url = here.url()
            fill(url, stored)
            steppers[name] = stack.enter_context(Stepper(url))
        steppers["history"].step(million)
        times = {name: [] for name in steppers}  # type: dict[str, list[float]]
        for _ in range(turns):
            for name, stepper in steppers.items():
                times[name].append(stepper.step(count))
    found = {name: median(some) for name, some in times.items()}
    few = found.pop("few")
    return {"few": 1e6 * few} | {name: seconds / few for name, seconds in found.items()}

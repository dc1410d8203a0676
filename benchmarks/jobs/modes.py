"""Real work: the cost of jobs that are kept, fail, have a key or a result, or put another, beside a plain one."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from benchmarks.jobs.floor import BODY
from pywheel import Fixed, Job, JobQueue, Tally, Worker

_HEADERS = {"tenant": "shop-17", "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
Handle = Callable[[Job], Any]


def nothing(job: Job) -> None:
    """Handle a job."""


def _plain(_: JobQueue) -> Handle:
    return nothing


def _fails(_: JobQueue) -> Handle:
    logging.getLogger("pywheel").setLevel(logging.CRITICAL)  # a line a failure, to wherever this writes
    turn = count()

    def handle(job: Job) -> None:
        if job.attempt == 1 and next(turn) % 10 == 0:
            raise RuntimeError("one in ten")

    return handle


def _returns(_: JobQueue) -> Handle:
    return lambda job: {"order": job.id, "state": "closed"}


def _beside_isolated(queue: JobQueue) -> Handle:
    queue.handler("isolated", isolate=True)(nothing)
    return nothing


def _puts(queue: JobQueue) -> Handle:
    turn = count()

    def handle(_: Job) -> None:
        if next(turn) % 2:
            queue.put("after", BODY, delay=3_600)

    return handle


def _puts_async(queue: JobQueue) -> Callable[[Job], Awaitable[None]]:
    turn = count()

    async def handle(_: Job) -> None:
        if next(turn) % 2:
            await queue.aio.put("after", BODY, delay=3_600)

    return handle


class Mode(NamedTuple):
    """A kind of work: `job` gives the options of the n-th job, `handle` makes the handler."""

    name: str
    title: str
    least: float = 0.75
    """The goal, as a part of the plain rate."""
    handle: Callable[[JobQueue], Handle] = _plain
    handling: Mapping[str, Any] = {}
    working: Mapping[str, Any] = {}
    job: Callable[[int], Mapping[str, Any]] = lambda _: {}


PLAIN = Mode("plain", "a handler that does nothing", 1)
MODES = (
    Mode("kept", '`keep="1h"`', working={"keep": "1h"}),
    Mode("pruned", "`keep=0.5`", working={"keep": 0.5}),
    Mode("failures", "every tenth job fails once", handle=_fails, handling={"retry": Fixed(0)}),
    Mode("keys", "each job has a key", job=lambda number: {"key": f"order-{number:012}"}),
    Mode("results", "each result is kept", handle=_returns, handling={"results": True}),
    Mode("headers", "each job has two headers", job=lambda _: {"headers": _HEADERS}),
    Mode("isolation", "not isolated, beside an isolated topic", handle=_beside_isolated),
    Mode("priorities", "three priorities", job=lambda number: {"priority": number % 3}),
    Mode("puts8", "every second handler puts a job, 8 threads", 0.25, _puts),
    Mode("puts64", "every second handler puts a job, 64 threads", 0.5, _puts, {"concurrency": 64}),
    Mode("aputs64", "every second handler puts a job, 64 coroutines", 0.5, _puts_async, {"concurrency": 64}),
)


def drain(url: str, jobs: int, mode: Mode = PLAIN) -> float:
    """Return jobs a second of a backlog: claims and acks durable, handlers in a pool of 8 unless the mode says more."""
    tally = Tally()
    with JobQueue(url, listeners=[tally]) as queue:
        queue.handler("t", **{"concurrency": 8, **mode.handling})(mode.handle(queue))
        for start in range(0, jobs, 1_000):
            numbers = range(start, min(start + 1_000, jobs))
            queue.put_many([queue.job("t", BODY, **mode.job(number)) for number in numbers])
        crew = Worker(queue, **mode.working)
        began = time.perf_counter()
        crew.start()
        while tally.total("done") < jobs:
            time.sleep(0.002)
        seconds = time.perf_counter() - began
        crew.stop()
        crew.join()
    return jobs / seconds


def beside_plain(new: Callable[[], str], mode: Mode, jobs: int, turns: int = 2) -> dict[str, float]:
    """Return jobs a second of a mode, and the ratio to the plain ones, drained in turns, each from a `new` store."""
    plain = own = 0.0
    for _ in range(turns):
        plain += jobs / drain(new(), jobs)
        own += jobs / drain(new(), jobs, mode)
    return {"rate": turns * jobs / own, "ratio": plain / own}

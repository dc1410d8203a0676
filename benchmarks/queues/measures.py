"""The measures that pywheel's jobs and their peers go through, all with the same jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.queues.catalogue import Peer
from benchmarks.queues.site import site

DAY = 86_400
PACE = 133
"""Jobs a second of those whose lateness is measured."""


class Measure(NamedTuple):
    """What a peer is asked to do with `count` jobs, or for `count` seconds; not if it drains fewer
    than `floor` a second."""

    name: str
    run: Callable[[Peer, int], dict[str, float]]
    count: int
    floor: int = 0


def puts(peer: Peer, seconds: int) -> dict[str, float]:
    """Put jobs in all ways that the peer has, while nobody works."""
    with site(peer) as here:
        return {way: here.rate(way, seconds) for way in peer.ways}


def lateness(peer: Peer, count: int) -> dict[str, float]:
    """Return how late jobs come that are put beside a worker, in ms. Earlier than by a whole ms is early."""
    with site(peer) as here, here.worker():
        here.fill(count, 2, 4, PACE)
        here.wait_for(count + 1, 30 + count / 50)
        late = sorted(1000 * (came - due) for due, came in here.records()[1:])
    if not late:
        raise RuntimeError("no job came")
    return {
        "p50": late[len(late) // 2],
        "p99": late[99 * len(late) // 100],
        "max": late[-1],
        "early": sum(ms < -1 for ms in late),
        "missing": count - len(late),
    }


def drain(peer: Peer, count: int) -> dict[str, float]:
    """Return jobs a second of a backlog, from the first call of the handler to the last."""
    with site(peer) as here:
        here.fill(count)
        with here.worker(ready=False) as worker:
            if not here.wait_for(count, 120):
                raise RuntimeError(f"{count - len(here.records())} jobs did not come:\n{worker.complaint()}")
        came = [moment for _, moment in here.records()]
    return {"drain": (len(came) - 1) / (came[-1] - came[0])}


def idle(peer: Peer, count: int, settle: float = 4, seconds: float = 6) -> dict[str, float]:
    """Return what worker and server cost while all jobs are a day ahead."""
    with site(peer) as here:
        here.fill(count, DAY, DAY + 3600)
        with here.worker() as worker:
            time.sleep(settle)
            programs = {"worker": worker} | ({"server": here.server} if here.server else {})
            before, began = {name: one.spent() for name, one in programs.items()}, time.perf_counter()
            time.sleep(seconds)
            passed = time.perf_counter() - began
            used = {name: 100 * one.since(before[name]) / passed for name, one in programs.items()}
            return {**used, "rss": worker.rss() / 1e6}


MEASURES = [
    Measure("puts", puts, 1),
    Measure("late", lateness, 1_000),
    Measure("drain5", drain, 5_000),
    Measure("drain20", drain, 20_000, floor=2_000),
    Measure("idle", idle, 10_000),
]

"""The measures that pywheel's jobs and their peers go through, all with the same jobs."""

from __future__ import annotations

import time

from benchmarks.queues.catalogue import Peer
from benchmarks.queues.site import site

DAY = 86_400


def enqueue(peer: Peer, count: int) -> dict[str, float]:
    """Put jobs one by one while nobody works."""
    with site(peer) as here:
        return {"put": here.put(count, 5, 20)}


def lateness(peer: Peer, count: int) -> dict[str, float]:
    """Return how late jobs come that are put beside a worker, in ms. Earlier than by a whole ms is early."""
    with site(peer) as here, here.worker():
        here.put(count, 5, 20)
        here.wait_for(count + 1, 60 + count / 50)
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
        here.put(count, 0, 0)
        with here.worker(ready=False) as worker:
            if not here.wait_for(count, 120):
                raise RuntimeError(f"{count - len(here.records())} jobs did not come:\n{worker.complaint()}")
        came = [moment for _, moment in here.records()]
    return {"drain": (len(came) - 1) / (came[-1] - came[0])}


def idle(peer: Peer, count: int, settle: float = 5, seconds: float = 10) -> dict[str, float]:
    """Return what worker and server cost while all jobs are a day ahead."""
    with site(peer) as here:
        here.put(count, DAY, DAY + 3600)
        with here.worker() as worker:
            time.sleep(settle)
            programs = {"worker": worker} | ({"server": here.server} if here.server else {})
            before, began = {name: one.spent() for name, one in programs.items()}, time.perf_counter()
            time.sleep(seconds)
            passed = time.perf_counter() - began
            used = {name: 100 * one.since(before[name]) / passed for name, one in programs.items()}
            return {**used, "rss": worker.rss() / 1e6}

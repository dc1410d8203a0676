"""A round of every queue: the same calls, on a server of its own that was started empty."""

from __future__ import annotations

from benchmarks.queues.catalogue import Peer
from benchmarks.queues.site import Site, site

PACE = 133
"""Jobs a second in the measure of lateness."""
DRAINS = {"nothing": 3_000, "sleep1": 1_500, "sleep10": 1_500, "computes": 1_500}
"""How many jobs are drained, by what their handler does."""
LATE = 300
SECONDS = 0.5
"""How long jobs are put in each way."""


def measured(peer: Peer, part: int, *, late: bool) -> dict[str, float]:
    """Return the figures of a queue, with a part of the jobs; and its lateness if that is asked for."""
    found: dict[str, float] = {}
    with site(peer) as here:
        for handler, count in DRAINS.items():
            drained = here.drain(handler, count // part)
            found[handler] = count // part / drained.seconds
            if handler == "nothing":
                found |= {"first": drained.first} | ({"after": drained.after} if drained.after else {})
        if late:
            found |= lateness(here, LATE // part)
        for way in peer.ways:  # these jobs stay
            found[way] = here.rate(way, SECONDS)
    return found


def lateness(here: Site, count: int) -> dict[str, float]:
    """Return how late jobs start, in ms, if they are put beside a worker. Earlier than by a whole ms is early."""
    with here.worker("records"):
        here.fill(1, 0, 0, PACE)
        if not here.wait_for(1, 30):
            raise RuntimeError("the worker handles nothing")
        here.fill(count, 1, 2, PACE)
        here.wait_for(count + 1, 10 + count / 50)
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

"""The scenarios of a peer under measurement. Each function makes a peer, and returns the times of its stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.timers.interleaved import Stages, clock
from benchmarks.timers.peers.peer import Deliverer, Peer
from benchmarks.timers.workloads.deadlines import Workload

MakePeer = Callable[[], Peer]
Scenario = Callable[[MakePeer, Workload], Stages]


def schedule_then_cancel(make: MakePeer, work: Workload) -> Stages:
    """From empty to all pending; then cancel in random order."""
    peer = make()
    when = peer.own_time(work.deadlines)
    start = clock()
    handles = peer.schedule(when)
    scheduled = clock() - start
    handles = work.shuffled(handles)
    start = clock()
    count = peer.cancel(handles)
    cancelled = clock() - start
    peer.close()
    return {"schedule": (scheduled, len(when)), "cancel": (cancelled, count)}


def schedule_again(make: MakePeer, work: Workload) -> Stages:
    """From empty to all pending, as it is after the first time: the memory for that many is there already."""
    peer = make()
    handles = work.shuffled(peer.schedule(work.deadlines))
    peer.cancel(handles)
    handles.clear()
    start = clock()
    handles = peer.schedule(work.deadlines)
    took = clock() - start
    return {"schedule again": (took, len(handles))}


def churn_then_restart(make: MakePeer, work: Workload) -> Stages:
    """While all are pending: start and cancel one more again and again; then move some to later, in random order."""
    peer = make()
    handles = peer.schedule(peer.own_time(work.deadlines))
    more, later = peer.own_time(work.more), peer.own_time(work.later)
    start = clock()
    pairs = peer.churn(more)
    churned = clock() - start
    handles = work.sampled(handles)
    start = clock()
    count = peer.restart(handles, later)
    restarted = clock() - start
    peer.close()
    return {"schedule+cancel": (churned, pairs), "reschedule": (restarted, count)}


def deliver(make: Callable[[], Deliverer], work: Workload) -> Stages:
    """Let all of them expire, about 16 at a time."""
    peer = make()
    peer.fill(peer.own_time(work.deadlines), work.items)
    steps = peer.own_time(work.steps())
    start = clock()
    count = peer.deliver(steps)
    took = clock() - start
    peer.close()
    if count != work.size:
        raise AssertionError(f"{type(peer).__name__} delivered {count} timers of {work.size}")
    return {"delivery": (took, count)}


def idle(make: Callable[[], Deliverer], work: Workload | None, steps: Sequence[int]) -> Stages:
    """Let time go through `steps` while nothing is due; `work` pends behind them, or nothing at all."""
    peer = make()
    if work is not None:
        peer.schedule(peer.own_time([deadline + steps[-1] for deadline in work.deadlines]))
    times = peer.own_time(steps)
    start = clock()
    peer.idle(times)
    took = clock() - start
    peer.close()
    return {"idle": (took, len(steps))}

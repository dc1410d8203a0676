"""Time that goes by: timers delivered as lists, ticks on which nothing is due, a jump, the next deadline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import repeat
from typing import Any

import pytest

from benchmarks.timers import scenarios
from benchmarks.timers.interleaved import Interleaved, Stages, clock
from benchmarks.timers.peers import PEERS, available
from benchmarks.timers.settings import QUICK, SIZES, rounds
from benchmarks.timers.workloads.deadlines import Workload, workload

QUEUES = ("heapq", "heapq, by methods", "sortedcontainers")
ONLY_SMALL = {"pure TimingWheel", "heapq, by methods"}
QUICKLY_AT_A_MILLION = {"TimingWheel", "heapq"}
IDLE_TICKS = list(range(1, 20_001))
JUMPS = [jump << 40 for jump in range(1, 20_001)]


def makers(*names: str, size: int = 0) -> dict[str, Callable[[], Any]]:
    """Return the peers, the floor only with a compiler."""
    names = available(*names)
    if size == SIZES[-1]:
        names = tuple(name for name in names if name in QUICKLY_AT_A_MILLION or not (QUICK or name in ONLY_SMALL))
    return {name: PEERS[name] for name in names}


@pytest.mark.parametrize("size", SIZES)
def test_delivery(interleaved: Interleaved, size: int) -> None:
    work = workload("uniform", size)
    peers = makers("TimingWheel", "KeyWheel", "pure TimingWheel", *QUEUES, size=size)
    runs = {name: partial(scenarios.deliver, make, work) for name, make in peers.items()}
    once = {"sortedcontainers"} if size == SIZES[-1] else ()  # it takes long to have them pending
    interleaved.run(runs, rounds=rounds(size), once=once, size=size)


def test_delivery_over_horizons(interleaved: Interleaved) -> None:
    work = workload("horizons", 100_000)
    peers = makers("TimingWheel", "KeyWheel", "pure TimingWheel", *QUEUES)
    interleaved.run(
        {name: partial(scenarios.deliver, make, work) for name, make in peers.items()},
        rounds=rounds(work.size) // 2 + 1,
        size=work.size,
        workload="horizons",
    )


@pytest.mark.parametrize("size", (0, 100_000))
def test_empty_tick(interleaved: Interleaved, size: int) -> None:
    work = workload("uniform", size) if size else None
    peers = makers("TimingWheel", "KeyWheel", "empty call", "pure TimingWheel", *QUEUES)
    runs = {name: partial(_idle, "empty tick", make, work, IDLE_TICKS) for name, make in peers.items()}
    interleaved.run(runs, rounds=2 if QUICK else 5, size=size)


def test_jump(interleaved: Interleaved) -> None:
    peers = makers("TimingWheel", "KeyWheel", "empty call", "pure TimingWheel", "heapq")
    runs = {name: partial(_idle, "jump of 2^40", make, None, JUMPS) for name, make in peers.items()}
    interleaved.run(runs, rounds=9)


def _idle(measure: str, make: Callable[[], Any], work: Workload | None, steps: list[int]) -> Stages:
    return {measure: scenarios.idle(make, work, steps)["idle"]}


@pytest.mark.parametrize("size", SIZES)
def test_next_deadline(interleaved: Interleaved, size: int) -> None:
    work = workload("uniform", size)
    peers = makers("TimingWheel", "KeyWheel", "empty call")
    runs = {name: partial(_next_deadline, make, work) for name, make in peers.items()}
    interleaved.run(runs, rounds=rounds(size) // 2 + 1, size=size)


def _next_deadline(make: Callable[[], Any], work: Workload) -> Stages:
    """Ask after each of many cancellations, so that no answer can be kept from before."""
    peer = make()
    handles = work.sampled(peer.schedule(work.deadlines))[:1000]
    next_deadline, cancel = peer.wheel.next_deadline, peer.wheel.cancel
    start = clock()
    for handle in handles:
        cancel(handle)
        next_deadline()
    both = clock() - start
    start = clock()
    for _ in repeat(None, 10_000):
        next_deadline()
    alone = clock() - start
    return {"cancel+next_deadline": (both, len(handles)), "next_deadline": (alone, 10_000)}

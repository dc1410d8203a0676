"""One call a timer: schedule, cancel, schedule+cancel, reschedule.

Like beside like: the wheel has neither clock nor callbacks, nor have the queues beside it; loops and drivers have both.
"""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.timers import scenarios
from benchmarks.timers.interleaved import Interleaved
from benchmarks.timers.peers import PEERS, available
from benchmarks.timers.settings import QUICK, SIZES, rounds
from benchmarks.timers.workloads.deadlines import workload

QUEUES = (
    "TimingWheel",
    "KeyWheel",
    "empty call",
    "empty KeyWheel call",
    "pure TimingWheel",
    "heapq",
    "heapq, by methods",
    "sortedcontainers",
)
DRIVERS = ("AsyncTimers", "EventLoop", "Timers", "asyncio", "uvloop")
ONLY_SMALL = {"pure TimingWheel", "heapq, by methods"}
QUICKLY_AT_A_MILLION = {"TimingWheel", "empty call", "heapq"}
SCENARIOS = [scenarios.schedule_then_cancel, scenarios.churn_then_restart]


def peers(size: int) -> tuple[str, ...]:
    """Return the peers that are measured beside the wheel with `size` timers pending."""
    names = available(*QUEUES)
    if size < SIZES[-1]:
        return names
    return tuple(name for name in names if name in QUICKLY_AT_A_MILLION or not (QUICK or name in ONLY_SMALL))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("size", SIZES)
def test_single_calls(interleaved: Interleaved, scenario: scenarios.Scenario, size: int) -> None:
    if QUICK and size == SIZES[-1] and scenario is scenarios.churn_then_restart:
        pytest.skip("BENCH=quick leaves it out")
    work = workload("uniform", size)
    runs = {name: partial(scenario, PEERS[name], work) for name in peers(size)}
    once = {"sortedcontainers"} if size == SIZES[-1] else ()  # it takes long to have them pending
    interleaved.run(runs, rounds=rounds(size), once=once, size=size)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("size", SIZES)
def test_calls_with_callbacks(interleaved: Interleaved, scenario: scenarios.Scenario, size: int) -> None:
    if size == SIZES[-1] and (QUICK or scenario is scenarios.schedule_then_cancel):
        pytest.skip("loops take long for a million")
    work = workload("uniform", size)
    runs = {name: partial(scenario, PEERS[name], work) for name in available(*DRIVERS)}
    interleaved.run(runs, rounds=rounds(size), size=size, workload="callbacks")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_horizons(interleaved: Interleaved, scenario: scenarios.Scenario) -> None:
    work = workload("horizons", 100_000)
    runs = {name: partial(scenario, PEERS[name], work) for name in peers(work.size)}
    interleaved.run(runs, rounds=rounds(work.size) // 2 + 1, size=work.size, workload="horizons")


@pytest.mark.parametrize("size", SIZES)
def test_schedule_again(interleaved: Interleaved, size: int) -> None:
    work = workload("uniform", size)
    names = [name for name in peers(size) if "Wheel" in name or "empty" in name]
    interleaved.run(
        {name: partial(scenarios.schedule_again, PEERS[name], work) for name in names}, rounds=rounds(size), size=size
    )

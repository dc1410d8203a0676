"""One call a timer: schedule, cancel, schedule+cancel, reschedule, against everything."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.timers import scenarios
from benchmarks.timers.interleaved import Interleaved
from benchmarks.timers.peers import PEERS, available
from benchmarks.timers.settings import QUICK, SIZES, rounds
from benchmarks.timers.workloads.deadlines import workload

EVERYBODY = (
    "TimingWheel",
    "KeyWheel",
    "empty call",
    "empty KeyWheel call",
    "pure TimingWheel",
    "asyncio",
    "uvloop",
    "heapq",
    "heapq, by methods",
    "sched",
    "sortedcontainers",
)
AT_A_MILLION = set(EVERYBODY) - {"pure TimingWheel", "heapq, by methods"}
QUICKLY_AT_A_MILLION = {"TimingWheel", "empty call", "asyncio", "heapq"}
ONCE_AT_A_MILLION = {  # who is that far behind, or takes that long to have them pending, is so in every round
    scenarios.schedule_then_cancel: {"sched", "sortedcontainers"},
    scenarios.churn_then_restart: {"asyncio", "uvloop", "sched", "sortedcontainers"},
}


def peers(size: int) -> tuple[str, ...]:
    """Return who is measured with so many timers pending."""
    names = available(*EVERYBODY)
    if size < SIZES[-1]:
        return names
    return tuple(name for name in names if name in (QUICKLY_AT_A_MILLION if QUICK else AT_A_MILLION))


@pytest.mark.parametrize("scenario", [scenarios.schedule_then_cancel, scenarios.churn_then_restart])
@pytest.mark.parametrize("size", SIZES)
def test_single_calls(interleaved: Interleaved, scenario: scenarios.Scenario, size: int) -> None:
    if QUICK and size == SIZES[-1] and scenario is scenarios.churn_then_restart:
        pytest.skip("BENCH=quick leaves it out")
    work = workload("uniform", size)
    runs = {name: partial(scenario, PEERS[name], work) for name in peers(size)}
    once = ONCE_AT_A_MILLION[scenario] if size == SIZES[-1] else ()
    interleaved.run(runs, rounds=rounds(size), once=once, size=size)


@pytest.mark.parametrize("scenario", [scenarios.schedule_then_cancel, scenarios.churn_then_restart])
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


def test_one_thread_a_timer(interleaved: Interleaved) -> None:
    work = workload("uniform", 1_000)
    runs = {name: partial(scenarios.churn, PEERS[name], work) for name in ("TimingWheel", "threading.Timer")}
    interleaved.run(runs, rounds=3, workload="alone")

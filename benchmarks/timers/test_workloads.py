"""What servers do: the timeout workload, and the timers of a real one as recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, Stages
from benchmarks.timers.peers import empty_call
from benchmarks.timers.settings import QUICK, rounds
from benchmarks.timers.workloads import replay, timeouts
from benchmarks.timers.workloads.trace import Fired, Trace, load
from pywheel.core import _pure

WHEELS = {"TimingWheel": pywheel.TimingWheel, "KeyWheel": pywheel.KeyWheel, "pure TimingWheel": _pure.TimingWheel}


@pytest.mark.parametrize("size", (100_000, 1_000_000))
def test_timeouts(interleaved: Interleaved, size: int) -> None:
    if QUICK and size > 100_000:
        pytest.skip("BENCH=quick leaves it out")
    plan = timeouts.plan(size)
    servers = {name: partial(timeouts.wheel, kind) for name, kind in WHEELS.items()}
    servers["heapq"] = timeouts.heapq
    runs = {name: partial(timeouts.through, serve, plan) for name, serve in servers.items()}
    interleaved.run(runs, rounds=max(2, rounds(size) // 2), size=size, workload="timeouts")


def test_recorded_trace(interleaved: Interleaved) -> None:
    trace = load()
    _, expected = replay.through_asyncio(trace)
    replays: dict[str, Callable[[Trace], tuple[int, Fired]]] = {
        name: partial(_through, kind) for name, kind in WHEELS.items()
    }
    replays["heapq"] = replay.through_heapq
    runs = {name: partial(_same, run, trace, expected) for name, run in replays.items()}
    if empty_call.available():
        runs["empty call"] = partial(_timed, partial(_through, empty_call.load().Floor), trace)
    interleaved.run(runs, rounds=max(3, rounds(100_000)), workload="trace")


def _through(kind: Callable[[], object], trace: Trace) -> tuple[int, Fired]:
    return replay.through_wheel(trace, kind())


def _timed(run: Callable[[Trace], tuple[int, Fired]], trace: Trace) -> Stages:
    took, _ = run(trace)
    return {"replay": (took, trace.operations)}


def _same(run: Callable[[Trace], tuple[int, Fired]], trace: Trace, expected: Fired) -> Stages:
    """Replay, and see that it fired what asyncio fired."""
    took, fired = run(trace)
    assert replay.difference(trace, fired, expected) is None
    return {"replay": (took, trace.operations)}

"""KeyWheel's bulk calls, nanoseconds a timer, and the whole life of a timer among ten million."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, Stages, clock
from benchmarks.timers.settings import QUICK, SIZES, bulk_size, rounds
from benchmarks.timers.workloads.deadlines import SPAN

MOST = 10_000_000
BATCH = 1_000  # timers that a bulk advance brings


@pytest.mark.parametrize("size", SIZES)
def test_bulk_calls(interleaved: Interleaved, size: int) -> None:
    random = np.random.default_rng(size)
    interleaved.run({"KeyWheel": partial(_bulk, random, size)}, rounds=max(9, rounds(size)), size=size)


def _timed(call: Any, *arguments: Any) -> tuple[int, Any]:
    start = clock()
    result = call(*arguments)
    return clock() - start, result


def _bulk(random: np.random.Generator, size: int) -> Stages:
    """Schedule, restart and cancel all of them, in random order; schedule them again and let them expire."""
    wheel = pywheel.KeyWheel()
    deadlines, keys = random.integers(1, SPAN + 1, size), np.arange(size, dtype=np.uint64)
    order, later = random.permutation(size), random.integers(1, SPAN + 1, size)
    took, handles = _timed(wheel.schedule_many, deadlines, keys)
    stages = {"schedule_many, new wheel": (took, size)}
    took, _ = _timed(wheel.reschedule_many, handles[order], deadlines[order] + later)
    stages["reschedule_many"] = took, size
    took, _ = _timed(wheel.cancel_many, handles[order])
    stages["cancel_many"] = took, size
    took, _ = _timed(wheel.schedule_many, deadlines, keys)
    stages["schedule_many"] = took, size
    batches = {"advance_many": max(1, SPAN * BATCH // size), "advance_many, all at once": SPAN}
    if size >= SIZES[-1]:
        batches["advance_many, each tick"] = 1
    for measure, batch in batches.items():
        if len(wheel) == 0:
            wheel.schedule_many(wheel.now + deadlines, keys)
        stages[measure] = _drain(wheel, batch), size
        assert len(wheel) == 0
    return stages


def _drain(wheel: Any, batch: int) -> int:
    """Advance until everything has expired; return the nanoseconds."""
    advance_many = wheel.advance_many
    steps = range(wheel.now + batch, wheel.now + SPAN + batch, batch)
    start = clock()
    for now in steps:
        advance_many(now)
    return clock() - start


@pytest.mark.parametrize("size", (1_000_000, MOST))
def test_whole_life(interleaved: Interleaved, size: int) -> None:
    """Steady state: what expires in a tick is re-armed at once, and every timer lives once in each round."""
    if size > bulk_size(MOST):
        pytest.skip("BENCH=quick leaves ten million out")
    random = np.random.default_rng(size)
    delays = random.integers(1, SPAN + 1, 2 * size)
    wheel = pywheel.KeyWheel()
    wheel.schedule_many(delays[:size], np.arange(size, dtype=np.uint64))
    _live(wheel, delays, SPAN // 2)
    interleaved.run(
        {"KeyWheel": lambda: {"whole life": _live(wheel, delays, SPAN)}}, rounds=1 if QUICK else 3, size=size
    )


def _live(wheel: Any, delays: Any, ticks: int) -> tuple[int, int]:
    """Return the nanoseconds in the wheel's calls, and how many timers expired and were scheduled anew."""
    advance_many, schedule_many = wheel.advance_many, wheel.schedule_many
    clock = time.perf_counter_ns  # read four times a tick: the CPU time's clock would cost more than the calls
    total = expired_total = 0
    position, last = 0, len(delays) // 2
    for now in range(wheel.now + 1, wheel.now + 1 + ticks):
        start = clock()
        expired = advance_many(now)
        total += clock() - start
        count = len(expired)
        deadlines = delays[position : position + count] + now
        position = (position + count) % last
        start = clock()
        schedule_many(deadlines, expired)
        total += clock() - start
        expired_total += count
    return total, expired_total

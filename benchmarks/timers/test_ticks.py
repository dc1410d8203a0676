"""Single calls with a million timers pending: the usual tick and the worst one, and the worst schedule."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, clock
from benchmarks.timers.settings import QUICK

PENDING = 1_000_000
TICKS = 60_000 if QUICK else 120_000  # for the worst one; one block in four is for the median
BLOCK = 1_000


@pytest.mark.parametrize("span", (60_000, 600_000))
def test_ticks_with_a_million_pending(interleaved: Interleaved, span: int) -> None:
    wheels = {"KeyWheel": pywheel.KeyWheel(), "TimingWheel": pywheel.TimingWheel(), "many": pywheel.KeyWheel()}
    deadlines = np.random.default_rng(span).integers(1, span + 1, PENDING)
    keys = np.arange(PENDING)
    for name, wheel in wheels.items():
        if name == "many":
            wheel.schedule_many(deadlines, keys)
        else:
            for deadline, key in zip(deadlines.tolist(), keys.tolist(), strict=True):
                wheel.schedule(deadline, key)
    advance = {name: wheel.advance for name, wheel in wheels.items()}
    advance["many"] = wheels["many"].advance_many
    names = {"KeyWheel": "KeyWheel.advance", "TimingWheel": "TimingWheel.advance", "many": "KeyWheel.advance_many"}
    usual: dict[str, list[float]] = {name: [] for name in wheels}
    worst = dict.fromkeys(wheels, 0.0)
    for block in range(TICKS // BLOCK * 4 // 3):  # the wheels take turns, a thousand ticks each
        ticks = range(block * BLOCK + 1, block * BLOCK + 1 + BLOCK)
        for name, wheel in wheels.items():
            if block % 4 == 0:
                took = _ticks(wheel, advance[name], ticks, span, time.perf_counter_ns)
                usual[name].append((statistics.median(took) - _cost_of_the_clock()) / 1e9)
            else:
                worst[name] = max(worst[name], *_ticks(wheel, advance[name], ticks, span, clock))
    for name, seconds in usual.items():
        assert len(wheels[name]) == PENDING
        interleaved.keep(
            "tick",
            names[name],
            seconds,
            size=PENDING,
            workload=f"delays to {span}",
            values={"worst": worst[name] / 1e9, "ticks": TICKS},
        )


def test_worst_schedule_while_growing(interleaved: Interleaved) -> None:
    """From an empty wheel to a million timers: the calls that meet a pool without room."""
    deadlines = np.random.default_rng(1).integers(1, 60_001, PENDING).tolist()
    schedule = pywheel.TimingWheel().schedule
    took = []
    for deadline in deadlines:
        start = clock()
        schedule(deadline)
        took.append(clock() - start)
    median = statistics.median(took) / 1e9
    interleaved.keep("growth", "TimingWheel.schedule", [median], size=PENDING, values={"worst": max(took) / 1e9})


def _ticks(wheel: Any, advance: Callable[[int], Any], ticks: range, span: int, clock: Callable[[], int]) -> list[int]:
    """Advance tick by tick, re-arming what expired; return the nanoseconds of each tick.

    The usual tick is measured by the wall clock, which is cheap to read and disturbs nothing; the worst one by CPU
    time, which knows nothing of other programs.
    """
    schedule = wheel.schedule
    delays = iter(np.random.default_rng(ticks[0]).integers(1, span + 1, 4 * PENDING // 60_000 * len(ticks)).tolist())
    took = []
    for now in ticks:
        start = clock()
        expired = advance(now)
        end = clock()
        took.append(end - start)
        for key in expired if isinstance(expired, list) else expired.tolist():
            schedule(now + next(delays), key)
        del expired
    return took


@cache
def _cost_of_the_clock() -> float:
    """Return what two readings of the wall clock differ by when nothing is between them."""
    wall = time.perf_counter_ns
    return statistics.median([-wall() + wall() for _ in range(10_001)])

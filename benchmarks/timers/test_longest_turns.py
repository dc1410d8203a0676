"""A million timers on one tick, or late: the longest turn of each driver, in processor time of its thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved
from benchmarks.timers.settings import QUICK

MILLION = 100_000 if QUICK else 1_000_000
ROUNDS = 1 if QUICK else 3
LATE = "late", "late, and one in the past"


class Watched(pywheel.Clock):
    """A clock that stands still, and notes the processor time of its reader: each driver reads it in every turn."""

    def __init__(self) -> None:
        self.now = 0
        self.readings: list[tuple[int, int]] = []

    def time_ns(self) -> int:
        """Return the time it was set to."""
        self.readings.append((threading.get_ident(), time.thread_time_ns()))
        return self.now


@pytest.mark.parametrize("what", ["on one tick", *LATE])
@pytest.mark.parametrize("driver", ["EventLoop", "AsyncTimers", "ThreadTimers"])
def test_longest_turn_of_a_driver(interleaved: Interleaved, driver: str, what: str) -> None:
    run = _in_thread if driver == "ThreadTimers" else _in_loop
    longest, totals = zip(*(run(driver, what) for _ in range(ROUNDS)), strict=True)
    values = {"longest_cpu_ms": median(longest) * 1e3}
    interleaved.keep(f"1M {what}", driver, list(totals), values=values, size=1_000_000, workload="callbacks")


def _in_loop(driver: str, what: str) -> tuple[float, float]:
    clock = Watched()
    if driver == "EventLoop":
        loop: Any = pywheel.EventLoop(clock=clock)
        timers = loop
    else:
        loop = asyncio.SelectorEventLoop()
        timers = pywheel.AsyncTimers(loop, clock=clock)
    _schedule(timers.call_at, what, loop.stop)
    clock.now = 200 * 10**9
    clock.readings.clear()
    loop.call_soon(timers.call_at, 1, int)
    loop.run_forever()
    loop.close()
    return _longest(clock, threading.get_ident())


def _in_thread(_: str, what: str) -> tuple[float, float]:
    clock, over = Watched(), threading.Event()
    with pywheel.ThreadTimers(clock=clock) as timers:
        _schedule(timers.call_at, what, over.set)
        clock.now = 200 * 10**9
        clock.readings.clear()
        timers.call_at(1, int)
        over.wait()
    return _longest(clock, next(who for who, _ in clock.readings if who != threading.get_ident()))


def _schedule(call_at: Callable[..., Any], what: str, end: Callable[[], object]) -> None:
    """Have a million due at 100 s, or over the 200 ms after it, in no order; and the end behind them.

    Nobody keeps the handles: a list of a million that have run is the program's own, and the garbage collector's work.
    """

    def again() -> None:
        if not over:
            call_at(0, again)

    def finish() -> None:
        over.append(True)
        end()

    over: list[bool] = []
    spread = 0.2 / MILLION if what in LATE else 0
    for number in range(MILLION):
        call_at(100 + number * 7_919 % MILLION * spread, int)
    if what == LATE[1]:
        call_at(99, again)
    call_at(150, finish)


def _longest(clock: Watched, who: int) -> tuple[float, float]:
    """Return the longest turn, and the sum of all, in seconds."""
    times = [at for reader, at in clock.readings if reader == who]
    return max(after - before for before, after in pairwise(times)) / 1e9, (times[-1] - times[0]) / 1e9

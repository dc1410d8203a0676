"""Timers with callbacks, against those of asyncio, uvloop and threading."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, Stages
from benchmarks.timers.lateness import DRIVERS, OURS, periodic_load
from benchmarks.timers.memory import bytes_per_timer
from benchmarks.timers.peers import available
from benchmarks.timers.peers.peer import nothing
from benchmarks.timers.settings import QUICK

THREADS = 1_000
RATE = 100_000


def test_start_from_another_thread(interleaved: Interleaved) -> None:
    runs = {"ThreadTimers": _thread_timers, "threading.Timer": _threading_timer}
    interleaved.run(runs, rounds=3, size=THREADS, workload="callbacks")


def _thread_timers() -> Stages:
    with pywheel.ThreadTimers() as timers:
        timers.call_later(3600, nothing)
        start = time.perf_counter_ns()
        for _ in range(THREADS):
            timers.call_later(60, nothing)
        took = time.perf_counter_ns() - start
    return {"start": (took, THREADS)}


def _threading_timer() -> Stages:
    timers = []
    start = time.perf_counter_ns()
    for _ in range(THREADS):
        timer = threading.Timer(60, nothing)
        timer.start()
        timers.append(timer)
    took = time.perf_counter_ns() - start
    for timer in timers:
        timer.cancel()
    for timer in timers:
        timer.join()
    return {"start": (took, THREADS)}


@pytest.mark.parametrize("driver", available(*DRIVERS))
def test_lateness(interleaved: Interleaved, driver: str) -> None:
    values = DRIVERS[driver](RATE, 2 if QUICK else 5)
    assert values["missed"] == 0
    assert values["early"] == 0 or driver not in OURS
    interleaved.keep("lateness", driver, [values["p99_ms"] / 1e3], values=values, size=RATE, workload="callbacks")


def test_periodic_timers(interleaved: Interleaved) -> None:
    timers = 100_000 if QUICK else 1_000_000
    used = periodic_load(timers, 60 * timers / 1_000_000, 3 if QUICK else 10)
    interleaved.keep("periodic", "ThreadTimers", [used], size=1_000_000, workload="callbacks", values={"core": used})


def test_gc_collect(interleaved: Interleaved) -> None:
    """With a million timers pending, each with a bound method and an argument, and with none."""
    makers = {"nothing": None, "Timers": pywheel.Timers, "Timers, not used since": pywheel.Timers, "asyncio": _asyncio}
    runs = {name: partial(_collect, maker, not name.endswith("since")) for name, maker in makers.items()}
    interleaved.run(runs, rounds=2 if QUICK else 3, size=1_000_000, workload="callbacks")


def _asyncio() -> Any:
    return asyncio.SelectorEventLoop()


def _collect(make: Callable[[], Any] | None, used: bool) -> Stages:
    timers, peer = make and make(), Callee()
    if timers is not None:
        for number in range(1_000_000):
            timers.call_later(60 + number % 1_000, peer.call, number + 0.5)
    gc.collect()
    if timers is not None and used:
        timers.call_later(60, peer.call, 0.5)
    start = time.perf_counter_ns()
    gc.collect()
    took = time.perf_counter_ns() - start
    if hasattr(timers, "close"):
        timers.close()
    return {"gc.collect": (took, 1)}


class Callee:
    """Whose method the timers call."""

    def call(self, number: float) -> None:
        """Do nothing."""


@pytest.mark.parametrize("peer", available("Timers, one argument", "asyncio, one argument", "uvloop, one argument"))
def test_bytes_per_timer(interleaved: Interleaved, peer: str) -> None:
    size = 200_000 if QUICK else 1_000_000
    values = bytes_per_timer(peer, size)
    interleaved.keep("bytes", peer, [1.0], size=1_000_000, workload="callbacks", values=values)

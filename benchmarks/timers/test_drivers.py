"""Timers with callbacks, against those of asyncio, uvloop and threading."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

import pywheel
from benchmarks.timers import scenarios
from benchmarks.timers.interleaved import Interleaved, Stages
from benchmarks.timers.lateness import DRIVERS, periodic_load
from benchmarks.timers.memory import bytes_per_timer
from benchmarks.timers.peers import PEERS, available
from benchmarks.timers.peers.peer import nothing
from benchmarks.timers.settings import QUICK, rounds
from benchmarks.timers.workloads.deadlines import workload

PENDING = 100_000
THREADS = 1_000
RATE = 100_000


def test_start_cancel_and_reset(interleaved: Interleaved) -> None:
    """With as many others pending."""
    work = workload("uniform", PENDING)
    names = available("AsyncTimers", "Timers", "asyncio", "uvloop")
    runs = {name: partial(scenarios.churn_then_restart, PEERS[name], work) for name in names}
    interleaved.run(runs, rounds=rounds(PENDING), size=PENDING, workload="callbacks")


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


@pytest.mark.parametrize("driver", DRIVERS)
def test_lateness(interleaved: Interleaved, driver: str) -> None:
    values = DRIVERS[driver](RATE, 2 if QUICK else 10)
    assert values["early"] == values["missed"] == 0
    interleaved.keep("lateness", driver, [values["p99_ms"] / 1e3], values=values, size=RATE, workload="callbacks")


def test_periodic_timers(interleaved: Interleaved) -> None:
    timers = 100_000 if QUICK else 1_000_000
    used = periodic_load(timers, 60 * timers / 1_000_000, 3 if QUICK else 10)
    interleaved.keep("periodic", "ThreadTimers", [used], size=1_000_000, workload="callbacks", values={"core": used})


@pytest.mark.parametrize("peer", available("Timers, one argument", "asyncio, one argument", "uvloop, one argument"))
def test_bytes_per_timer(interleaved: Interleaved, peer: str) -> None:
    size = 200_000 if QUICK else 1_000_000
    values = bytes_per_timer(peer, size)
    interleaved.keep("bytes", peer, [1.0], size=1_000_000, workload="callbacks", values=values)

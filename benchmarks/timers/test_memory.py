"""Bytes for each timer, and what pending timers cost the garbage collector."""

from __future__ import annotations

import gc
import time
from typing import Any

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, Stages
from benchmarks.timers.memory import bytes_per_timer
from benchmarks.timers.peers import available
from benchmarks.timers.settings import QUICK

PENDING = 1_000_000
HOLDERS = ("TimingWheel", "KeyWheel", "heapq", "sortedcontainers")
QUICKLY = {"TimingWheel", "heapq"}


@pytest.mark.parametrize("size", (1_000, 1_000_000))
@pytest.mark.parametrize("peer", available(*HOLDERS))
def test_bytes_per_timer(interleaved: Interleaved, peer: str, size: int) -> None:
    if QUICK and peer not in QUICKLY:
        pytest.skip("BENCH=quick leaves it out")
    start = time.perf_counter()
    values = bytes_per_timer(peer, size)
    interleaved.keep("bytes", peer, [time.perf_counter() - start], size=size, values=values)


def test_gc_collect(interleaved: Interleaved) -> None:
    """One million payloads: in a list beside an empty wheel, in the wheel alone, in both."""
    runs = {"a list, empty wheel": _in_a_list, "the wheel": _in_the_wheel, "the wheel and a list": _in_both}
    interleaved.run(runs, rounds=2 if QUICK else 3, size=PENDING)


def _payloads() -> list[Any]:
    return [[number] for number in range(PENDING)]


def _pending(payloads: list[Any]) -> pywheel.TimingWheel[Any]:
    wheel: pywheel.TimingWheel[Any] = pywheel.TimingWheel()
    for number, payload in enumerate(payloads):
        wheel.schedule(1 + number * 7919 % 60_000, payload)
    return wheel


def _collect() -> Stages:
    gc.collect()
    start = time.perf_counter_ns()
    gc.collect()
    return {"gc.collect": (time.perf_counter_ns() - start, 1)}


def _in_a_list() -> Stages:
    payloads, wheel = _payloads(), pywheel.TimingWheel[Any]()
    took = _collect()
    assert len(payloads) == PENDING
    assert len(wheel) == 0
    return took


def _in_the_wheel() -> Stages:
    payloads = _payloads()
    wheel = _pending(payloads)
    del payloads
    took = _collect()
    assert len(wheel) == PENDING
    return took


def _in_both() -> Stages:
    payloads = _payloads()
    wheel = _pending(payloads)
    took = _collect()
    assert len(payloads) == len(wheel) == PENDING
    return took

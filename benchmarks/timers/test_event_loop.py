"""The event loop against asyncio's own and uvloop's: its timers, one by one and by the million."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, Stages, clock
from benchmarks.timers.peers import available
from benchmarks.timers.peers.peer import nothing
from benchmarks.timers.settings import QUICK

CALLS = 5_000 if QUICK else 20_000
MILLION = 100_000 if QUICK else 1_000_000


def loops() -> dict[str, Callable[[], Any]]:
    """Return what makes each loop."""
    makers: dict[str, Callable[[], Any]] = {"EventLoop": pywheel.EventLoop, "asyncio": asyncio.SelectorEventLoop}
    if available("uvloop"):
        import uvloop

        makers["uvloop"] = uvloop.new_event_loop
    return makers


def test_timers_in_sequence(interleaved: Interleaved) -> None:
    runs = {name: partial(_in_sequence, maker) for name, maker in loops().items()}
    interleaved.run(runs, rounds=3 if QUICK else 11, workload="callbacks")


def _in_sequence(maker: Callable[[], Any]) -> Stages:
    loop = maker()
    try:
        return loop.run_until_complete(_stages(loop))  # type: ignore[no-any-return]
    finally:
        loop.close()


async def _stages(loop: Any) -> Stages:
    start = clock()
    for _ in range(CALLS):
        loop.call_later(10, nothing).cancel()
    cancelled = clock() - start
    await asyncio.sleep(0.01)  # for what a loop has put off
    start = clock()
    now = loop.time()
    for _ in range(CALLS):
        loop.call_at(now, nothing)
    over = loop.create_future()
    loop.call_at(now, over.set_result, None)
    await over
    fired = clock() - start
    start = clock()
    for _ in range(CALLS):
        async with asyncio.timeout(10):
            pass
    return {
        "call_later+cancel": (cancelled, CALLS),
        "call_at+fire": (fired, CALLS),
        "timeout in sequence": (clock() - start, CALLS),
    }


def test_gc_collect(interleaved: Interleaved) -> None:
    """While a million timers are pending, each with an argument, and while none is."""
    runs = {name: partial(_collect, maker, MILLION) for name, maker in loops().items()}
    runs["nothing"] = partial(_collect, pywheel.EventLoop, 0)
    interleaved.run(runs, rounds=2 if QUICK else 3, size=1_000_000, workload="callbacks")


def _collect(maker: Callable[[], Any], pending: int) -> Stages:
    async def main() -> Stages:
        for number in range(pending):
            loop.call_later(1_000 + number % 1_000, nothing, number)
        gc.collect()
        start = time.perf_counter_ns()
        gc.collect()
        return {"gc.collect in a running loop": (time.perf_counter_ns() - start, 1)}

    loop = maker()
    try:
        return loop.run_until_complete(main())  # type: ignore[no-any-return]
    finally:
        loop.close()


@pytest.mark.parametrize("what", ["cancelled", "due at once"])
def test_longest_turn(interleaved: Interleaved, what: str) -> None:
    """While a million timers are cancelled, or fall due, together: the longest time between turns, and the whole."""
    for name, maker in loops().items():
        longest, total = _storm(maker, what)
        interleaved.keep(
            f"1M {what}", name, [total], values={"longest_ms": longest * 1e3}, size=1_000_000, workload="callbacks"
        )


def _storm(maker: Callable[[], Any], what: str) -> tuple[float, float]:
    """Return the longest turn and the time until all is over, in seconds."""
    turns: list[float] = []
    delays = iter((4, 20, 100))  # a busy machine takes long to schedule a million
    while not turns:
        loop = maker()
        try:
            turns = loop.run_until_complete(_turns(loop, what, next(delays)))
        finally:
            loop.close()
    return max(after - before for before, after in pairwise(turns)), turns[-1] - turns[0]


async def _turns(loop: Any, what: str, delay: float) -> list[float]:
    """Return when each turn began, and the end; nothing if the timers fell due while they were scheduled."""
    turns: list[float] = []
    left = [MILLION]
    over = False

    def turn() -> None:
        turns.append(time.perf_counter())
        if not over:
            loop.call_soon(turn)

    def fire() -> None:
        left[0] -= 1

    when = loop.time() + delay
    handles = [loop.call_at(when, fire) for _ in range(MILLION)]
    if loop.time() > when - 0.5:
        return []
    if what == "cancelled":
        for handle in handles:
            handle.cancel()
    handles.clear()
    turn()
    if what == "cancelled":
        for _ in range(3):  # it is the next turns that clear up
            await asyncio.sleep(0.01)
    else:
        await asyncio.sleep(max(0, when - loop.time() - 0.2))
        turns[:] = [time.perf_counter()]
        while left[0]:
            await asyncio.sleep(0)
    over = True
    return [*turns, time.perf_counter()]

"""One recording through the wheel, through asyncio's heap and through heapq: who fires what, in which millisecond."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

from benchmarks.timers.interleaved import clock
from benchmarks.timers.simulated_loop import SimulatedLoop
from benchmarks.timers.workloads.trace import CANCEL, Fired, Trace, tick_of


def through_wheel(trace: Trace, wheel: Any) -> tuple[int, Fired]:
    """Return the nanoseconds of CPU time and what fired. A deadline is a tick of one millisecond, rounded up."""
    steps = [[(timer, us if us == CANCEL else tick_of(us)) for timer, us in step] for step in trace.steps]
    handles = [0] * trace.timers
    schedule, cancel, advance = wheel.schedule, wheel.cancel, wheel.advance
    fired: Fired = []
    start = clock()
    for now, step in enumerate(steps):
        for timer in advance(now):
            fired.append((now, timer))
        for timer, deadline in step:
            if deadline == CANCEL:
                cancel(handles[timer])
            else:
                handles[timer] = schedule(deadline, timer)
    return clock() - start, fired


def through_asyncio(trace: Trace) -> tuple[int, Fired]:
    """The same by `call_at`, `TimerHandle.cancel` and a turn of the loop each millisecond; deadlines as recorded."""
    steps = [[(timer, us if us == CANCEL else us / 1e6) for timer, us in step] for step in trace.steps]
    handles: list[Any] = [None] * trace.timers
    fired: Fired = []

    def fire(timer: int) -> None:
        fired.append((now, timer))

    loop = SimulatedLoop()
    call_at, turn = loop.call_at, loop.turn
    start = clock()
    for now, step in enumerate(steps):
        loop.seconds = now / 1e3
        turn()
        for timer, deadline in step:
            if deadline == CANCEL:
                handles[timer].cancel()
            else:
                handles[timer] = call_at(deadline, fire, timer)
    took = clock() - start
    loop.close()
    return took, fired


def through_heapq(trace: Trace) -> tuple[int, Fired]:
    """The same through a heap of tuples; a cancelled timer is only marked, and dropped when it comes up."""
    cancelled: set[int] = set()
    heap: list[tuple[int, int]] = []
    fired: Fired = []
    start = clock()
    for now, step in enumerate(trace.steps):
        now_us = now * 1000
        while heap and heap[0][0] <= now_us:
            timer = heappop(heap)[1]
            if timer in cancelled:
                cancelled.discard(timer)
            else:
                fired.append((now, timer))
        for timer, deadline in step:
            if deadline == CANCEL:
                cancelled.add(timer)
            else:
                heappush(heap, (deadline, timer))
    return clock() - start, fired


def difference(trace: Trace, one: Fired, other: Fired) -> str | None:
    """Say how two replays differ, or None: both must fire the timers the recording fired, in the same milliseconds.

    Within one millisecond asyncio leaves the order open, so there it is not compared.
    """
    if {timer for _, timer in one} != trace.fired:
        return "the timers that fired are not those of the recording"
    if len(one) != len(trace.fired):
        return "a timer fired twice"
    if [ms for ms, _ in one] != [ms for ms, _ in other]:
        return "timers fired in other milliseconds"
    if sorted(one) != sorted(other):
        return "other timers fired in a millisecond"
    return None

"""The timeout workload: every timer gets the same delay, and 95 % are restarted or cancelled before it is over."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any

from benchmarks.timers.interleaved import Stages, clock

TOUCHES = 300  # connections heard from in a tick: half restart their timer, half end and make room for a new one
LIFETIMES = 3  # touches of a connection in one delay, on average: exp(-3) = 5 % are not heard from


@dataclass(frozen=True)
class Plan:
    """`size` connections in steady state; `turns` says who restarts and who is replaced, tick by tick."""

    size: int
    delay: int
    deadlines: list[int]
    turns: list[tuple[list[int], list[int]]]


def plan(size: int, ticks: int = 1000) -> Plan:
    """Choose at random who is heard from."""
    source = random.Random(size)
    delay = LIFETIMES * size // TOUCHES
    ages = (-math.log(1 - source.random() * (1 - math.exp(-LIFETIMES))) / LIFETIMES for _ in range(size))
    deadlines = [max(1, math.ceil(delay * (1 - age))) for age in ages]
    heard = (source.sample(range(size), TOUCHES) for _ in range(ticks))
    return Plan(size, delay, deadlines, [(who[: TOUCHES // 2], who[TOUCHES // 2 :]) for who in heard])


def through(serve: Callable[[Plan, list[int]], tuple[int, int]], plan: Plan) -> Stages:
    """Return what it took for each timer that was restarted, replaced or that expired."""
    expired: list[int] = []
    took, turns = serve(plan, expired)
    assert turns == len(plan.turns)
    return {"timeouts": (took, turns * TOUCHES + len(expired))}


def wheel(make: Callable[[], Any], plan: Plan, expired: list[int]) -> tuple[int, int]:
    """A wheel: `reschedule` in place, and a cancelled timer is gone."""
    wheel, delay = make(), plan.delay
    schedule, reschedule, cancel, advance = wheel.schedule, wheel.reschedule, wheel.cancel, wheel.advance
    handles = [schedule(deadline, timer) for timer, deadline in enumerate(plan.deadlines)]
    now = 0
    gc.collect()
    start = clock()
    for restarted, replaced in plan.turns:
        now += 1
        for timer in advance(now):
            expired.append(timer)
            handles[timer] = schedule(now + delay, timer)
        for timer in restarted:
            reschedule(handles[timer], now + delay)
        for timer in replaced:
            cancel(handles[timer])
            handles[timer] = schedule(now + delay, timer)
    return clock() - start, now


def heapq(plan: Plan, expired: list[int]) -> tuple[int, int]:
    """A heap of tuples: a timer is valid while its number is the one its connection has."""
    delay, numbers = plan.delay, count()
    current = list(range(plan.size))
    heap = [(deadline, next(numbers), timer) for timer, deadline in enumerate(plan.deadlines)]
    heapify(heap)
    now = 0
    gc.collect()
    start = clock()
    for restarted, replaced in plan.turns:
        now += 1
        while heap[0][0] <= now:
            _, number, timer = heappop(heap)
            if current[timer] == number:
                expired.append(timer)
                current[timer] = number = next(numbers)
                heappush(heap, (now + delay, number, timer))
        for timers in (restarted, replaced):
            for timer in timers:
                current[timer] = number = next(numbers)
                heappush(heap, (now + delay, number, timer))
    return clock() - start, now

"""pywheel.timeout against asyncio.timeout, one after the other in a task, on each loop.

Beside them stands what asyncio.timeout cannot do without: the loop's `call_at` and its cancel, or the `sleep(0)` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, Stages, clock
from benchmarks.timers.peers.peer import nothing
from benchmarks.timers.settings import QUICK
from benchmarks.timers.test_event_loop import loops

CALLS = 2_000 if QUICK else 10_000


@pytest.mark.parametrize("kind", loops())
def test_timeouts_in_sequence(interleaved: Interleaved, kind: str) -> None:
    stages = {
        "pywheel.timeout": partial(_timeouts, pywheel.timeout),
        "asyncio.timeout": partial(_timeouts, asyncio.timeout),
        "floor": _floor,
    }
    with asyncio.Runner(loop_factory=loops()[kind]) as runner:
        runs = {name: partial(_in_a_task, runner, make) for name, make in stages.items()}
        interleaved.run(runs, rounds=5 if QUICK else 21, workload=f"on {kind}")


def _in_a_task(runner: asyncio.Runner, stages: Callable[[], Awaitable[Stages]]) -> Stages:
    async def main() -> Stages:
        await asyncio.sleep(0.005)  # for what the loop has put off
        return await stages()

    return runner.run(main())


async def _timeouts(timeout: Callable[[float], Any]) -> Stages:
    start = clock()
    for _ in range(CALLS):
        async with timeout(10):
            pass
    empty = clock() - start
    await asyncio.sleep(0.005)
    start = clock()
    for _ in range(CALLS):
        async with timeout(10):
            await asyncio.sleep(0)
    return {"timeout": (empty, CALLS), "timeout around sleep(0)": (clock() - start, CALLS)}


async def _floor() -> Stages:
    loop = asyncio.get_running_loop()
    start = clock()
    for _ in range(CALLS):
        loop.call_at(loop.time() + 10, nothing).cancel()
    alone = clock() - start
    await asyncio.sleep(0.005)
    start = clock()
    for _ in range(CALLS):
        await asyncio.sleep(0)
    return {"timeout": (alone, CALLS), "timeout around sleep(0)": (clock() - start, CALLS)}

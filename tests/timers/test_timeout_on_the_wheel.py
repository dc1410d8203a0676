"""timeout on EventLoop: its timer stands on the wheel, and whatever a subclass or a test has changed counts."""

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest

from tests.timers.loops import turn


async def for_ever(timeout):
    async with timeout:
        await asyncio.get_running_loop().create_future()


async def test_one_timer_stands_on_the_wheel_while_the_block_is_open_and_none_after(pywheel, loop):
    def whens():
        return [handle.when() for handle in loop._scheduled]

    assert whens() == []
    async with pywheel.timeout(5) as timeout:
        assert whens() == [timeout.when()] == [5]
        timeout.reschedule(7)
        assert whens() == [7]
        timeout.reschedule(None)
        assert whens() == []
        timeout.reschedule(8)
    assert whens() == []


async def test_it_ends_at_its_time_and_not_a_nanosecond_before(pywheel, loop, clock):
    task = loop.create_task(for_ever(pywheel.timeout_at(1)))
    await asyncio.sleep(0)
    clock.advance(0.999_999_999)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    clock.advance(1e-9)
    await asyncio.wait([task])
    assert type(task.exception()) is TimeoutError


async def test_a_time_that_was_replaced_is_used(pywheel, loop):
    loop.time = lambda: 41.0
    async with pywheel.timeout(1) as timeout:
        assert timeout.when() == 42.0


async def test_nan_is_refused_as_by_call_at_and_leaves_no_timer(pywheel, loop):
    with pytest.raises(ValueError, match="NaN"):
        async with pywheel.timeout(float("nan")):
            pass
    assert loop._scheduled == []


def test_a_loop_that_is_closed_with_an_open_block_lets_go_of_it(pywheel, clock):
    loop = pywheel.EventLoop(clock=clock)
    loop.set_exception_handler(lambda loop, context: None)
    task = loop.create_task(for_ever(pywheel.timeout_at(5)))
    alive = weakref.ref(task)
    turn(loop)
    loop.close()
    with suppress(RuntimeError):  # the end of a block that nobody ends
        del task
    del loop
    gc.collect()
    assert alive() is None

"""timeout on EventLoop: its timer stands on the wheel, and whatever a subclass or a test has changed counts."""

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest


def test_one_timer_stands_on_the_wheel_while_the_block_is_open_and_none_after(pywheel, loop):
    async def main():
        counts = [len(loop._scheduled)]
        async with pywheel.timeout(5) as timeout:
            counts.append(len(loop._scheduled))
            assert [handle.when() for handle in loop._scheduled] == [timeout.when()]
            timeout.reschedule(7)
            assert [handle.when() for handle in loop._scheduled] == [7]
            timeout.reschedule(None)
            counts.append(len(loop._scheduled))
            timeout.reschedule(8)
        return [*counts, len(loop._scheduled)]

    assert loop.run_until_complete(main()) == [0, 1, 0, 0]


def test_it_ends_at_its_time_and_not_a_nanosecond_before(pywheel, loop, clock):
    async def block():
        async with pywheel.timeout(1):
            await loop.create_future()

    async def main():
        task = loop.create_task(block())
        await asyncio.sleep(0)
        clock.advance(0.999_999_999)
        for _ in range(3):
            await asyncio.sleep(0)
        assert not task.done()
        clock.advance(1e-9)
        await asyncio.wait([task])
        return task.exception()

    assert type(loop.run_until_complete(main())) is TimeoutError


@pytest.mark.parametrize("debug", [False, True])
def test_the_task_that_is_ready_when_its_time_is_up_leaves_in_time(pywheel, loop, clock, debug):
    async def main():
        async with pywheel.timeout(1) as timeout:
            clock.advance(2)
            await asyncio.sleep(0)  # the timer is taken off the wheel behind this task
        await asyncio.sleep(0)
        return timeout.expired(), asyncio.current_task().cancelling()

    loop.set_debug(debug)
    loop.slow_callback_duration = 1_000
    assert loop.run_until_complete(main()) == (False, 0)


def test_a_time_that_was_overridden_is_used(pywheel):
    class Loop(pywheel.EventLoop):
        def time(self):
            return 41.0

    async def main():
        async with pywheel.timeout(1) as timeout:
            return timeout.when()

    with asyncio.Runner(loop_factory=Loop) as runner:
        assert runner.run(main()) == 42.0


def test_nan_is_refused_as_by_call_at_and_leaves_no_timer(pywheel, loop):
    async def main():
        with pytest.raises(ValueError, match="NaN"):
            async with pywheel.timeout(float("nan")):
                pass
        return loop._scheduled

    assert loop.run_until_complete(main()) == []


def test_a_loop_that_is_closed_with_an_open_block_lets_go_of_it(pywheel, clock):
    async def block():
        async with pywheel.timeout(5):
            await asyncio.get_running_loop().create_future()

    loop = pywheel.EventLoop(clock=clock)
    loop.set_exception_handler(lambda loop, context: None)
    task = loop.create_task(block())
    alive = weakref.ref(task)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    with suppress(RuntimeError):  # the end of a block that nobody ends
        del task
    del loop
    gc.collect()
    assert alive() is None

"""timeout and timeout_at, on every loop, beyond CPython's own tests of them.

The twin is asyncio's own, so each fact is shown of that as well.
"""

import asyncio
import copy
import sys
import time
import weakref
from contextlib import suppress

import pytest

FAR = 1_000  # seconds, which nobody waits for
SOON = 0.001


async def for_ever():
    await asyncio.get_running_loop().create_future()


# ---- in time, and not ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("as_asyncio_does_now")
@pytest.mark.parametrize("delay", [SOON, -float("inf")])
async def test_when_time_is_up_the_block_raises_a_timeout_error_because_of_a_cancellation(pywheel, each_way, delay):
    timeout = pywheel.timeout(delay)
    with pytest.raises(TimeoutError) as caught:
        async with timeout:
            await for_ever()
    assert asyncio.current_task().cancelling() == 0
    assert timeout.expired()
    error = caught.value
    assert type(error.__cause__) is asyncio.CancelledError
    assert error.__context__ is error.__cause__
    assert error.args == ()


@pytest.mark.parametrize("when", [10**9, 1e9, None, -1])
async def test_timeout_at_gives_back_the_when_that_it_got(pywheel, each_way, when):
    async with pywheel.timeout_at(when) as timeout:
        assert timeout.when() is when


# ---- who is meant ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [FAR, 0])
async def test_a_cancellation_from_outside_is_not_converted_though_time_may_be_up_as_well(pywheel, each_way, delay):
    timeout = pywheel.timeout(delay)
    each_way.call_soon(asyncio.current_task().cancel)
    with pytest.raises(asyncio.CancelledError):
        async with timeout:
            await for_ever()
    assert asyncio.current_task().uncancel() == 0
    assert timeout.expired() is (delay == 0)


@pytest.mark.parametrize("delay", [0, FAR])
@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyError(1), ExceptionGroup("two", [ValueError(), OSError()])])
async def test_what_else_leaves_the_block_is_raised_as_it_is(pywheel, each_way, delay, error):
    async def leave():
        async with pywheel.timeout(delay):
            try:
                await asyncio.sleep(0)
            finally:
                raise error

    error = copy.copy(error)  # a new one has no context
    with pytest.raises(type(error)) as caught:
        await leave()
    assert caught.value is error
    told = delay == 0 and sys.version_info >= (3, 13)
    assert type(error.__context__) is (TimeoutError if told else asyncio.CancelledError if delay == 0 else type(None))


async def test_a_timer_that_falls_due_while_the_block_ends_counts_as_in_asyncio(pywheel, each_way):
    async def outcome(make):
        timeout = make(0.002)
        error = None
        try:
            async with timeout:
                entered_in_time = each_way.time() < timeout.when()
                time.sleep(0.004)  # the loop cannot know yet
                await asyncio.sleep(0)
        except TimeoutError as raised:
            error = type(raised)
        await asyncio.sleep(0)
        if not entered_in_time:  # it fell due before the block began
            return await outcome(make)
        return error, timeout.expired(), asyncio.current_task().cancelling()

    assert await asyncio.create_task(outcome(pywheel.timeout)) == await asyncio.create_task(outcome(asyncio.timeout))


# ---- memory ----------------------------------------------------------------------------------------------------------


async def leave(make, how):
    """Leave a block, and return what tells whether its Timeout lives."""
    timeout = make(0 if how == "late" else FAR)
    with suppress(TimeoutError, KeyError):
        async with timeout:
            timeout.reschedule(timeout.when())
            if how == "late":
                await for_ever()
            if how == "raising":
                raise KeyError
    return weakref.ref(timeout)


@pytest.mark.parametrize("how", ["in time", "raising", "late"])
async def test_a_timeout_is_gone_with_its_block_without_the_garbage_collector(pywheel, each_loop, no_collector, how):
    alive = await leave(pywheel.timeout, how)
    await asyncio.sleep(0)  # asyncio drops a callback that was cancelled in its turn
    assert alive() is None


# ---- reschedule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [FAR, None, 0])
async def test_reschedule_moves_the_time(pywheel, each_way, first):
    later = each_way.time() + FAR
    async with pywheel.timeout(first) as timeout:
        for when in (later, None, later + 1, None, later):
            timeout.reschedule(when)
            assert timeout.when() == when
            await asyncio.sleep(0)
        with suppress(asyncio.CancelledError):
            timeout.reschedule(each_way.time() - 1)
            await asyncio.sleep(0)
        assert timeout.expired()


# ---- misuse ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("as_asyncio_does_now")
def test_without_a_loop_it_is_an_error_that_says_so(pywheel):
    with pytest.raises(RuntimeError, match=r"^no running event loop$"):
        pywheel.timeout(1)
    timeout = pywheel.timeout_at(1)
    with pytest.raises(RuntimeError, match=r"^no running event loop$"):
        next(timeout.__aenter__().__await__())
    assert repr(timeout) == "<Timeout [created]>"


async def test_leaving_without_having_entered_is_an_error(pywheel, each_way):
    with pytest.raises(AssertionError):
        await pywheel.timeout(1).__aexit__(None, None, None)


@pytest.mark.parametrize("argument", ["x", [], 1j, 10**400], ids=lambda value: repr(value)[:10])
@pytest.mark.parametrize("name", ["timeout", "timeout_at"])
async def test_what_is_no_time_is_refused_as_by_asyncio(pywheel, each_way, name, argument):
    async def outcome(make):
        try:
            async with make(argument):
                pass
        except (TypeError, OverflowError) as error:
            return type(error)
        return None

    assert await outcome(getattr(pywheel, name)) is await outcome(getattr(asyncio, name))


def test_a_long_chain_of_timeouts_is_released(pywheel):
    """The deadline may be any object, another one of them, too."""
    timeout = None
    for _ in range(200_000):
        timeout = pywheel.timeout_at(timeout)
    del timeout

"""timeout and timeout_at, on every loop, beyond CPython's own tests of them.

The twin is asyncio's own, so each fact is shown of that as well.
"""

import asyncio
import gc
import sys
import time
import weakref
from contextlib import suppress

import pytest

FAR = 1_000  # seconds, which nobody waits for
SOON = 0.001


async def for_ever():
    await asyncio.get_running_loop().create_future()


async def cancelled_in(timeout):
    """Have the task cancelled from outside while time may be up as well."""
    async with timeout:
        asyncio.get_running_loop().call_soon(asyncio.current_task().cancel)
        await for_ever()


# ---- in time, and not ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("as_asyncio_does_now")
@pytest.mark.parametrize("delay", [SOON, -float("inf")])
def test_when_time_is_up_the_block_raises_a_timeout_error_because_of_a_cancellation(
    pywheel, each_loop, run_each, delay
):
    async def main():
        timeout = pywheel.timeout(delay)
        with pytest.raises(TimeoutError) as caught:
            async with timeout:
                await for_ever()
        assert asyncio.current_task().cancelling() == 0
        return timeout, caught.value

    timeout, error = run_each(main())
    assert timeout.expired()
    assert type(error.__cause__) is asyncio.CancelledError
    assert error.__context__ is error.__cause__
    assert error.args == ()


def test_timeout_at_gives_back_the_when_that_it_got(pywheel, run_each):
    async def main(when):
        timeout = pywheel.timeout_at(when)
        async with timeout:
            return timeout.when()

    for when in (10**9, 1e9, None, -1):
        assert run_each(main(when)) is when


# ---- who is meant ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [FAR, 0])
def test_a_cancellation_from_outside_is_not_converted_though_time_may_be_up_as_well(pywheel, run_each, delay):
    async def main():
        timeout = pywheel.timeout(delay)
        with pytest.raises(asyncio.CancelledError):
            await cancelled_in(timeout)
        assert asyncio.current_task().uncancel() == 0
        return timeout.expired()

    assert run_each(main()) is (delay == 0)


@pytest.mark.parametrize("delay", [0, FAR])
def test_what_else_leaves_the_block_is_raised_as_it_is(pywheel, run_each, delay):
    class Own(asyncio.CancelledError):
        pass

    async def main(error):
        async with pywheel.timeout(delay):
            try:
                await asyncio.sleep(0)
            finally:
                raise error

    for error in (ZeroDivisionError(), KeyError(1), ExceptionGroup("two", [ValueError(), OSError()])):
        with pytest.raises(type(error)) as caught:
            run_each(main(error))
        assert caught.value is error
        told = delay == 0 and sys.version_info >= (3, 13)
        assert type(error.__context__) is (
            TimeoutError if told else asyncio.CancelledError if delay == 0 else type(None)
        )


def test_a_timer_that_falls_due_while_the_block_ends_counts_as_in_asyncio(pywheel, run_each):
    async def main(make, delay):
        timeout = make(delay)
        error = None
        try:
            async with timeout:
                entered_in_time = asyncio.get_running_loop().time() < timeout.when()
                time.sleep(2 * delay)  # the loop cannot know yet
                await asyncio.sleep(0)
        except TimeoutError as raised:
            error = type(raised)
        await asyncio.sleep(0)
        return entered_in_time, (error, timeout.expired(), asyncio.current_task().cancelling())

    def outcome(make):
        while not (found := run_each(main(make, 0.002)))[0]:  # it fell due before the block began
            pass
        return found[1]

    assert outcome(pywheel.timeout) == outcome(asyncio.timeout)


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
def test_a_timeout_is_gone_with_its_block_without_the_garbage_collector(pywheel, each_loop, how):
    async def main():
        alive = await leave(pywheel.timeout, how)
        await asyncio.sleep(0)  # asyncio drops a callback that was cancelled in its turn
        return alive()

    gc.collect()
    gc.disable()
    try:
        assert each_loop.run_until_complete(main()) is None
    finally:
        gc.enable()


# ---- reschedule ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [FAR, None, 0])
def test_reschedule_moves_the_time(pywheel, each_loop, run_each, first):
    async def main():
        later = each_loop.time() + FAR
        async with pywheel.timeout(first) as timeout:
            for when in (later, None, later + 1, None, later):
                timeout.reschedule(when)
                assert timeout.when() == when
                await asyncio.sleep(0)
            with suppress(asyncio.CancelledError):
                timeout.reschedule(each_loop.time() - 1)
                await asyncio.sleep(0)
            return timeout.expired()

    assert run_each(main())


# ---- misuse ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("as_asyncio_does_now")
def test_without_a_loop_it_is_an_error_that_says_so(pywheel):
    with pytest.raises(RuntimeError, match=r"^no running event loop$"):
        pywheel.timeout(1)
    timeout = pywheel.timeout_at(1)
    with pytest.raises(RuntimeError, match=r"^no running event loop$"):
        next(timeout.__aenter__().__await__())
    assert repr(timeout) == "<Timeout [created]>"


def test_leaving_without_having_entered_is_an_error(pywheel, run_each):
    async def main():
        with pytest.raises(AssertionError):
            await pywheel.timeout(1).__aexit__(None, None, None)

    run_each(main())


def test_what_is_no_time_is_refused_as_by_asyncio(pywheel, run_each):
    async def main(make, argument):
        try:
            async with make(argument):
                pass
        except (TypeError, OverflowError) as error:
            return type(error)
        return None

    for argument in ("x", [], 1j, 10**400):
        for ours, theirs in ((pywheel.timeout, asyncio.timeout), (pywheel.timeout_at, asyncio.timeout_at)):
            assert run_each(main(ours, argument)) is run_each(main(theirs, argument))


def test_a_long_chain_of_timeouts_is_released(pywheel):
    """The deadline may be any object, another one of them, too."""
    timeout = None
    for _ in range(200_000):
        timeout = pywheel.timeout_at(timeout)
    del timeout

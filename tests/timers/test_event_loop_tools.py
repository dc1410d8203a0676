"""EventLoop: tools that use asyncio's private attributes, and replace methods of the class."""

import asyncio
import heapq
import time
from unittest import mock

import pytest

from tests.timers.loops import nothing


def stock_turn(loop):
    """One turn as asyncio's own loop makes it, which pops what is due from `_scheduled`."""
    loop.call_soon(nothing)  # so that it does not wait
    asyncio.BaseEventLoop._run_once(loop)


def nested_turn(loop):
    """One turn as those tools make it that let a callback run the loop again: they ask for the list once."""
    scheduled = loop._scheduled
    while scheduled and scheduled[0]._when <= loop.time():
        loop._ready.append(heapq.heappop(scheduled))
    for _ in range(len(loop._ready)):
        if loop._ready:
            handle = loop._ready.popleft()
            if not handle._cancelled:
                handle._run()


# ---- `_scheduled` ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", [stock_turn, nested_turn])
def test_a_turn_that_pops_the_timers_itself_runs_each_of_them_once(loop, clock, turn):
    calls = []
    for number in (3, 1, 0, 2, 4):
        loop.call_at(number, calls.append, number)
    loop.call_at(1, calls.append, "cancelled").cancel()
    clock.advance(3)
    for _ in range(3):
        turn(loop)
    assert calls == [0, 1, 2, 3]
    assert [handle.when() for handle in loop._scheduled] == [4]
    clock.advance(1)
    turn(loop)
    turn(loop)
    assert calls == [0, 1, 2, 3, 4]
    assert loop._scheduled == []


def test_a_callback_that_runs_turns_of_its_own_runs_no_timer_twice(loop, clock):
    calls = []

    def callback(number):
        calls.append(number)
        loop.call_later(0, calls.append, number + 10)
        nested_turn(loop)

    for number in range(3):
        loop.call_at(1, callback, number)
    clock.advance(1)
    for _ in range(5):
        nested_turn(loop)
    assert sorted(calls) == [0, 1, 2, 10, 11, 12]


# ---- methods of the class -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("whose", ["its own", "its base's"])
def test_time_that_is_replaced_in_the_class_counts_from_then_on(pywheel, whose):
    class Loop(pywheel.EventLoop):
        pass

    loop = Loop()
    loop.call_later(1, nothing)
    for _ in range(2):
        with mock.patch.object(Loop if whose == "its own" else pywheel.EventLoop, "time", return_value=1e6):
            assert loop.call_later(5, nothing).when() == 1e6 + 5
        assert loop.call_later(5, nothing).when() <= time.monotonic() + 5
    loop.close()


def test_call_at_and_call_soon_that_are_replaced_in_the_class_are_called_from_then_on(pywheel):
    loop = pywheel.EventLoop()
    loop.call_later(1, nothing)
    loop.call_soon(nothing)
    with mock.patch.object(pywheel.EventLoop, "call_at") as call_at:
        loop.call_later(5, nothing)
    assert call_at.call_count == 1
    with mock.patch.object(pywheel.EventLoop, "_call_soon") as call_soon:
        loop.call_soon(nothing)
    assert call_soon.call_count == 1
    loop.close()

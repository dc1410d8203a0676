"""EventLoop: subclasses and patched instances are obeyed, as with asyncio's loop."""

import asyncio
import math
from contextlib import suppress

import pytest

from tests.timers.loops import Impatient, turn


@pytest.fixture(params=["subclass", "instance"])
def overridden(request, pywheel):
    """Make a loop with a method of its own, by either way people use."""
    made = []

    def make(name, method, selector=None):
        if request.param == "subclass":
            loop = type("Mine", (pywheel.EventLoop,), {name: method})(selector)
        else:
            loop = pywheel.EventLoop(selector)
            setattr(loop, name, method.__get__(loop))
        made.append(loop)
        return loop

    yield make
    for loop in made:
        loop.close()


def test_time_may_stand_still_go_back_and_be_far_ahead(overridden):
    now = [1000.0]
    loop = overridden("time", lambda self: now[0])
    calls = []
    turn(loop)
    now[0] = 10.0
    for delay in (3, 1, 2):
        loop.call_later(delay, calls.append, delay)
    turn(loop)
    assert calls == []
    now[0] = 12.0
    turn(loop)
    assert calls == [1, 2]
    now[0] = 1e15
    turn(loop)
    assert calls == [1, 2, 3]
    now[0] = 0
    loop.call_later(1, calls.append, 4)
    turn(loop)
    now[0] = math.nextafter(1, 0)
    turn(loop)
    assert calls == [1, 2, 3]
    now[0] = 1
    turn(loop)
    assert calls == [1, 2, 3, 4]


def test_a_selector_that_lets_time_go_by_moves_it_to_each_deadline(overridden):
    """What test suites do for virtual time: `select` adds what it would have waited."""

    class Selector(Impatient):
        now = 0.3

        def select(self, timeout=None):
            self.now += timeout
            return super().select(timeout)

    async def main():
        start = loop.time()
        for seconds in (0.1, 1e-9, 3_600, 0.000_000_5, 1e-7, 86_400 * 30):
            before = loop.time()
            await asyncio.sleep(seconds)
            assert loop.time() >= before + seconds
        assert loop.time() - start < 86_400 * 30 + 3_601
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 7)

    selector = Selector()
    loop = overridden("time", lambda self: selector.now, selector)
    loop.run_until_complete(main())


def test_call_at_of_ones_own_is_what_call_later_calls(overridden):
    def call_at(self, when, callback, *args, context=None):
        asked.append(args)
        return original(self, when, callback, *args, context=context)

    asked = []
    original = overridden("nothing", lambda self: None).__class__.__mro__[1].call_at
    loop = overridden("call_at", call_at)
    calls = []
    loop.call_later(0, calls.append, 1)
    loop.call_at(0, calls.append, 2)
    turn(loop)
    assert asked == [(1,), (2,)]
    assert sorted(calls) == [1, 2]


@pytest.mark.parametrize("name", ["call_later", "call_soon", "_run_once", "_call_soon", "_process_events", "close"])
def test_a_method_of_ones_own_is_called_instead(overridden, pywheel, name):
    def method(self, *args, **keywords):
        asked.append(name)
        return getattr(super(kind, self), name)(*args, **keywords)

    asked, kind = [], pywheel.EventLoop
    loop = overridden(name, method)
    loop.call_soon_threadsafe(list)  # a file is ready, or the loop need not look for events
    loop.run_until_complete(asyncio.sleep(0.0001))
    loop.close()
    assert asked


def test_a_loop_that_was_never_initialised_raises_and_does_no_harm(pywheel):
    class Mine(pywheel.EventLoop):
        def __init__(self):
            pass

    loop = Mine()
    for call in (
        lambda: loop.call_soon(print),
        lambda: loop.call_later(1, print),
        lambda: loop._run_once(),
        lambda: loop._scheduled,
    ):
        with suppress(AttributeError, RuntimeError, TypeError):
            call()
    loop._closed = True


def test_a_handle_of_a_foreign_loop_can_be_cancelled(pywheel):
    """Somebody may make our handles by hand."""
    loop, stock = pywheel.EventLoop(), asyncio.SelectorEventLoop()
    kind = type(loop.call_later(1, print))
    for owner in (loop, stock):
        handle = kind(1, print, (), owner)
        if pywheel.implementation == "native" or owner is loop:
            assert not handle.cancelled()
        if pywheel.implementation == "native":
            handle.cancel()
            assert handle.cancelled()
    if pywheel.implementation == "native":
        with pytest.raises(AttributeError):
            kind.__new__(kind).cancel()
    loop.close(), stock.close()

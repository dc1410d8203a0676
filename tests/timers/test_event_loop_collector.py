"""The garbage collector and an event loop's timers: it sees nothing while the loop runs, and otherwise everything."""

import asyncio
import gc
import sys
import weakref
from contextvars import Context, ContextVar, copy_context

import pytest

from tests.timers.loops import nothing

pytestmark = pytest.mark.usefixtures("swept")
with_a_gil = pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="all are tracked then")


class Thing:
    """Can be in a cycle, and be referred to weakly."""

    def method(self, *args):
        pass


@pytest.fixture
def native(pywheel):
    """The native package alone: the twin's handles are ordinary objects."""
    if pywheel.implementation != "native":
        pytest.skip("the twin's handles are ordinary objects")
    return pywheel


@pytest.fixture
def loop(ours):
    """A loop on the clock of the system."""
    return ours


def run(loop, function):
    """Return what a function returns that is called while the loop runs."""

    async def main():
        return function()

    return loop.run_until_complete(main())


async def turns():
    """Let some time pass."""
    for _ in range(3):
        await asyncio.sleep(0.001)


def is_collected(reference):
    gc.collect()
    return reference() is None


@with_a_gil
def test_the_collector_does_not_know_of_pending_timers_while_the_loop_runs(native, loop):
    def body():
        before = contexts()
        handle = loop.call_later(100, nothing, [])
        return [gc.is_tracked(each) for each in (handle, handle._args)], contexts() - before

    def contexts():
        return sum(type(each) is Context for each in gc.get_objects())

    assert run(loop, body) == ([False] * 2, 0)


def test_a_loop_that_stopped_gives_its_timers_back(loop):
    def body():
        kept = [loop.call_later(100, nothing, []) for _ in range(300)]
        kept[0].cancel(), kept[1].cancel()
        return kept[2:]

    for _ in range(3):
        for handle in run(loop, body):
            assert all(gc.is_tracked(each) for each in (handle, handle._args, handle._context))


@pytest.mark.parametrize("part", ["callback", "argument", "context", "handle"])
@pytest.mark.filterwarnings("ignore:unclosed event loop:ResourceWarning")
def test_a_loop_in_a_cycle_with_its_pending_timers_is_collected(pywheel, part):
    def make():
        loop, thing = pywheel.EventLoop(), Thing()
        thing.loop = loop

        def body():
            context = copy_context()
            if part == "context":
                ContextVar("held").set(thing)
            callback = thing.method if part == "callback" else nothing
            handle = loop.call_later(100, callback, *[thing] * (part == "argument"))
            if part == "handle":
                thing.handle, handle = handle, None
                loop.thing = thing
            return context

        run(loop, body)
        return weakref.ref(thing), weakref.ref(loop)

    gone = make()
    gc.collect()
    assert [is_collected(each) for each in gone] == [True, True]


@pytest.mark.parametrize("part", ["callback", "argument", "context"])
@pytest.mark.parametrize("end", ["ran", "cancelled", "raised"])
async def test_a_cycle_through_a_timer_that_ended_is_collected_while_the_loop_runs(loop, part, end):
    loop.set_exception_handler(lambda *_: None)

    def fail(*args):
        raise ValueError

    async def make():
        thing, callback = Thing(), fail if end == "raised" else nothing
        if part == "context":
            ContextVar("held").set(thing)
        thing.handle = loop.call_later(
            0, thing.method if part == "callback" else callback, *[thing] * (part == "argument")
        )
        if end == "cancelled":
            thing.handle.cancel()
        return weakref.ref(thing)

    gone = await loop.create_task(make())
    await turns()
    assert is_collected(gone)


async def test_a_cycle_through_a_timer_that_the_exception_handler_kept_is_collected(loop):
    class Failing(Thing):
        def fail(self):
            raise ValueError

    def keep(loop, context):
        context["handle"]._callback.__self__.handle = context["handle"]
        kept.append(True)

    async def make():
        thing = Failing()
        loop.call_later(0, thing.fail)
        return weakref.ref(thing)

    kept = []
    loop.set_exception_handler(keep)
    gone = await loop.create_task(make())
    while not kept:
        await asyncio.sleep(0.001)
    assert is_collected(gone)


@pytest.mark.parametrize("end", ["ran", "cancelled"])
async def test_arguments_that_somebody_took_from_a_timer_are_collected(loop, end):
    things = [Thing()]
    gone = weakref.ref(things[0])
    handle = loop.call_later(0, nothing, things)
    things.append(handle._args)
    if end == "cancelled":
        handle.cancel()
    del things, handle
    await turns()
    assert is_collected(gone)


@pytest.mark.filterwarnings("ignore:unclosed event loop:ResourceWarning")
def test_a_loop_with_timers_that_are_due_but_did_not_run_is_collected(pywheel):
    def make():
        def fail():
            raise KeyboardInterrupt

        def body():
            loop.call_at(1, fail)
            loop.call_at(1, nothing, thing)
            clock.advance(1)

        clock = pywheel.ManualClock()
        loop, thing = pywheel.EventLoop(clock=clock), Thing()
        thing.loop = loop
        loop.call_soon(body)
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        assert len(loop._ready) >= 1
        return weakref.ref(thing), weakref.ref(loop)

    gone = make()
    gc.collect()
    assert [is_collected(each) for each in gone] == [True, True]


def test_turns_that_others_take_over_leave_every_handle_to_the_collector(pywheel):
    class Loop(pywheel.EventLoop):
        pass

    loop = Loop()

    def body():
        first = loop.call_later(100, nothing)
        Loop._run_once = lambda self: super(Loop, self)._run_once()
        second = loop.call_later(100, nothing)
        return gc.is_tracked(first), gc.is_tracked(second)

    assert run(loop, body) == (True, True)
    loop.close()


async def test_the_context_of_a_pending_timer_can_be_replaced(loop):
    variable = ContextVar("where")
    context = copy_context()
    context.run(variable.set, "there")
    seen = []

    handles = [loop.call_later(0, lambda: seen.append(variable.get())) for _ in range(2)]
    handles[0]._context = context
    del handles[1]._context
    assert not hasattr(handles[1], "_context")
    handles[1]._context = context
    await turns()
    assert seen == ["there", "there"]


def test_a_new_handle_has_nothing_of_one_that_was_released(loop):
    def body():
        loop.set_debug(True)
        old = loop.call_later(100, nothing, 1, context=copy_context())
        repr(old)
        old._repr, old._source_traceback, old._when = "old", ["old"], 5
        old.cancel()
        loop.set_debug(False)
        del old
        loop._scheduled.clear()
        context = copy_context()
        new = loop.call_at(7.5, nothing, context=context)
        assert (new._callback, new._args, new._context, new._loop) == (nothing, (), context, loop)
        assert (new._when, new.when(), new._cancelled, new._scheduled) == (7.5, 7.5, False, True)
        assert new._repr is new._source_traceback is None

    run(loop, body)


def test_more_handles_than_are_kept_for_later_come_and_go(loop):
    def body():
        for _ in range(3):
            handles = [loop.call_later(100, nothing, number) for number in range(3_000)]
            for handle in handles[::2]:
                handle.cancel()
            assert [handle._args for handle in handles[1::2]] == [(number,) for number in range(1, 3_000, 2)]
            for handle in handles:
                handle.cancel()

    run(loop, body)
    assert loop._scheduled == []

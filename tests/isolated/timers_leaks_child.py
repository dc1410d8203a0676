"""Do the same thing with timers many times, and as many times again: the second half must not need more memory."""

import asyncio
import contextvars
import gc
import sys
import tracemalloc
from contextlib import suppress
from functools import cache, partial

from tests.implementations import load_package
from tests.isolated.leaks_child import ALLOWED, Item, grows_by, settled

SHARED = Item()
CONTEXT = contextvars.copy_context()


def nothing(*args):
    """A callback."""


def fail(*args):
    raise ZeroDivisionError


def quiet(timer, error):
    """Handle an error."""


def make(pywheel, **options):
    clock = pywheel.ManualClock()
    return clock, pywheel.Timers(clock, on_error=quiet, **options)


def fire(pywheel):
    clock, timers = make(pywheel)
    for number in range(40):
        timers.call_later(number * number / 1000, nothing, *[SHARED] * (number % 3))
        timers.call_at(number, fail, SHARED, context=CONTEXT if number % 2 else None)
        timers.call_every(number + 1, nothing, Item(), first=0, jitter=0.3)
    clock.advance(3)
    clock.jump(50)
    timers.run_due(7)
    timers.run_due()
    (
        timers.pending(),
        timers.next_deadline(),
        len(timers),
        timers.time(),
        timers.tick,
        timers.clock,
        list(map(repr, timers.pending())),
    )


def change(pywheel):
    _, timers = make(pywheel)
    made = [timers.call_later(number, nothing, SHARED, number) for number in range(50)]
    made += [timers.call_every(5, nothing, SHARED, context=CONTEXT) for _ in range(20)]
    for number, timer in enumerate(made):
        timer.reset(), timer.reset(number), timer.reschedule(number / 3), timer.when(), timer.remaining()
        timer.active(), timer.cancelled(), timer.callback, timer.args
        if number % 2:
            timer.cancel(), timer.cancel(), timer.reset()
    timers.stop()
    for timer in made:
        with suppress(pywheel.TimersStopped):
            timer.reset()


def act_in_callbacks(pywheel):
    clock, timers = make(pywheel)

    def act(number):
        if number % 3 == 0:
            made[number].reset()
        if number % 3 == 1:
            made[number - 1].cancel()
        if number % 5 == 0:
            raise KeyboardInterrupt
        timers.call_later(0, nothing)

    made = [timers.call_later(number / 10, act, number) for number in range(30)]
    made += [timers.call_every(1, act, number, missed="burst") for number in range(1, 30)]
    for _ in range(20):
        with suppress(KeyboardInterrupt):
            clock.jump(1)
            timers.run_due(20)


def coroutines(pywheel):
    async def coroutine():
        """Never begun."""

    _, timers = make(pywheel)
    for _ in range(10):
        timers.call_later(0, coroutine)
    timers.run_due()


def cycles(pywheel):
    _, timers = make(pywheel)
    item = Item()
    item.timers = timers
    item.timer = timers.call_later(1, nothing, item)
    item.other = timers.call_every(1, timers.run_due, context=contextvars.copy_context())
    timers.on_error = item
    gc.collect(0)


def crowd(pywheel):
    """More timers than a driver has as ordinary objects for the collector."""
    clock, timers = make(pywheel)
    for number in range(1_000):
        timers.call_later(100 + number, nothing)
    held = []
    for number in range(20):
        item = Item()
        item.timers = timers
        for arguments in ((), (number,), (item, number), (item,) * 8):
            timers.call_later(number % 3, item.__init__)
            timers.call_later(number % 3, nothing, *arguments)
            held.append(timers.call_later(50, item.__init__, *arguments))
            held.append(timers.call_every(1, nothing, *arguments, context=CONTEXT))
    for timer in held[::3]:
        timer.cancel()
    clock.advance(3)
    held += timers.pending()
    [(timer.callback, timer.args) for timer in held]
    if len(held) % 2:
        timers._forget()
    timers.stop()


def refuse(pywheel):
    clock, timers = make(pywheel, max_pending=1)
    timer = timers.call_later(5, nothing)
    for call in (
        partial(timers.call_later, "x", nothing, SHARED),
        partial(timers.call_later, 1, SHARED),
        partial(timers.call_later, 1e300, nothing, SHARED),
        partial(timers.call_later, 1, nothing, SHARED),
        partial(timers.call_later, 1, nothing, SHARED, context=SHARED),
        partial(timers.call_every, 1, nothing, SHARED, missed=SHARED),
        partial(timers.call_every, 1, nothing, SHARED, first="x"),
        partial(timers.call_every, 1, nothing, SHARED),
        partial(timer.reset, "x"),
        partial(timers.run_due, -1),
        partial(clock.advance, -1),
        partial(pywheel.Timers, SHARED),
        partial(pywheel.Timers, tick=0),
        partial(pywheel.Timers, max_pending=0),
        partial(pywheel.Timers, on_error=SHARED),
        pywheel.Timer,
        timer.__reduce__,
        timers.__reduce__,
    ):
        with suppress(TypeError, ValueError, pywheel.WheelFull):
            call()
            raise AssertionError(f"{call} was accepted")


@cache
def loop_of(pywheel):
    """A loop for good: asyncio's sets of loops and tasks grow now and then."""
    return pywheel.EventLoop()


def timeouts(pywheel):
    async def block(delay, item):
        with suppress(TimeoutError, ZeroDivisionError):
            async with pywheel.timeout(delay) as timeout:
                timeout.reschedule(timeout.when())
                if delay == 0:
                    await asyncio.get_running_loop().create_future()
                if delay == 1:
                    fail(item, repr(timeout))
        for misuse in (partial(timeout.reschedule, item), lambda: next(timeout.__aenter__().__await__())):
            with suppress(RuntimeError):
                misuse()

    async def main():
        await asyncio.gather(*(block(delay, SHARED) for delay in (0, 1, 2, 3.5, None)))

    loop_of(pywheel).run_until_complete(main())


SCENES = [fire, change, act_in_callbacks, coroutines, cycles, refuse]
NATIVE = [crowd, timeouts]  # the twin has timers of one kind, and its timeouts are asyncio's own


def main(implementation):
    pywheel = load_package(implementation)
    gc.freeze()  # collections walk what the scenes make alone
    tracemalloc.start()
    references = sys.getrefcount(SHARED), sys.getrefcount(CONTEXT), sys.getrefcount(nothing)
    for scene in SCENES + NATIVE * (implementation == "native"):
        # Caches of the interpreter grow now and then; a leak grows every time.
        assert any(grows_by(scene, pywheel) < ALLOWED for _ in range(6)), f"{scene.__name__} leaks"
    loop_of(pywheel).close()
    settled()
    assert references == (sys.getrefcount(SHARED), sys.getrefcount(CONTEXT), sys.getrefcount(nothing))


if __name__ == "__main__":
    main(*sys.argv[1:])

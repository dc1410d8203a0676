"""Do the same thing many times, and as many times again: the second half must not need more memory."""

import gc
import sys
import tracemalloc
from contextlib import suppress

import numpy as np

from pywheel import WheelFull
from tests.core.model import MAX_TICK
from tests.implementations import load

ROUNDS = 20
ALLOWED = 550  # bytes; one forgotten int a round would be 560

ERRORS = (TypeError, ValueError, OverflowError, WheelFull, AttributeError)


class Item:
    pass


SHARED = Item()
# A type's cache of methods keeps the names that were looked up, and CPython's own C code looks some up by a new string
# each time (asyncio's `result`): thousands fit in, and would look like a leak.
clear_caches = getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache  # from 3.13 on, and before


def live_and_die(core):
    for wheel in (core.TimingWheel(5), core.KeyWheel(5, max_pending=300)):
        for number in range(60):
            wheel.schedule(7 + number * number, 2**40 + number)
        wheel.schedule(MAX_TICK, 2**63)


def every_call(core):
    wheel = core.TimingWheel()
    for _ in range(3):
        handles = [wheel.schedule(wheel.now + number * 37, (number, Item())) for number in range(50)]
        for number, handle in enumerate(handles):
            wheel.reschedule(handle, wheel.now + 10**number % 10**15)
            if number % 3 == 0:
                wheel.cancel(handle)
            wheel.get(handle), wheel.deadline(handle), handle in wheel, wheel.next_deadline()
        list(wheel), len(wheel), sys.getsizeof(wheel), wheel.now
        wheel.advance(wheel.now + 500, 10)
        wheel.advance(wheel.now + 500)
    wheel._check()
    wheel.clear()


def shared_item(core):
    wheel = core.TimingWheel()
    handles = [wheel.schedule(number, SHARED) for number in range(50)]
    for handle in handles[::5]:
        wheel.cancel(handle)
        wheel.get(handles[1])
    wheel.advance(20)
    wheel.advance(30, 3)
    wheel.clear()
    wheel.schedule(3, SHARED)
    wheel.__init__()
    wheel.schedule(3, SHARED)


def cycles(core):
    wheel = core.TimingWheel()
    item = Item()
    item.wheel, item.handle = wheel, wheel.schedule(3, item)
    wheel.schedule(3, wheel)
    gc.collect(0)


def subclasses(core):
    class Mine(core.TimingWheel):
        pass

    wheel = Mine()
    wheel.schedule(3, Mine)
    wheel.attribute = wheel
    gc.collect()


def bulk(core):
    wheel = core.KeyWheel()
    handles = wheel.schedule_many(np.arange(200) * 17, np.arange(200))
    wheel.reschedule_many(handles[::3], np.full(67, 900, np.int32))
    wheel.cancel_many(handles[::7])
    wheel.cancel_many(list(range(5)))
    wheel.advance_many(900, 10)
    wheel.advance_many(1000)
    wheel.advance_many(MAX_TICK)


def bulk_of_items(core):
    wheel = core.TimingWheel()
    handles = wheel.schedule_many(range(0, 3400, 17), [[number] for number in range(200)])
    wheel.cancel_many(handles[::7])
    wheel.cancel_many(range(5))
    wheel.advance(900, 10)
    refuse(wheel, schedule_many=[([1, 2], [[]]), ([1, -2], [[], SHARED]), (None, [1])])
    refuse(wheel, cancel_many=[([handles[1], "abc"],), (None,)])


def refuse(wheel, **refused):
    """Call methods, each with some tuples of arguments that it refuses."""
    for name, calls in refused.items():
        for arguments in calls:
            with suppress(*ERRORS):
                getattr(wheel, name)(*arguments)


def errors(core):
    """Every way in which a call can be refused."""
    for cls in (core.TimingWheel, core.KeyWheel):
        wheel = cls(5, max_pending=1)
        wheel.schedule(7, 1)
        refuse(
            wheel,
            schedule=[(8, 2), (-1, 2), (2**63, 2), (1.5, 2), ("x", SHARED)],
            reschedule=[("x", 2), (1, 10**5000)],
            cancel=[(None,)],
            advance=[(4,), (9, -1)],
            deadline=[(2.0,)],
            __contains__=[(2.0,)],
            __init__=[(-1,)],
            __reduce__=[()],
        )
        with suppress(ValueError):
            wheel.__init__(1, max_pending=0)


def bulk_errors(core):
    wheel = core.KeyWheel(5, max_pending=1)
    wheel.schedule(7, 1)
    refuse(
        wheel,
        schedule=[(5, -1)],
        schedule_many=[([1, 2], [1]), ([1, 2], [1, 2]), (np.ones(3), [1]), ([1, -2], [1, 3])],
        reschedule_many=[([[1]], [1])],
        cancel_many=[("abc",), (None,)],
        advance_many=[(4,), (2.5,)],
    )


SCENES = [live_and_die, every_call, shared_item, cycles, subclasses, bulk, bulk_of_items, errors, bulk_errors]


def settled():
    clear_caches()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def grows_by(scene, core):
    """Return the bytes that the second half kept."""
    for _ in range(ROUNDS):
        scene(core)
    before = settled()
    for _ in range(ROUNDS):
        scene(core)
    return settled() - before


def one_wheel_grows_by(core):
    """The same for a single wheel that is used on and on."""
    wheel = core.TimingWheel()

    def rounds():
        for _ in range(10 * ROUNDS):
            handles = [wheel.schedule(wheel.now + 5 + number, number) for number in range(10)]
            wheel.reschedule(handles[0], wheel.now + 3000)
            for handle in handles[::2]:
                wheel.cancel(handle)
            wheel.advance(wheel.now + 7)

    sizes = []
    for _ in range(16):
        rounds()
        sizes.append(settled())
    return min(sizes[8:]) - min(sizes[:8])  # what is stale is dropped now and then


def main(implementation):
    core = load(implementation)
    gc.freeze()  # collections walk what the scenes make alone
    tracemalloc.start()
    references = sys.getrefcount(SHARED)
    for scene in SCENES:
        # Caches of the interpreter grow now and then; a leak grows every time.
        assert any(grows_by(scene, core) < ALLOWED for _ in range(12)), f"{scene.__name__} leaks"
    # It has had sixteen thousand timers meanwhile.
    assert any(one_wheel_grows_by(core) < 10 * ALLOWED for _ in range(4)), "one wheel grows as it is used on and on"
    gc.collect()
    assert sys.getrefcount(SHARED) == references, "references to an item were lost or forgotten"


if __name__ == "__main__":
    main(*sys.argv[1:])

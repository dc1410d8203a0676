"""When a TimingWheel lets go of its items."""

import gc
import random
import sys
import weakref

import pytest

from pywheel import WheelFull
from tests.core.items import Item, Recorded
from tests.core.model import MAX_TICK


@pytest.mark.parametrize("many", [False, True])
def test_cancel_releases_the_item_before_it_returns(any_core, many):
    wheel, released = any_core.TimingWheel(), []
    handle = wheel.schedule(300, Recorded("a", released))
    assert (wheel.cancel_many([handle]) == [True]) if many else (wheel.cancel(handle) is True)
    assert released == ["a"]


@pytest.mark.parametrize("use", ["come and go", "move", "go late"])
def test_a_wheel_keeps_its_size_while_timers(wheel_class, use):
    wheel = wheel_class()
    empty = sys.getsizeof(wheel)
    handles = [wheel.schedule(30_000, 7) for _ in range(10)]
    for number in range(6_000):
        if use == "move":
            wheel.reschedule(handles[number % 10], 30_000 + number)
        elif use == "go late":
            late = wheel.schedule(0, 7)
            assert wheel.advance(0, 0) == []
            assert wheel.cancel(late)
        else:
            wheel.cancel(wheel.schedule(30_000 + number, 7))
        if number == 2_000:
            settled = sys.getsizeof(wheel)
    assert sys.getsizeof(wheel) <= 2 * settled
    for number in range(1000):
        wheel.schedule(number, 7)
    assert sys.getsizeof(wheel) >= empty + 1000 * 16


def test_the_wheel_holds_one_reference_to_an_item_and_advance_hands_it_over(any_core):
    item = Item()
    before = sys.getrefcount(item)
    wheel = any_core.TimingWheel()
    handle = wheel.schedule(5, item)
    assert sys.getrefcount(item) > before
    assert wheel.get(handle) is item
    wheel.reschedule(handle, 500)
    wheel.reschedule(handle, 3)
    wheel._check()
    expired = wheel.advance(5)
    assert expired == [item]
    assert expired[0] is item
    del expired
    assert sys.getrefcount(item) == before


def test_without_an_item_the_item_is_none(any_core):
    wheel = any_core.TimingWheel()
    handle = wheel.schedule(5)
    assert wheel.get(handle) is None
    assert wheel.get(handle, 7) is None
    assert wheel.advance(5) == [None]


def fill_in_any_order(wheel, released):
    """Items named in the order of their nodes, on every level, in the overdue slot and held back."""
    chance = random.Random(9)
    names = iter(range(100_000))
    for _ in range(50):
        wheel.schedule(wheel.now + 1, Recorded(next(names), released))
    for _ in range(500):
        distance = chance.choice([-5, 0, 3, 300, 70_000, 2**30, 2**50])
        wheel.schedule(max(0, wheel.now + distance), Recorded(next(names), released))
    wheel.advance(wheel.now + 1, 0)
    for _ in range(50):
        wheel.schedule(chance.choice([0, MAX_TICK]), Recorded(next(names), released))
    return next(names)


@pytest.mark.parametrize("end", ["clear", "init", "del"])
def test_the_end_releases_the_items(any_core, end):
    """In the order of memory, unless the twin is dropped."""
    wheel, released = any_core.TimingWheel(1000), []
    count = fill_in_any_order(wheel, released)
    if end == "clear":
        wheel.clear()
    elif end == "init":
        wheel.__init__()
    wheel = None
    in_order = end == "clear" or any_core.__name__.endswith("_wheel")
    assert (released if in_order else sorted(released)) == list(range(count))


def test_a_refused_schedule_keeps_no_reference(core):
    item = Item()
    before = sys.getrefcount(item)
    wheel = core.TimingWheel(max_pending=1)
    wheel.schedule(1)
    for deadline, error in ((1, WheelFull), (-1, OverflowError), (1.5, TypeError)):
        with pytest.raises(error):
            wheel.schedule(deadline, item)
    assert sys.getrefcount(item) == before


@pytest.mark.parametrize("held_back", [False, True])
def test_a_cycle_through_a_wheel_is_collected(any_core, held_back):
    wheel = any_core.TimingWheel()
    items = [Item() for _ in range(5)]
    for item in items:
        item.wheel, item.handle = wheel, wheel.schedule(300, item)
    if held_back:
        assert len(wheel.advance(300, 2)) == 2
    seen = [weakref.ref(item) for item in (*items, wheel)]
    del item, items, wheel
    gc.collect()
    assert [ref() for ref in seen] == [None] * 6


def test_the_collector_frees_nothing_that_a_living_wheel_holds(any_core):
    wheel = any_core.TimingWheel()
    items = [Item() for _ in range(100)]
    for number, item in enumerate(items):
        item.wheel = wheel
        item.name = number
        wheel.schedule(300 * number, item)
    del items, item
    gc.collect()
    wheel._check()
    assert [item.name for item in wheel.advance(10**6)] == list(range(100))


def test_a_subclass_with_attributes_is_collected_too(any_core):
    wheel = type("Mine", (any_core.TimingWheel,), {})()
    wheel.itself = wheel
    wheel.schedule(9, wheel)
    seen = weakref.ref(wheel)
    del wheel
    gc.collect()
    assert seen() is None


def test_a_subclass_that_does_not_call_init_is_an_empty_wheel_at_zero(any_wheel_class):
    class Bare(any_wheel_class):
        def __init__(self):
            pass

    wheel = Bare()
    assert (wheel.now, len(wheel), wheel.max_pending, wheel.next_deadline()) == (0, 0, None, None)
    wheel.schedule(3, 7)
    wheel._check()
    assert wheel.advance(3) == [7]


def test_weak_references_to_a_wheel_work(any_wheel_class):
    gone = []
    wheel = any_wheel_class()
    seen = weakref.ref(wheel, gone.append)
    assert seen() is wheel
    del wheel
    gc.collect()
    assert gone == [seen]

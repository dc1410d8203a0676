"""The calls of TimingWheel that take sequences: they do what a loop of single calls does, for all or for none."""

import weakref

import numpy as np
import pytest

from tests.core.items import Item
from tests.core.model import MAX_TICK


def test_cancel_many_says_which_were_pending(core):
    wheel = core.TimingWheel()
    a, b, c = wheel.schedule_many([1, 5, 5], "abc")
    wheel.advance(1)
    assert wheel.cancel_many([a, b, b, 0, -1, 2**70]) == [False, True, False, False, False, False]
    wheel._check()
    assert list(wheel) == [c]


@pytest.mark.parametrize("make", [list, tuple, iter, np.array], ids=lambda make: make.__name__)
def test_any_ints_are_welcome(core, make):
    wheel = core.TimingWheel()
    handles = wheel.schedule_many(make([0, MAX_TICK]), make([1, 2]))
    assert wheel.cancel_many(make(handles[:1])) == [True]
    assert wheel.advance(MAX_TICK) == [2]


def test_cancel_many_releases_the_items_before_it_returns(core):
    wheel = core.TimingWheel()
    items = [Item() for _ in range(100)]
    seen = [weakref.ref(item) for item in items]
    handles = wheel.schedule_many(range(100), items)
    del items
    assert all(item() is not None for item in seen)
    assert all(wheel.cancel_many(handles))
    assert all(item() is None for item in seen)


def test_a_finaliser_may_call_the_wheel_amid_cancel_many(core):
    class Loud:
        def __del__(self):
            wheel._check()
            left.append(len(wheel))
            wheel.schedule(5, "new")

    wheel, left = core.TimingWheel(), []
    handles = wheel.schedule_many([3] * 10, [Loud() for _ in range(10)])
    assert wheel.cancel_many(handles) == [True] * 10
    wheel._check()
    assert left == list(range(10))
    assert wheel.advance(5) == ["new"] * 10


BAD_TICKS = [([5, 1.0], TypeError), ([5, None], TypeError), ([5, -1], OverflowError), ([5, 2**63], OverflowError)]


@pytest.mark.parametrize(("ticks", "error"), [*BAD_TICKS, ([5], ValueError), ([5, 6, 7], ValueError), (5, TypeError)])
def test_a_bad_deadline_schedules_none(core, ticks, error):
    wheel, item = core.TimingWheel(), Item()
    seen = weakref.ref(item)
    with pytest.raises(error):
        wheel.schedule_many(ticks, [item, item])
    del item
    assert seen() is None
    assert len(wheel) == 0
    wheel._check()


@pytest.mark.parametrize("bad", [1.0, "1", None])
def test_a_bad_handle_cancels_none(core, bad):
    wheel = core.TimingWheel()
    handle = wheel.schedule(5, "a")
    with pytest.raises(TypeError):
        wheel.cancel_many([handle, bad])
    assert wheel.advance(5) == ["a"]


def test_a_deadline_whose_index_calls_the_wheel_is_read_before_the_first_is_scheduled(core):
    class Odd:
        def __index__(self):
            ticks.clear()
            wheel.schedule(1, "between")
            return 7

    wheel = core.TimingWheel()
    ticks = [3, Odd(), 2]
    handles = wheel.schedule_many(ticks, "abc")
    assert [wheel.deadline(handle) for handle in handles] == [3, 7, 2]
    assert wheel.advance(9) == ["between", "c", "a", "b"]


def test_too_many_for_the_wheel_are_none(core):
    wheel = core.TimingWheel(max_pending=3)
    wheel.schedule(1)
    with pytest.raises(core.WheelFull, match="none of them"):
        wheel.schedule_many([1, 2, 3], [1, 2, 3])
    assert len(wheel) == 1
    assert len(wheel.schedule_many([1, 2], [1, 2])) == 2

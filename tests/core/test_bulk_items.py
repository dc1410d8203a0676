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

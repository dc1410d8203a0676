"""Memory taken before the timers come."""

import sys

import numpy as np
import pytest

from pywheel import WheelFull
from tests.core.snapshot import snapshot

COUNT = 5_000


def test_reserve_changes_nothing_that_a_program_can_see_but_the_size(wheel_class):
    wheel = wheel_class(3)
    handles = [wheel.schedule(10 + number % 7, number) for number in range(100)]
    wheel.cancel(handles[5])
    before = snapshot(wheel, handles)
    assert wheel.reserve(COUNT) is None
    assert snapshot(wheel, handles) == before
    wheel._check()
    expired = [number for number in sorted(range(100), key=lambda number: number % 7) if number != 5]
    assert wheel.advance(20) == expired


@pytest.mark.parametrize("count", [0, 1, 99, 100])
def test_room_for_fewer_than_there_are_is_there_already(wheel_class, count):
    wheel = wheel_class()
    for number in range(100):
        wheel.schedule(number, number)
    size = sys.getsizeof(wheel)
    wheel.reserve(count)
    assert sys.getsizeof(wheel) == size


@pytest.mark.parametrize("pending", [0, 1, 70, 900])
def test_what_was_reserved_is_enough_for_that_many_timers(native_core, pending):
    for wheel in (native_core.TimingWheel(), native_core.KeyWheel()):
        wheel.schedule(1, 0)  # the slots have their memory from the first timer on
        wheel.advance(1)
        handles = [wheel.schedule(10, number) for number in range(pending)]
        for handle in handles[::3]:
            wheel.cancel(handle)
        wheel.reserve(COUNT)
        size = sys.getsizeof(wheel)
        assert size >= 32 * COUNT
        while len(wheel) < COUNT:
            wheel.schedule(10, 1)
        assert sys.getsizeof(wheel) == size
        wheel._check()


@pytest.mark.parametrize("count", [COUNT, 50 * COUNT])
def test_clear_gives_back_what_was_reserved(native_core, count):
    for wheel in (native_core.TimingWheel(), native_core.KeyWheel()):
        empty = sys.getsizeof(wheel)
        wheel.reserve(count)
        wheel.clear()
        assert sys.getsizeof(wheel) == empty
        wheel._check()


def test_more_than_the_indices_of_a_pool_cannot_be_reserved(native_core):
    wheel = native_core.KeyWheel()
    size = sys.getsizeof(wheel)
    for count in (2**31, 2**63, 2**70):
        with pytest.raises(WheelFull):
            wheel.reserve(count)
    assert sys.getsizeof(wheel) == size


@pytest.mark.parametrize(
    ("count", "error", "match"),
    [
        (11, WheelFull, "max_pending"),
        (2**70, WheelFull, "max_pending"),
        (-1, ValueError, "count must be 0 or more"),
        (-(2**70), ValueError, "count must be 0 or more"),
        *((count, TypeError, "count must be an int") for count in (1.0, "1", None, np.float64(2))),
    ],
)
def test_what_cannot_be_reserved(wheel_class, count, error, match):
    wheel = wheel_class(max_pending=10)
    for fitting in (True, np.int8(5), 10):
        wheel.reserve(fitting)
    with pytest.raises(error, match=match):
        wheel.reserve(count)

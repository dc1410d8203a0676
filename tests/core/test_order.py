"""Timers of one tick come out in the order of their last schedule or reschedule, however many there are."""

import random

import pytest

from tests.often import often

SIZES = [1, 2, 16, 17, 24, 25, 63, 64, 65, 255, 256, 257, 1000, 10_000]
EACH_SIZE = pytest.mark.parametrize("sizes", often([SIZES, [100_000]]), ids=["small", "large"])


def difference(expired, expected):
    """Return where two lists differ first, or None: pytest would compare a hundred thousand lines for minutes."""
    expired = list(expired)
    for index, pair in enumerate(zip(expired, expected, strict=False)):
        if pair[0] != pair[1]:
            return index, *pair
    return None if len(expired) == len(expected) else f"{len(expired)} expired, not {len(expected)}"


def shuffled(size, seed):
    numbers = list(range(size))
    random.Random(seed).shuffle(numbers)
    return numbers


@EACH_SIZE
def test_a_batch_on_one_tick_comes_out_in_order_of_schedule(any_wheel_class, sizes):
    for size in sizes:
        wheel = any_wheel_class()
        for number in range(size):
            wheel.schedule(70_000, number)
        wheel._check()
        assert wheel.advance(69_999) == []
        assert difference(wheel.advance(70_000), range(size)) is None


@EACH_SIZE
def test_a_batch_comes_out_in_the_order_it_was_rescheduled_in(any_wheel_class, sizes):
    """To a later tick, to an earlier one, and to the same: whatever a wheel may do lazily."""
    for size in sizes:
        wheel = any_wheel_class()
        handles = [wheel.schedule((500, 70_000, 2**40)[number % 3], number) for number in range(size)]
        order = shuffled(size, seed=size)
        for number in order:
            assert wheel.reschedule(handles[number], 70_000)
        wheel._check()
        assert wheel.advance(69_999) == []
        assert difference(wheel.advance(70_000), order) is None


def test_past_deadlines_in_any_order_come_out_sorted(any_wheel_class):
    for size in SIZES:
        wheel = any_wheel_class(2**62)
        for number in shuffled(size, seed=2):
            wheel.schedule(number * number // 3, number * number // 3)
        assert difference(wheel.advance(2**62), [number * number // 3 for number in range(size)]) is None


def test_a_reset_timer_goes_behind_the_others_of_its_tick(any_wheel_class):
    wheel = any_wheel_class()
    first, *_ = [wheel.schedule(5, number) for number in range(3)]
    assert wheel.reschedule(first, 5) is True
    assert wheel.advance(5) == [1, 2, 0]


@pytest.mark.parametrize("size", often([1, 16, 17, 65, 1000, 100_000], few=5))
def test_the_bulk_calls_keep_array_order(any_core, size):
    wheel = any_core.KeyWheel()
    handles = wheel.schedule_many([70_000] * size, range(size))
    assert len(set(handles.tolist())) == size
    order = shuffled(size, seed=3)
    assert wheel.reschedule_many(handles[order], [80_000] * size).all()
    cancelled = set(order[::7])
    assert wheel.cancel_many(handles[order[::7]]).all()
    wheel._check()
    assert wheel.advance_many(79_999).tolist() == []
    expected = [number for number in order if number not in cancelled]
    assert difference(wheel.advance_many(80_000).tolist(), expected) is None

"""How many timers a wheel may hold."""

import pytest

from pywheel import WheelFull


def test_exactly_max_pending_timers_fit(wheel_class):
    wheel = wheel_class(max_pending=3)
    assert wheel.max_pending == 3
    for number in range(3):
        wheel.schedule(10, number)
    with pytest.raises(WheelFull):
        wheel.schedule(10, 3)
    assert len(wheel) == 3
    wheel._check()
    assert wheel.advance(10) == [0, 1, 2]


def test_a_timer_that_goes_makes_room_for_exactly_one_and_a_full_wheel_reschedules(wheel_class):
    wheel = wheel_class(max_pending=3)
    handles = [wheel.schedule(10 + number, number) for number in range(3)]

    def one_fits(item):
        wheel.schedule(20, item)
        with pytest.raises(WheelFull):
            wheel.schedule(20, 99)

    wheel.cancel(handles[1])
    one_fits(3)
    assert wheel.reschedule(handles[2], 13) is True
    assert wheel.advance(10) == [0]
    one_fits(4)
    assert wheel.advance(20, 1) == [2]  # the others are held back, and take room
    one_fits(5)
    assert wheel.advance(20) == [3, 4, 5]


def test_bad_arguments_are_found_before_the_wheel_is_found_full(wheel_class):
    wheel = wheel_class(max_pending=1)
    wheel.schedule(10, 0)
    with pytest.raises(OverflowError):
        wheel.schedule(-1, 1)
    with pytest.raises(OverflowError):
        wheel.schedule_many([1, 2, -1], [1, 2, 3])


def test_max_pending_below_one_is_a_value_error(wheel_class):
    for most in (0, -1, -(10**5000)):
        with pytest.raises(ValueError, match="max_pending"):
            wheel_class(max_pending=most)


def test_a_huge_max_pending_is_as_good_as_none(wheel_class):
    for most in (2**63 - 1, 2**63, 2**64, 10**5000):
        wheel = wheel_class(max_pending=most)
        assert wheel.max_pending == most
        wheel.schedule(1, 7)
        assert wheel.advance(1) == [7]


def test_schedule_many_takes_all_or_none(wheel_class):
    wheel = wheel_class(max_pending=10)
    wheel.schedule_many([5] * 7, range(7))
    with pytest.raises(WheelFull, match="none of them"):
        wheel.schedule_many([5] * 4, range(4))
    assert len(wheel) == 7
    wheel._check()
    assert len(wheel.schedule_many([6] * 3, [7, 8, 9])) == 3
    with pytest.raises(WheelFull):
        wheel.schedule_many([6], [10])
    assert len(wheel.schedule_many([], [])) == 0
    assert wheel.advance(6) == list(range(10))


def test_a_pool_without_an_index_left_is_full(tiny_pool):
    for wheel in (tiny_pool.TimingWheel(), tiny_pool.KeyWheel()):
        handles = [wheel.schedule(10 + number, number) for number in range(50)]
        for _ in range(3):
            with pytest.raises(WheelFull, match="index"):
                wheel.schedule(10, 50)
        wheel._check()
        assert wheel.reschedule(handles[0], 2**60) is True
        assert wheel.cancel(handles[0]) is True
        wheel.schedule(10, 50)
        with pytest.raises(WheelFull):
            wheel.schedule(10, 51)
        assert wheel.advance(100) == [50, *range(1, 50)]


def use_up(wheel):
    while True:
        wheel.cancel(wheel.schedule(10, 1))


def test_a_pool_whose_generations_are_used_up_is_full(tiny_pool):
    for wheel in (tiny_pool.TimingWheel(), tiny_pool.KeyWheel()):
        with pytest.raises(WheelFull, match="index"):
            use_up(wheel)
        with pytest.raises(WheelFull, match="indices"):
            wheel.reserve(1)
        wheel._check()
        wheel.clear()
        wheel.schedule(10, 2)
        assert wheel.advance(10) == [2]


def test_schedule_many_beyond_the_last_index_takes_none(tiny_pool):
    wheel = tiny_pool.KeyWheel()
    wheel.schedule_many(range(1, 41), range(40))
    with pytest.raises(WheelFull):
        wheel.schedule_many([5] * 11, range(11))
    assert len(wheel) == 40
    wheel._check()
    wheel.schedule_many([5] * 10, range(40, 50))
    assert wheel.advance(100) == [0, 1, 2, 3, 4, *range(40, 50), *range(5, 40)]

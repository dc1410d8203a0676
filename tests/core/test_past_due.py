"""Deadlines at or before now: the next advance, once."""

import pytest


@pytest.mark.parametrize("deadline", [0, 1, 999, 1000])
def test_a_past_deadline_expires_at_the_next_advance_even_to_the_same_tick(any_wheel_class, deadline):
    wheel = any_wheel_class(1000)
    handle = wheel.schedule(deadline, 7)
    assert len(wheel) == 1
    assert wheel.deadline(handle) == deadline
    assert wheel.next_deadline() == 1000
    wheel._check()
    assert wheel.advance(1000) == [7]
    assert wheel.advance(1000) == []
    assert handle not in wheel


def test_past_deadlines_come_out_by_deadline_then_in_order_of_schedule(any_wheel_class):
    wheel = any_wheel_class(1000)
    for number, deadline in enumerate([1000, 3, 500, 3, 0, 1000, 500]):
        wheel.schedule(deadline, number)
    assert wheel.advance(1000) == [4, 1, 3, 2, 6, 0, 5]


def test_past_and_future_ones_come_out_together_in_order(any_wheel_class):
    wheel = any_wheel_class(1000)
    for deadline in (1002, 1000, 1001, 7):
        wheel.schedule(deadline, deadline)
    assert wheel.advance(5000) == [7, 1000, 1001, 1002]


def test_a_timer_moved_to_the_past_expires_at_the_next_advance(any_wheel_class):
    wheel = any_wheel_class(1000)
    handle = wheel.schedule(10**9, 7)
    assert wheel.reschedule(handle, 3) is True
    assert wheel.deadline(handle) == 3
    assert wheel.advance(1000) == [7]


def test_a_past_timer_moved_to_the_future_waits(any_wheel_class):
    wheel = any_wheel_class(1000)
    handle = wheel.schedule(3, 7)
    assert wheel.reschedule(handle, 1001) is True
    assert wheel.advance(1000) == []
    assert wheel.advance(1001) == [7]


def test_a_timer_scheduled_at_now_by_whoever_runs_the_last_one_comes_one_advance_later(any_wheel_class):
    wheel = any_wheel_class(1000)
    wheel.schedule(1000, 0)
    for number in range(5):
        assert wheel.advance(1000) == [number]
        wheel.schedule(wheel.now, number + 1)
    assert len(wheel) == 1


def test_a_cancelled_past_timer_does_not_expire(any_wheel_class):
    wheel = any_wheel_class(1000)
    first, second, third = (wheel.schedule(3, number) for number in range(3))
    assert wheel.cancel(second) is True
    wheel._check()
    assert wheel.advance(1000) == [0, 2]
    assert wheel.cancel(first) is wheel.cancel(third) is False

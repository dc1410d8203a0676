"""The tick a wheel stands at, and deadlines at or before it."""

import pytest

from tests.core.model import MAX_TICK


def test_now_cannot_be_set(any_wheel_class):
    wheel = any_wheel_class(5)
    with pytest.raises(AttributeError):
        wheel.now = 6
    assert wheel.now == 5


def test_time_backwards_is_an_error_that_changes_nothing(any_wheel_class):
    wheel = any_wheel_class(100)
    handle = wheel.schedule(50, 7)
    wheel.schedule(150, 8)
    for earlier in (99, 50, 0):
        with pytest.raises(ValueError, match="forwards"):
            wheel.advance(earlier)
        assert (wheel.now, len(wheel), handle in wheel) == (100, 2, True)
    wheel._check()
    assert wheel.advance(100) == [7]
    assert wheel.advance(150) == [8]


def test_init_called_again_with_a_bad_start_changes_nothing(any_wheel_class):
    wheel = any_wheel_class(100, max_pending=3)
    wheel.schedule(150, 7)
    for start in (-1, MAX_TICK + 1, 1.5, None):
        with pytest.raises((OverflowError, TypeError)):
            wheel.__init__(start)
    with pytest.raises(ValueError, match="max_pending"):
        wheel.__init__(0, max_pending=0)
    assert (wheel.now, len(wheel), wheel.max_pending) == (100, 1, 3)
    assert wheel.advance(150) == [7]


def test_a_past_deadline_expires_at_the_next_advance_even_to_the_same_tick(any_wheel_class):
    wheel = any_wheel_class(1000)
    for deadline in (0, 1, 999, 1000):
        handle = wheel.schedule(deadline, 7)
        assert len(wheel) == 1
        assert wheel.deadline(handle) == deadline
        assert wheel.next_deadline() == 1000
        wheel._check()
        assert wheel.advance(1000) == [7]
        assert wheel.advance(1000) == []
        assert handle not in wheel

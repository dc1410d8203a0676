"""A limit holds timers back; none is lost, and none overtakes another."""

import pytest


def full_wheel(wheel_class):
    wheel = wheel_class()
    handles = [wheel.schedule(10 + number // 3, number) for number in range(9)]
    return wheel, handles


def test_portions_make_up_the_whole_in_order(any_wheel_class):
    for limit in (1, 2, 3, 4, 8, 9, 10, 2**63, 10**5000):
        wheel, _ = full_wheel(any_wheel_class)
        out = []
        while len(wheel):
            portion = wheel.advance(1000, limit)
            assert len(portion) == min(limit, 9 - len(out))
            assert wheel.now == 1000
            out += portion
            assert len(wheel) == 9 - len(out)
            wheel._check()
        assert out == list(range(9))


def test_a_negative_limit_is_an_error_that_changes_nothing(any_wheel_class):
    wheel, _ = full_wheel(any_wheel_class)
    wheel.advance(1)
    for limit in (-1, -(2**63), -(10**5000)):
        for now in (2, 1000):  # with nothing due, and with all
            with pytest.raises(ValueError, match="limit"):
                wheel.advance(now, limit)
    assert (wheel.now, len(wheel)) == (1, 9)


def test_held_back_timers_come_before_any_that_is_due_later(any_wheel_class):
    wheel, _ = full_wheel(any_wheel_class)
    assert wheel.advance(11, 2) == [0, 1]  # 2 to 5 are held back
    wheel.schedule(3, 90)  # past, and earlier than all of them
    wheel.schedule(11, 91)
    wheel.schedule(12, 92)
    wheel._check()
    assert wheel.advance(12) == [2, 3, 4, 5, 90, 91, 6, 7, 8, 92]


def test_clear_drops_what_is_held_back(any_wheel_class):
    wheel, handles = full_wheel(any_wheel_class)
    wheel.advance(1000, 4)
    wheel.clear()
    assert (wheel.now, len(wheel), wheel.next_deadline()) == (1000, 0, None)
    assert wheel.advance(1000) == []
    assert not any(handle in wheel for handle in handles)

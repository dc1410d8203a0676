"""Where a timer goes by its distance, and where wheels lose or mistime it."""

import pytest

from tests.core.model import MAX_TICK

STARTS = [0, 1, 63, 255, 256, 65_535, 65_536 + 255, 2**24 - 1, 2**30, 2**32 - 1, 2**36 + 1, 2**48 - 256, 2**56 + 65_537]
DISTANCES = sorted({base**k + near for base in (64, 256) for k in range(11) for near in (-1, 0, 1) if base**k < 2**62})


def expires_exactly_at(wheel, deadline):
    assert wheel.advance(deadline - 1) == []
    assert wheel.advance(deadline) == [7]
    assert wheel.next_deadline() is None


@pytest.mark.parametrize("start", STARTS)
def test_a_timer_at_the_edge_of_a_level_expires_on_its_tick(any_wheel_class, start):
    for distance in DISTANCES:
        if distance:
            wheel = any_wheel_class(start)
            wheel.schedule(start + distance, 7)
            expires_exactly_at(wheel, start + distance)


@pytest.mark.parametrize("level", range(8))
def test_a_deadline_on_a_slot_start_expires_on_its_tick_however_the_wheel_gets_there(any_wheel_class, level):
    size = 256**level
    deadline = 7 * size
    for stop in (1, size // 2 or 1, size, 6 * size, deadline - size, deadline - 2):
        wheel = any_wheel_class(3)
        wheel.schedule(deadline, 7)
        if 3 < stop < deadline:
            assert wheel.advance(stop) == []
        wheel._check()
        expires_exactly_at(wheel, deadline)


@pytest.mark.parametrize("edge", [2**k for k in (8, 16, 24, 30, 31, 32, 36, 40, 48, 56, 62)])
def test_near_timers_expire_while_the_clock_passes_an_edge_with_a_far_timer_parked(any_wheel_class, edge):
    wheel = any_wheel_class(edge - 100)
    wheel.schedule(min(edge + 64 * edge, MAX_TICK), 8)
    for near in range(edge - 99, edge + 101):
        wheel.schedule(near, 7)
        assert wheel.advance(near) == [7]
    assert len(wheel) == 1
    wheel._check()
    assert wheel.advance(MAX_TICK) == [8]


def test_deadlines_that_differ_only_above_bit_32_do_not_meet(any_wheel_class):
    wheel = any_wheel_class()
    ticks = [5 + (k << 32) for k in range(20)] + [5 + (1 << k) for k in range(40, 63)]
    for tick in sorted(ticks, reverse=True):
        wheel.schedule(tick, tick)
    for tick in sorted(ticks):
        assert wheel.advance(tick - 1) == []
        assert wheel.advance(tick) == [tick]


def test_the_last_tick_is_a_tick_like_any_other(any_wheel_class):
    wheel = any_wheel_class()
    wheel.schedule(MAX_TICK, 7)
    assert wheel.advance(MAX_TICK - 1) == []
    assert wheel.next_deadline() <= MAX_TICK
    assert wheel.advance(MAX_TICK) == [7]
    assert wheel.now == MAX_TICK
    wheel.schedule(MAX_TICK, 8)
    wheel._check()
    assert wheel.next_deadline() == MAX_TICK
    assert wheel.advance(MAX_TICK) == [8]
    assert wheel.advance(MAX_TICK) == []

"""Where a timer goes by its distance, and where wheels lose or mistime it."""

from itertools import product

STARTS = [0, 1, 63, 255, 256, 65_535, 65_536 + 255, 2**24 - 1, 2**30, 2**32 - 1, 2**36 + 1, 2**48 - 256, 2**56 + 65_537]
DISTANCES = sorted({base**k + near for base in (64, 256) for k in range(11) for near in (-1, 0, 1) if base**k < 2**62})


def expires_exactly_at(wheel, deadline):
    assert wheel.advance(deadline - 1) == []
    assert wheel.advance(deadline) == [7]
    assert wheel.next_deadline() is None


def test_a_timer_at_the_edge_of_a_level_expires_on_its_tick(any_wheel_class):
    for start, distance in product(STARTS, DISTANCES):
        if distance:
            wheel = any_wheel_class(start)
            wheel.schedule(start + distance, 7)
            expires_exactly_at(wheel, start + distance)


def test_a_deadline_on_a_slot_start_expires_on_its_tick_however_the_wheel_gets_there(any_wheel_class):
    for level, number in product(range(8), range(6)):
        size = 256**level
        deadline = 7 * size
        stop = (1, size // 2 or 1, size, 6 * size, deadline - size, deadline - 2)[number]
        wheel = any_wheel_class(3)
        wheel.schedule(deadline, 7)
        if 3 < stop < deadline:
            assert wheel.advance(stop) == []
        wheel._check()
        expires_exactly_at(wheel, deadline)


def test_deadlines_that_differ_only_above_bit_32_do_not_meet(any_wheel_class):
    wheel = any_wheel_class()
    ticks = [5 + (k << 32) for k in range(20)] + [5 + (1 << k) for k in range(40, 63)]
    for tick in sorted(ticks, reverse=True):
        wheel.schedule(tick, tick)
    for tick in sorted(ticks):
        assert wheel.advance(tick - 1) == []
        assert wheel.advance(tick) == [tick]

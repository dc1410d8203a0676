"""What happens when the generations of a node, or the sequence numbers, are used up: on builds where they are few."""

import random

from tests.core.model import Model


def test_a_node_used_more_often_than_it_has_generations_never_revives_a_handle(small_core):
    for wheel in (small_core.TimingWheel(), small_core.KeyWheel()):
        stale = set()
        for number in range(100):
            handle = wheel.schedule(number + 1, number)
            assert handle not in stale
            assert not any(old in wheel for old in stale)
            assert wheel.advance(number + 1) == [number]
            stale.add(handle)
        wheel._check()


def test_a_held_handle_stays_its_own_while_everything_around_it_is_used_up(small_core):
    wheel = small_core.TimingWheel()
    kept = wheel.schedule(10**6, "kept")
    for number in range(1000):
        assert wheel.cancel(wheel.schedule(10**6, number))
        assert wheel.get(kept) == "kept"
    wheel._check()
    assert wheel.advance(10**6) == ["kept"]
    assert kept not in wheel


def test_handles_stay_stale_while_clear_uses_up_the_generations(small_core):
    wheel = small_core.TimingWheel()
    stale = set()
    for number in range(7):
        handle = wheel.schedule(5, number)
        assert handle not in stale
        wheel.clear()
        assert handle not in wheel
        stale.add(handle)
        wheel._check()


def test_the_order_survives_the_sequence_starting_over(small_core):
    """Hundreds of timers on one tick, all touched again and again, while only a hundred numbers can be given."""
    chance = random.Random(5)
    wheel, model = small_core.KeyWheel(), Model()
    handles = []
    for number in range(300):
        handles.append(wheel.schedule(1000, number))
        model.schedule(handles[-1], 1000, number)
    for touch in range(3000):
        handle = chance.choice(handles)
        deadline = chance.choice([999, 1000, 1001, 70_000])
        assert wheel.reschedule(handle, deadline) is model.reschedule(handle, deadline) is True
        if touch % 100 == 0:
            wheel._check()
    for now in (999, 1000, 1001, 70_000):
        assert wheel.advance(now) == model.advance(now)


def test_held_back_timers_keep_their_place_when_the_sequence_starts_over(small_core):
    wheel = small_core.TimingWheel()
    for number in range(60):
        wheel.schedule(10, number)
    assert wheel.advance(10, 5) == list(range(5))
    restless = wheel.schedule(500, "restless")
    for deadline in range(500, 1000):
        wheel.reschedule(restless, deadline)
    wheel._check()
    for number in range(60, 70):
        wheel.schedule(10, number)
    assert wheel.advance(10) == list(range(5, 70))


def test_a_bulk_call_larger_than_the_sequence_keeps_array_order(small_core):
    wheel = small_core.KeyWheel()
    for number in range(30):
        wheel.schedule(5000, number)
    handles = wheel.schedule_many([5000] * 1000, range(30, 1030))
    wheel.reschedule_many(handles[::-1], [5000] * 1000)
    wheel._check()
    assert wheel.advance_many(5000).tolist() == [*range(30), *range(1029, 29, -1)]


def test_a_wheel_that_grows_into_eight_lists_a_slot_keeps_every_timer(small_core):
    wheel = small_core.KeyWheel()
    ticks = [(number * number * 7919) % 10**6 + 1 for number in range(400)]
    handles = []
    for number, tick in enumerate(ticks):
        handles.append(wheel.schedule(tick, number))
        if 90 < number < 110:
            wheel._check()
    for number in range(0, 400, 3):
        assert wheel.cancel(handles[number])
    wheel._check()
    expected = sorted((tick, number) for number, tick in enumerate(ticks) if number % 3)
    assert wheel.advance(10**6) == [number for _, number in expected]


def test_handles_stay_stale_when_clear_follows_on_generations_that_are_used_up(small_core):
    wheel, given = small_core.TimingWheel(), set()
    for _ in range(50):
        for number in range(20):
            handle = wheel.schedule(5, number)
            assert handle not in given
            given.add(handle)
            assert wheel.cancel(handle)
        wheel.clear()
        wheel._check()

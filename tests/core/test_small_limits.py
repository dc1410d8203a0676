"""What happens when the generations of a node, or the sequence numbers, are used up: on builds where they are few."""

import random

from tests.core.model import Model


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

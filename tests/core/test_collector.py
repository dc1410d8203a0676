"""The garbage collector running in the middle of things, with finalisers that use the wheel."""

import gc
import weakref

import pytest

from tests.core.items import Item, Meddler


@pytest.mark.usefixtures("eager_collector")
def test_items_that_are_garbage_together_with_their_wheel_may_use_it_once_more(any_core):
    errors, seen = [], []
    wheel = any_core.TimingWheel()

    def last_words(wheel):
        wheel._check()
        wheel.schedule(5, "late")
        wheel.cancel(next(iter(wheel)))
        wheel.advance(wheel.now + 1)
        wheel.clear()
        wheel._check()
        seen.append(len(wheel))

    for number in range(10):
        wheel.schedule(number, Meddler(lambda wheel=wheel: last_words(wheel), errors))
    gone = weakref.ref(wheel)
    del wheel
    gc.collect()
    assert errors == []
    assert seen
    gc.collect()
    assert gone() is None


def test_a_wheel_that_a_finaliser_brings_back_still_works(any_core):
    saved, errors = [], []
    wheel = any_core.TimingWheel(3)
    wheel.schedule(5, Meddler(lambda wheel=wheel: saved.append(wheel), errors))
    wheel.schedule(6, "kept")
    del wheel
    gc.collect()
    (wheel,) = saved
    wheel._check()
    assert wheel.now == 3
    handle = wheel.schedule(7, "new")
    assert wheel.get(handle) == "new"
    assert "new" in wheel.advance(10)
    wheel._check()
    wheel.clear()


def test_a_weak_reference_callback_that_outlives_a_dropped_wheel_finds_it_gone(any_core):
    wheel = any_core.TimingWheel()
    gone, found = weakref.ref(wheel), []
    item = Item()
    seen = weakref.ref(item, lambda _: found.append(gone()))
    wheel.schedule(5, item)
    del item, wheel
    gc.collect()
    assert seen() is None
    assert found == [None]


def test_clear_makes_nothing_that_the_collector_would_walk_all_timers_for(wheel_class):
    """Else the exit of a program with a million timers pending takes seconds."""
    wheel, begun = wheel_class(), []
    for number in range(20_000):
        wheel.schedule(number * 7919 % 60_000, number)
    gc.collect()
    note = lambda phase, _: begun.append(phase)  # noqa: E731 - the same one has to be removed
    gc.callbacks.append(note)
    wheel.clear()
    gc.callbacks.remove(note)
    assert begun == []

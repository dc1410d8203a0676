"""The garbage collector running in the middle of things, with finalisers that use the wheel."""

import gc
import weakref

import pytest

from tests.core.items import Item, Meddler


@pytest.fixture
def collections():
    """A list with an entry for each collection that begins."""
    begun = []

    def note(phase, info):
        if phase == "start":
            begun.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)


class Trash:
    """Garbage that only the collector finds, and whose finaliser then acts."""

    def __init__(self, action, errors):
        self.itself = self
        self.meddler = Meddler(action, errors)


@pytest.mark.usefixtures("eager_collector")
@pytest.mark.parametrize("limit", [None, 40])
def test_each_timer_expires_or_is_cancelled_when_finalisers_cancel_due_ones_inside_advance(any_core, limit):
    for size in (1, 20, 500):
        wheel, errors = any_core.TimingWheel(), []
        handles = [wheel.schedule(10 + number % 3, number) for number in range(size)]
        cancelled, expired = [], []

        def cancel_some(wheel=wheel, handles=handles, cancelled=cancelled, size=size):
            cancelled += [number for number in range(0, size, 2) if wheel.cancel(handles[number])]
            wheel._check()

        Trash(cancel_some, errors)
        expired += wheel.advance(20, limit)
        while len(wheel):
            expired += wheel.advance(20, limit)
        assert errors == []
        assert sorted(expired + cancelled) == list(range(size))
        wheel._check()


@pytest.mark.usefixtures("eager_collector")
@pytest.mark.parametrize("call", ["advance", "clear", "__init__", "schedule"])
def test_each_timer_comes_out_at_most_once_when_finalisers_use_the_wheel_inside_advance(any_core, call):
    wheel, errors = any_core.TimingWheel(), []
    for number in range(500):
        wheel.schedule(10, number)
    inner = []

    def act():
        if call == "advance":
            inner.extend(wheel.advance(20))  # before the other one, or in it
        elif call == "schedule":
            inner.extend(wheel.schedule(wheel.now, "new") for _ in range(300))
        else:
            getattr(wheel, call)()
        wheel._check()

    Trash(act, errors)
    outer = wheel.advance(20)
    gc.collect()
    assert errors == []
    wheel._check()
    if call == "advance":
        assert sorted(outer + inner) == list(range(500))
    elif call == "schedule":
        assert [item for item in outer + wheel.advance(wheel.now) if item != "new"] == list(range(500))
    else:
        assert outer in ([], list(range(500)))
    assert all(item is not None for item in outer)


@pytest.mark.usefixtures("eager_collector")
def test_key_wheels_too_keep_each_timer_when_finalisers_cancel_inside_advance(any_core):
    wheel, errors = any_core.KeyWheel(), []
    handles = [wheel.schedule(10, number) for number in range(500)]
    cancelled = []
    Trash(lambda: cancelled.extend(number for number in range(0, 500, 2) if wheel.cancel(handles[number])), errors)
    expired = wheel.advance(20)
    gc.collect()
    assert errors == []
    assert sorted(expired + cancelled) == list(range(500))
    Trash(lambda: wheel.schedule_many([30] * 3, [2, 4, 6]), errors)
    handles = wheel.schedule_many([40] * 500, range(500))
    Trash(lambda: wheel.cancel_many(handles[::2]), errors)
    wheel.advance_many(39)
    expired = wheel.advance_many(40).tolist()
    assert errors == []
    assert [key for key in expired if key % 2] == list(range(1, 500, 2))
    wheel._check()


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


def test_clear_makes_nothing_that_the_collector_would_walk_all_timers_for(wheel_class, collections):
    """Else the exit of a program with a million timers pending takes seconds."""
    wheel = wheel_class()
    for number in range(20_000):
        wheel.schedule(number * 7919 % 60_000, number)
    del collections[:]
    wheel.clear()
    assert collections == []

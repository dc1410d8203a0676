"""Finalisers and weak reference callbacks that call back into the wheel which is just letting their object go."""

import weakref

import pytest

from tests.core.items import Item, Meddler
from tests.core.world import MEDDLING, World, clear, meddle


def drain(world):
    world.expire(2**62)
    assert len(world.wheel) == 0


def clear_all(world):
    clear(world)
    assert len(world.wheel) == 0


def start_again(world):
    world.start_again(5)
    assert world.wheel.now == 5


def look(world):
    wheel = world.wheel
    assert all(wheel.get(handle) is not None and wheel.deadline(handle) is not None for handle in wheel)
    assert wheel.next_deadline() is None or len(wheel)


ACTIONS = [*MEDDLING, drain, clear_all, start_again, look]
RELEASES = {
    "cancel": lambda world, mine: [world.wheel.cancel(handle) for handle in mine],
    "cancel many": lambda world, mine: world.wheel.cancel_many(mine),
    "clear": lambda world, _: world.clear(),
    "init": lambda world, _: world.start_again(1000),
    "dropping what expired": lambda world, _: world.expire(2**41),
}


@pytest.mark.parametrize("kind", ["finaliser", "weak reference"])
@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
def test_a_finaliser_and_the_callback_of_a_weak_reference_may_call_any_method(any_core, release, kind):
    for action in ACTIONS:
        world, errors, refs, mine = World(any_core.TimingWheel), [], [], []

        def act(world=world, action=action):
            meddle(world, action)

        for deadline in (1000, 1001, 1004, 1010, 1500, 2**40):
            item = Meddler(act, errors) if kind == "finaliser" else Item()
            if kind != "finaliser":
                refs.append(weakref.ref(item, lambda _, act=act, errors=errors: Meddler(act, errors)))
            mine.append(world.wheel.schedule(deadline, item))
            del item
        release(world, mine)
        assert errors == []
        world.balance()
        assert errors == []


def test_a_wheel_is_empty_when_clear_releases_its_items_and_what_a_finaliser_schedules_stays(any_core):
    wheel, errors, seen = any_core.TimingWheel(), [], []

    def act():
        seen.append((len(wheel) - len(seen), wheel.next_deadline() == (7 if seen else None)))
        wheel.schedule(7, len(seen))

    for _ in range(20):
        wheel.schedule(5, Meddler(act, errors))
    wheel.clear()
    assert errors == []
    assert seen == [(0, True)] * 20
    wheel._check()
    assert wheel.advance(6) == []
    assert sorted(wheel.advance(7)) == list(range(1, 21))


def test_cancels_may_nest_as_deep_as_python_calls_do(any_core):
    """Each released item cancels the next."""
    wheel, errors, handles = any_core.TimingWheel(), [], []
    for number in range(50):
        handles.append(wheel.schedule(5, Meddler(lambda n=number: n and wheel.cancel(handles[n - 1]), errors)))
    assert wheel.cancel(handles[-1]) is True
    assert errors == []
    assert len(wheel) == 0
    wheel._check()


def test_an_index_method_may_call_back_too(any_core):
    """Arguments are read before the wheel is looked at."""

    class Number:
        def __init__(self, value, action):
            self.value, self.action = value, action

        def __index__(self):
            self.action()
            return self.value

    wheel = any_core.TimingWheel()
    handle = wheel.schedule(5, "old")
    assert wheel.reschedule(Number(handle, wheel.clear), 6) is False
    handle = wheel.schedule(5, "old")
    assert wheel.reschedule(handle, Number(6, lambda: wheel.cancel(handle))) is False
    handle = wheel.schedule(5, "old")
    assert wheel.cancel(Number(handle, lambda: wheel.advance(5))) is False
    with pytest.raises(ValueError, match="forwards"):
        wheel.advance(Number(6, lambda: wheel.advance(7)))
    assert wheel.now == 7
    wheel.schedule(8, "a")
    assert wheel.advance(8, Number(1, lambda: wheel.schedule(8, "b"))) == ["a"]
    assert wheel.advance(8) == ["b"]
    full = any_core.TimingWheel(max_pending=1)
    with pytest.raises(Exception, match="max_pending"):
        full.schedule(Number(3, lambda: full.schedule(3, "first")), "second")
    assert full.advance(3) == ["first"]
    wheel._check()

"""Finalisers and weak reference callbacks that call back into the wheel which is just letting their object go."""

import weakref
from functools import partial

import pytest

from tests.core.items import Item, Meddler

NOW = 1000


def build(core):
    """A wheel with timers everywhere: to come on several levels, past, and held back. Returns it with their handles."""
    wheel = core.TimingWheel(NOW)
    handles = [wheel.schedule(NOW + 1, number) for number in range(4)]
    assert wheel.advance(NOW + 1, 1) == [0]
    handles += [
        wheel.schedule(deadline, number) for number, deadline in enumerate([NOW, NOW + 2, 10**5, 2**40], start=4)
    ]
    return wheel, handles


def schedule(wheel, handles):
    handle = wheel.schedule(wheel.now, "scheduled")
    far = wheel.schedule(2**50, "far")
    assert handle in wheel
    assert far in wheel


def reschedule(wheel, handles):
    for handle in handles:
        if wheel.reschedule(handle, wheel.now + 3):
            assert wheel.deadline(handle) == wheel.now + 3


def cancel(wheel, handles):
    for handle in handles:
        wheel.cancel(handle)
        assert handle not in wheel


def advance(wheel, handles):
    wheel.advance(wheel.now + 5, 2)


def drain(wheel, handles):
    wheel.advance(2**62)
    assert len(wheel) == 0


def clear(wheel, handles):
    wheel.clear()
    assert len(wheel) == 0


def start_again(wheel, handles):
    wheel.__init__(5)
    assert wheel.now == 5


def look(wheel, handles):
    for handle in wheel:
        assert wheel.get(handle) is not None
        assert wheel.deadline(handle) is not None
    assert wheel.next_deadline() is None or len(wheel)


ACTIONS = [schedule, reschedule, cancel, advance, drain, clear, start_again, look]


def meddle(wheel, handles, action):
    wheel._check()
    action(wheel, handles)
    wheel._check()


def outlive(wheel):
    """Whatever the finalisers did, each timer that is left expires once, and nothing else does."""
    wheel._check()
    left = [wheel.get(handle) for handle in wheel]
    assert len(left) == len(wheel)
    names = [item for item in left if not isinstance(item, Meddler)]
    expired = wheel.advance(2**63 - 1)
    assert sorted(map(str, names)) == sorted(str(item) for item in expired if not isinstance(item, Meddler))
    assert len(wheel) == 0
    wheel._check()
    for item in expired:  # the wheel is done with them
        if isinstance(item, Meddler):
            item.action = int


def release_by_cancel(wheel, handles, mine):
    for handle in mine:
        wheel.cancel(handle)


def release_by_clear(wheel, handles, mine):
    wheel.clear()


def release_by_init(wheel, handles, mine):
    wheel.__init__(NOW)


def release_by_dropping_what_expired(wheel, handles, mine):
    wheel.advance(2**41)


RELEASES = [release_by_cancel, release_by_clear, release_by_init, release_by_dropping_what_expired]


def name(function):
    return function.__name__


@pytest.mark.parametrize("kind", ["finaliser", "weak reference"])
@pytest.mark.parametrize("release", RELEASES, ids=name)
def test_a_finaliser_and_the_callback_of_a_weak_reference_may_call_any_method(any_core, release, kind):
    for action in ACTIONS:
        release_with(any_core, release, action, kind)


def release_with(core, release, action, kind):
    wheel, handles = build(core)
    errors, refs, mine = [], [], []
    act = partial(meddle, wheel, handles, action)
    for deadline in (NOW, NOW + 1, NOW + 4, NOW + 10, NOW + 500, 2**40):
        item = Meddler(act, errors) if kind == "finaliser" else Item()
        if kind != "finaliser":
            refs.append(weakref.ref(item, lambda _: Meddler(act, errors)))
        mine.append(wheel.schedule(deadline, item))
        del item
    release(wheel, handles, mine)
    assert errors == []
    outlive(wheel)
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

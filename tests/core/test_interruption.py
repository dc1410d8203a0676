"""Python code that runs in the middle of a call, at each point where the collector can start it.

A callback of the collector stands for every finaliser: the first collection during the call runs it, then the second,
and so on, until the call is over before its turn comes.
"""

import gc
from contextlib import contextmanager, suppress

import pytest

from tests.core.world import MEDDLING, World, meddle
from tests.implementations import load
from tests.interrupts import at_each_place, interrupt, traced

NEW = 100  # names of timers that the calls make are greater or equal
MOST = 400  # far more collections than a call makes


def look(world):
    handles = list(world.wheel)
    assert len(set(handles)) == len(handles)
    world.wheel.next_deadline()
    [world.wheel.deadline(handle) for handle in list(world.handles.values())]


def schedule_many(world):
    world.names += [100, 101, 102]
    world.wheel.schedule_many([1003, 2**50, 7], [100, 101, 102])


def cancel_many(world):
    names = [14, 4, 15, 16, 17]
    found = world.wheel.cancel_many([world.handles[name] for name in names])
    world.cancelled += [name for name, was in zip(names, found, strict=True) if was]


def reschedule_many(world):
    world.wheel.reschedule_many([world.handles[name] for name in (13, 14, 15, 4)], [2**50, 1003, 5, 1300])


def advance_many(world):
    world.expired += world.wheel.advance_many(71_002, 6).tolist()


CALLS = {
    "schedule near": lambda world: world.schedule(1003, 100),
    "schedule in a new slot": lambda world: world.schedule(2**50, 100),
    "reschedule far": lambda world: world.wheel.reschedule(world.handles[13], 2**50),
    "reschedule what is held back": lambda world: world.wheel.reschedule(world.handles[4], 1300),
    "cancel one": lambda world: world.cancel([14]),
    "cancel what is held back": lambda world: world.cancel([4]),
    "advance near": lambda world: world.expire(1003),
    "advance far": lambda world: world.expire(71_002),
    "advance with a limit": lambda world: world.expire(71_002, 6),
    "clear": World.clear,
    "look": look,
    "schedule many": schedule_many,
    "cancel many": cancel_many,
}
BULK = {call.__name__: call for call in (schedule_many, cancel_many, reschedule_many, advance_many)}
CASES = [
    pytest.param(class_name, call, id=f"{class_name}-{name}")
    for class_name, calls in (("TimingWheel", CALLS), ("KeyWheel", BULK))
    for name, call in calls.items()
]


@contextmanager
def at_collection(number, action):
    """Run `action` when the collector starts for the `number`-th time; yields a list that then is not empty."""
    ran = []

    def callback(phase, _):
        nonlocal number
        if phase == "start" and not ran:
            number -= 1
            if number < 0:
                ran.append(True)
                action()

    before = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(1, 10**6, 10**6)
    try:
        yield ran
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(callback)


def run(wheel_class, call, meddling):
    for number in range(MOST):
        world, errors = World(wheel_class), []

        def action(world=world, errors=errors):
            try:
                meddle(world, meddling)
            except BaseException as error:
                errors.append(error)

        with at_collection(number, action) as ran, suppress(ValueError):  # if the meddler advanced farther
            call(world)
        assert errors == []
        world.balance()
        if not ran:
            return
    raise AssertionError("this call is too long")


@pytest.mark.parametrize(("class_name", "call"), CASES)
def test_a_call_survives_others_in_its_middle(any_core, class_name, call):
    for meddling in MEDDLING:
        run(getattr(any_core, class_name), call, meddling)


@pytest.mark.parametrize(("class_name", "call"), CASES)
def test_an_interrupt_at_any_place_of_a_call_loses_no_timer(class_name, call):
    interrupted_at_each_place(getattr(load("pure"), class_name), call)


def interrupted_at_each_place(wheel_class, call):
    """All timers come out in order afterwards, but for those that the interrupted call had done with."""
    expected = World(wheel_class)
    call(expected)
    done = {*expected.expired, *expected.cancelled}
    order = World(wheel_class).wheel.advance(2**63 - 1)
    for intrusion in at_each_place(("core/_pure.py", "core/_pure_levels.py"), interrupt):
        world = World(wheel_class)
        pending = {world.wheel.get(handle) for handle in world.wheel}
        before = {name: world.deadline(name) for name in pending}
        with suppress(KeyboardInterrupt), traced(intrusion):
            call(world)
        world.wheel._check()
        left = [world.wheel.get(handle) for handle in world.wheel]
        assert len(left) == len(set(left)) == len(world.wheel)
        missing = pending - set(left)
        assert missing in (set(), pending & done) or (world.cleared and not left)
        changed = {name for name in left if name >= NEW or world.deadline(name) != before[name]}
        rest = world.wheel.advance(2**63 - 1)
        assert sorted(rest) == sorted(left)
        kept = set(left) - changed
        assert [name for name in rest if name in kept] == [name for name in order if name in kept]
        assert len(world.wheel) == 0
        world.wheel._check()


def test_after_an_interrupt_the_collected_timers_are_there_and_no_others():
    wheel = load("pure").TimingWheel()
    wheel.schedule(5, "collected")
    wheel._collect_some(5, 1)
    wheel.schedule(5, "later")
    wheel._levels = None  # as a call leaves it that is interrupted before it changes anything
    assert wheel._pop(2) == ["collected"]
    wheel._collect_some(5, 1)
    assert wheel._pop(2) == ["later"]

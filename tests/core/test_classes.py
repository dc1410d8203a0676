"""The wheels as Python classes."""

import copy
import pickle

import pytest


def test_no_class_can_be_both_wheels(core):
    """Their timers hold different things: a key is not an object."""
    with pytest.raises(TypeError, match="conflict"):
        type("Both", (core.TimingWheel, core.KeyWheel), {})
    with pytest.raises(TypeError, match="conflict"):
        type("Both", (core.KeyWheel, core.TimingWheel), {"__slots__": ()})


@pytest.mark.parametrize("members", [{}, {"__slots__": ()}], ids=["dict", "slots"])
def test_no_wheel_can_become_the_other(core, members):
    items = type("Items", (core.TimingWheel,), members)
    keys = type("Keys", (core.KeyWheel,), members)
    for wheel, other in ((items(), keys), (keys(), items), (core.TimingWheel(), core.KeyWheel)):
        with pytest.raises(TypeError):
            wheel.__class__ = other


def test_a_method_of_one_wheel_refuses_the_other(native_core):
    core = native_core
    with pytest.raises(TypeError):
        core.KeyWheel.schedule(core.TimingWheel(), 1, 1)
    with pytest.raises(TypeError):
        core.TimingWheel.advance(core.KeyWheel(), 1)
    with pytest.raises(TypeError):
        core._Wheel.deadline(object(), 1)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_wheel_can_be_neither_copied_nor_pickled(wheel_class, duplicate):
    for made in (wheel_class, type("Mine", (wheel_class,), {})):
        wheel = made()
        wheel.schedule(5, 7)
        with pytest.raises(TypeError, match=made.__name__):
            duplicate(wheel)
        assert len(wheel) == 1


def test_a_subclass_may_add_methods_and_override_others(wheel_class):
    class Relative(wheel_class):
        def __init__(self, factor, start=0):
            super().__init__(start)
            self.factor = factor

        def after(self, delay, item):
            return self.schedule(self.now + delay, item)

        def schedule(self, deadline, item, /):
            return super().schedule(deadline, item * self.factor)

        def __len__(self):
            return 1000 + super().__len__()

    wheel = Relative(3, start=100)
    wheel.after(5, 7)
    assert len(wheel) == 1001
    wheel._check()
    assert wheel.advance(105) == [21]


CALLS = (
    "schedule() schedule(1,2,3) reschedule(1) cancel() cancel(1,2) advance() advance(1,2,3) next_deadline(1) get() "
    "deadline() clear(1) schedule(deadline=1,item=2) reschedule(handle=1,deadline=2) cancel(handle=1) "
    "advance(now=1) advance(1,limit=2) deadline(handle=1) get(1,default=2)"
)


def test_the_single_calls_take_so_many_arguments_and_no_keywords(wheel_class):
    wheel = wheel_class()
    for call in CALLS.split():
        with pytest.raises(TypeError):
            eval(f"wheel.{call}", {"wheel": wheel})
        assert (wheel.now, len(wheel)) == (0, 0), call


def test_a_key_wheel_must_be_given_a_key(core):
    with pytest.raises(TypeError):
        core.KeyWheel().schedule(5)


def test_the_bulk_calls_take_keywords(core):
    wheel = core.KeyWheel()
    handles = wheel.schedule_many(deadlines=[5, 6], keys=[1, 2])
    assert wheel.reschedule_many(handles=handles, deadlines=[7, 8]).tolist() == [True, True]
    assert wheel.cancel_many(handles=handles[:1]).tolist() == [True]
    assert wheel.advance_many(now=10, limit=5).tolist() == [2]

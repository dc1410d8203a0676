"""Random operations, against the model, with `_check()` after every step."""

import weakref
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from tests.core.items import Item
from tests.core.model import MAX_TICK, Model
from tests.core.ticks import KEYS, LIMITS, STARTS, deadlines, later
from tests.implementations import CORES, SMALL

STEPS = 50


class WheelMachine(RuleBasedStateMachine):
    """What both wheels have. The bundle keeps every handle for ever, so most of them are stale after a while."""

    handles = Bundle("handles")
    wheel_class: type
    new_item: Callable  # draws what a timer carries; not by a strategy, which would keep it alive

    def given(self, values, dtype=None):
        """Return values as a bulk call of this wheel takes them: a list, or an array."""
        return values

    def got(self, found, dtype=None):
        """Return what a bulk call gave as a list."""
        return found

    @initialize(start=STARTS)
    def make(self, start):
        self.wheel = self.wheel_class(start, max_pending=10**9)
        self.model = Model(start)

    def schedule_at(self, deadline, data):
        item = self.new_item(data)
        handle = self.wheel.schedule(deadline, item)
        self.model.schedule(handle, deadline, item)
        return handle

    @rule(target=handles, data=st.data())
    def schedule(self, data):
        return self.schedule_at(data.draw(deadlines(self.model.now)), data)

    @rule(target=handles, data=st.data(), count=st.integers(2, 30), ticks=st.integers(1, 3))
    def schedule_a_crowd(self, data, count, ticks):
        crowded = [data.draw(deadlines(self.model.now)) for _ in range(ticks)]
        return multiple(*(self.schedule_at(crowded[i * i % ticks], data) for i in range(count)))

    @rule(target=handles, data=st.data(), count=st.integers(0, 30))
    def schedule_many(self, data, count):
        few = [data.draw(deadlines(self.model.now)) for _ in range(min(count, 4))]
        ticks = [few[i * i % len(few)] for i in range(count)]
        items = [self.new_item(data) for _ in ticks]
        handles = self.got(self.wheel.schedule_many(self.given(ticks, np.int64), self.given(items)))
        for handle, tick, item in zip(handles, ticks, items, strict=True):
            self.model.schedule(handle, tick, item)
        return multiple(*handles)

    @rule(handle=handles, data=st.data())
    def reschedule(self, handle, data):
        deadline = data.draw(deadlines(self.model.now))
        assert self.wheel.reschedule(handle, deadline) is self.model.reschedule(handle, deadline)

    @rule(data=st.data(), later_by=st.integers(0, 300))
    def reschedule_every_second_one(self, data, later_by):
        for handle in sorted(self.model.timers)[::2]:
            deadline = min(self.model.timers[handle].deadline + later_by, MAX_TICK)
            assert self.wheel.reschedule(handle, deadline) is True
            self.model.reschedule(handle, deadline)

    @rule(handle=handles)
    def cancel(self, handle):
        assert self.wheel.cancel(handle) is self.model.cancel(handle)

    @rule(chosen=st.lists(handles, max_size=20))
    def cancel_many(self, chosen):
        found = self.wheel.cancel_many(self.given(chosen))
        assert self.got(found, np.bool_) == [self.model.cancel(handle) for handle in chosen]

    @rule(handle=handles)
    def look_up(self, handle):
        timer = self.model.timers.get(handle)
        assert (handle in self.wheel) is (timer is not None)
        assert self.wheel.deadline(handle) == (timer.deadline if timer else None)
        missing = object()
        assert self.wheel.get(handle, missing) == (timer.item if timer else missing)

    @rule(data=st.data(), limit=LIMITS)
    def advance(self, data, limit):
        self.advance_to(data.draw(later(self.model.now)), limit)

    @rule(limit=LIMITS, near=st.integers(-1, 1))
    def advance_close_to_the_earliest(self, limit, near):
        earliest = self.model.earliest()
        if earliest is not None:
            self.advance_to(min(max(earliest + near, self.model.now), MAX_TICK), limit)

    @rule(limit=LIMITS)
    def advance_to_next_deadline(self, limit):
        tick = self.wheel.next_deadline()
        if tick is not None:
            self.advance_to(tick, limit)

    def advance_to(self, now, limit):
        assert self.wheel.advance(now, limit) == self.model.advance(now, limit)

    @rule()
    def drain(self):
        """A loop of advance(next_deadline()) ends, with few wake-ups for nothing."""
        wakeups = 16 * (len(self.wheel) + 1)
        while (tick := self.wheel.next_deadline()) is not None:
            assert wakeups, "too many wake-ups"
            wakeups -= 1
            self.advance_to(tick, None)
        assert not self.model.timers

    @rule()
    def clear(self):
        assert self.wheel.clear() is None
        self.model.clear()

    @rule(start=STARTS)
    def start_again(self, start):
        self.wheel.__init__(start)
        assert self.wheel.max_pending is None
        self.model = Model(start)

    @invariant()
    def the_wheel_agrees_with_the_model(self):
        self.wheel._check()
        assert self.wheel.now == self.model.now
        assert len(self.wheel) == len(self.model.timers)
        assert sorted(self.wheel) == sorted(self.model.timers)
        earliest, bound = self.model.earliest(), self.wheel.next_deadline()
        if earliest is None:
            assert bound is None
        else:
            assert self.wheel.now <= bound <= earliest

    def teardown(self):
        if hasattr(self, "wheel"):
            self.drain()


class TimingWheelMachine(WheelMachine):
    def new_item(self, data):
        return Item()

    @rule(handle=WheelMachine.handles)
    def cancel_and_release(self, handle):
        timer = self.model.timers.pop(handle, None)
        if timer:
            seen = weakref.ref(timer.item)
            del timer
            assert self.wheel.cancel(handle) is True
            assert seen() is None


class KeyWheelMachine(WheelMachine):
    def new_item(self, data):
        return data.draw(KEYS)

    def given(self, values, dtype=np.uint64):
        return np.array(values, dtype)

    def got(self, found, dtype=np.uint64):
        assert found.dtype == dtype
        return found.tolist()

    @rule(chosen=st.lists(WheelMachine.handles, max_size=20), data=st.data())
    def reschedule_many(self, chosen, data):
        ticks = [data.draw(deadlines(self.model.now)) for _ in chosen]
        found = self.wheel.reschedule_many(self.given(chosen), self.given(ticks, np.int64))
        assert self.got(found, np.bool_) == [self.model.reschedule(*pair) for pair in zip(chosen, ticks, strict=True)]

    @rule(data=st.data(), limit=LIMITS)
    def advance_many(self, data, limit):
        now = data.draw(later(self.model.now))
        assert self.got(self.wheel.advance_many(now, limit)) == self.model.advance(now, limit)


MACHINES = [TimingWheelMachine, KeyWheelMachine]
# A build with tiny limits has one machine in `make test`: both wheels share what the limits are about.
BUILDS = [*product(CORES, MACHINES), *zip(SMALL, MACHINES, strict=False)]
BUILDS += [pytest.param(*each, marks=pytest.mark.stress) for each in zip(SMALL, reversed(MACHINES), strict=False)]


@pytest.mark.hypothesis
@pytest.mark.parametrize(("any_core", "machine"), BUILDS, indirect=["any_core"])
def test_random_operations_do_what_the_model_does(any_core, machine):
    class Machine(machine):
        wheel_class = getattr(any_core, machine.__name__.removesuffix("Machine"))

    run_state_machine_as_test(Machine, settings=settings(stateful_step_count=STEPS))

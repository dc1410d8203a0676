"""Random operations on both delay queues, against a list that is sorted whole each time."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

TICK = 100_000
# In nanoseconds: within some ticks, so that deadlines meet, and around the bounds of the wheel's levels.
DELAYS = st.one_of(
    st.integers(-1, 4 * TICK),
    st.integers(0, 5).map(lambda ticks: ticks * TICK),
    st.sampled_from([255, 256, 257, 65535, 65536, 2**24]).map(lambda ticks: ticks * TICK),
)


class Model:
    """The contract said in the dumbest way."""

    def __init__(self, maxsize):
        self.maxsize = maxsize
        self.now = 0  # nanoseconds
        self.items = {}  # handle: (deadline in ticks, order of the last put or reschedule, item)
        self.order = 0
        self.unfinished = 0
        self.is_shut = False

    def place(self, handle, delay, item):
        self.order += 1
        tick = -(-(self.now + delay) // TICK) if delay > 0 else self.now // TICK
        self.items[handle] = tick, self.order, item

    def due(self):
        return sorted((*timer, handle) for handle, timer in self.items.items() if timer[0] <= self.now // TICK)

    def full(self):
        return 0 < self.maxsize <= len(self.items)


class DelayQueueMachine(RuleBasedStateMachine):
    """The bundle keeps every handle for ever, so most of them are stale after a while."""

    handles = Bundle("handles")
    pywheel = None
    kind = None

    @initialize(maxsize=st.sampled_from([0, -1, 1, 4]), start=st.integers(0, 3 * TICK))
    def make(self, maxsize, start):
        self.clock = self.pywheel.ManualClock(start / 1e9)
        self.q = getattr(self.pywheel, self.kind)(maxsize, clock=self.clock)
        self.model = Model(maxsize)
        self.model.now = start

    @rule(span=DELAYS)
    def time_passes(self, span):
        self.clock.jump(max(span, 0) / 1e9)
        self.model.now += max(span, 0)

    @precondition(lambda self: self.model.items)
    @rule(near=st.integers(-1, 1), data=st.data())
    def time_passes_until_a_deadline(self, near, data):
        tick = data.draw(st.sampled_from([timer[0] for timer in self.model.items.values()]))
        span = tick * TICK + near - self.model.now
        if span > 0:
            self.clock.jump(span / 1e9)
            self.model.now += span

    @rule(target=handles, delay=DELAYS, item=st.integers())
    def put(self, delay, item):
        q, model = self.q, self.model
        if model.is_shut or model.full():
            with pytest.raises(q._ShutDown if model.is_shut else q._Full):
                q.put_nowait(item, delay / 1e9)
            return multiple()
        handle = q.put_nowait(item, delay / 1e9)
        assert handle not in model.items
        model.place(handle, delay, item)
        model.unfinished += 1
        return handle

    @rule()
    def get(self):
        q, model = self.q, self.model
        due = model.due()
        if due:
            *_, item, handle = due[0]
            assert q.get_nowait() == item
            del model.items[handle]
        else:
            with pytest.raises(q._ShutDown if model.is_shut and not model.items else q._Empty):
                q.get_nowait()

    @rule(handle=handles)
    def remove(self, handle):
        known = self.model.items.pop(handle, None) is not None
        assert self.q.remove(handle) is known
        if known:
            self.model.unfinished = max(0, self.model.unfinished - 1)

    @rule(handle=handles, delay=DELAYS)
    def reschedule(self, handle, delay):
        timer = self.model.items.get(handle)
        assert self.q.reschedule(handle, delay / 1e9) is (timer is not None)
        if timer is not None:
            self.model.place(handle, delay, timer[2])

    @rule()
    def task_done(self):
        if self.model.unfinished:
            self.q.task_done()
            self.model.unfinished -= 1
        else:
            with pytest.raises(ValueError, match="task_done"):
                self.q.task_done()

    @rule(immediate=st.booleans(), chance=st.integers(0, 9))
    def shutdown(self, immediate, chance):
        if chance:
            return  # or every run would end so
        self.q.shutdown(immediate)
        self.model.is_shut = True
        if immediate:
            self.model.unfinished = max(0, self.model.unfinished - len(self.model.items))
            self.model.items.clear()

    @invariant()
    def the_queue_agrees_with_the_model(self):
        q, model = self.q, self.model
        q._wheel._check()
        assert q.qsize() == len(model.items)
        assert q.ready() == len(model.due())
        assert q.empty() is (not model.items)
        assert q.full() is model.full()
        assert q._unfinished == model.unfinished

    def teardown(self):
        if hasattr(self, "q"):
            self.clock.jump(2**24)
            self.model.now += 2**24 * 10**9
            while self.model.items:
                self.get()


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", ["DelayQueue", "AsyncDelayQueue"])
def test_random_operations_do_what_the_model_does(pywheel, kind):
    class Machine(DelayQueueMachine):
        pass

    Machine.pywheel, Machine.kind = pywheel, kind
    run_state_machine_as_test(Machine, settings=settings(stateful_step_count=50))

"""Random operations on Timers with a ManualClock, against a model that is one sorted list."""

from datetime import timedelta
from fractions import Fraction
from functools import cache
from math import ceil

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

STEPS = 40


def nanoseconds(seconds):
    """The first nanosecond at which a clock shows so many seconds, as a float, or more."""
    if isinstance(seconds, timedelta):
        return max(0, seconds // timedelta(microseconds=1) * 1000)
    ns = ceil(Fraction(seconds) * 10**9)
    while isinstance(seconds, float) and (ns - 1) / 1e9 >= seconds:
        ns -= 1
    return max(0, ns)


class Full(Exception):
    """The model's WheelFull."""


class Stopped(Exception):
    """The model's TimersStopped."""


class Interrupt(KeyboardInterrupt):
    """What goes through the driver."""


class ModelTimer:
    def __init__(self, driver, delay, callback):
        self.driver, self.delay, self.callback = driver, delay, callback
        self.state, self.tick, self.rank, self.interval = "new", 0, 0, None

    def cancel(self):
        if self.state != "pending":
            return False
        self.driver.take_out(self)
        self.state, self.callback = "cancelled", None
        return True

    def reset(self, delay=None):
        ns = self.driver.now + (self.delay if delay is None else nanoseconds(delay))
        return self.move(ns)

    def reschedule(self, when):
        return self.move(nanoseconds(when))

    def move(self, ns):
        if self.state == "stopped" or (self.state == "running" and self.driver.stopped):
            raise Stopped
        if self.state == "running":
            self.driver.check_room()
        elif self.state == "pending":
            self.driver.take_out(self)
        else:
            return False
        self.planned, self.behind = max(ns, self.driver.now), False
        self.driver.put(self, ns)
        return True

    def when(self):
        return self.tick * self.driver.length / 1e9 if self.active() else None

    def remaining(self):
        return max(0, self.tick * self.driver.length - self.driver.now) / 1e9 if self.active() else None

    def active(self):
        return self.state == "pending"

    def cancelled(self):
        return self.state == "cancelled"

    def plan(self, now):
        """The next call of a periodic timer."""
        self.planned += self.interval
        if self.missed == "delay":
            self.planned = now + self.interval
        while self.missed == "skip" and self.planned <= now:
            self.planned += self.interval
        self.driver.put(self, self.planned)
        self.behind = self.tick <= now // self.driver.length


class Model:
    """Timers and its clock: `waiting` is in no order, `held` are those collected that still wait for their call."""

    def __init__(self, start, length, max_pending):
        self.now, self.length, self.room = nanoseconds(start), nanoseconds(length), max_pending
        self.waiting, self.held, self.rank, self.stopped, self.errors = [], [], 0, False, []

    def call_later(self, delay, callback):
        return self.add(ModelTimer(self, nanoseconds(delay), callback), self.now + nanoseconds(delay))

    def call_at(self, when, callback):
        return self.add(ModelTimer(self, max(0, nanoseconds(when) - self.now), callback), nanoseconds(when))

    def call_every(self, interval, callback, first, missed):
        timer = ModelTimer(self, nanoseconds(interval), callback)
        timer.interval, timer.missed, timer.behind = timer.delay, missed, False
        timer.planned = self.now + (timer.delay if first is None else nanoseconds(first))
        return self.add(timer, timer.planned)

    def add(self, timer, ns):
        self.check_room()
        self.put(timer, ns)
        return timer

    def check_room(self):
        if self.stopped:
            raise Stopped
        if self.room is not None and len(self) >= self.room:
            raise Full

    def put(self, timer, ns):
        self.rank += 1
        timer.state, timer.tick, timer.rank = "pending", -(-ns // self.length), self.rank
        self.waiting.append(timer)

    def take_out(self, timer):
        (self.held if timer in self.held else self.waiting).remove(timer)

    def __len__(self):
        return len(self.waiting) + len(self.held)

    def pending(self):
        return sorted(self.waiting + self.held, key=lambda timer: (timer.tick, timer.rank))

    def run_due(self, limit=None):
        limit, done, behind = len(self) + 10**9 if limit is None else limit, 0, []
        due = [timer for timer in self.pending() if timer in self.waiting and timer.tick <= self.now // self.length]
        for timer in due:
            self.waiting.remove(timer)
        self.held += due
        while self.held and done < limit:
            done += 1
            self.call(self.held.pop(0), behind)
        while behind and done < limit:
            timer = behind.pop(0)
            if timer.active() and timer.behind:
                done += 1
                self.take_out(timer)
                self.call(timer, behind)
        return done

    def call(self, timer, behind):
        callback, timer.state = timer.callback, "running"
        if timer.interval is not None:
            timer.plan(self.now)
            if timer.behind:
                behind.append(timer)
        try:
            callback()
        except Interrupt:
            raise
        except Exception as error:
            self.errors.append((timer, str(error)))
        finally:
            if timer.state == "running":
                timer.state, timer.callback = "fired", None

    def advance(self, seconds):
        end = self.now + nanoseconds(seconds)
        self.run_due()
        while stops := [max(timer.tick, self.now // self.length + 1) * self.length for timer in self.pending()]:
            if min(stops) >= end:
                break
            self.now = min(stops)
            self.run_due()
        self.now = end
        self.run_due()

    def jump(self, seconds):
        self.now += nanoseconds(seconds)

    def stop(self):
        self.stopped, left = True, self.pending()
        for timer in left:
            timer.state = "stopped"
        self.waiting, self.held = [], []
        return left


class World:
    """The driver or its model, the timers made so far, and all that was seen. Does the same things in both."""

    def __init__(self, timers, clock, now, errors):
        self.timers, self.clock, self.now, self.errors = timers, clock, now, errors
        self.made, self.log = [], []

    def do(self, action):
        kind, *arguments = action
        try:
            self.log.append((kind, getattr(self, kind)(*arguments)))
        except Interrupt:
            raise
        except Exception as error:
            if type(error).__name__ == "RuntimeError":
                raise
            self.log.append((kind, type(error).__name__.removeprefix("Wheel").removeprefix("Timers")))

    def callback(self, script):
        number = len(self.made)

        def run():
            self.log.append(("call", number, self.now()))
            for action in script:
                if action[0] == "fail":
                    raise ValueError(f"callback {number}")
                if action[0] == "interrupt":
                    raise Interrupt
                self.do(action)

        return run

    def name(self, timer):
        return self.made.index(timer)

    def call_later(self, delay, script):
        self.made.append(self.timers.call_later(delay, self.callback(script)))

    def call_at(self, when, script):
        self.made.append(self.timers.call_at(when, self.callback(script)))

    def call_every(self, interval, script, first, missed):
        self.made.append(self.timers.call_every(interval, self.callback(script), first=first, missed=missed))

    def on_timer(self, number, method, *arguments):
        if self.made:
            return getattr(self.made[number % len(self.made)], method)(*arguments)
        return None

    def run_due(self, limit):
        try:
            return self.timers.run_due(limit)
        except Interrupt:
            return "interrupted"

    def move(self, how, seconds):
        try:
            getattr(self.clock, how)(seconds)
        except Interrupt:
            self.log.append("interrupted")  # the clock stands where it happened

    def stop(self):
        return [self.name(timer) for timer in self.timers.stop()]

    def look(self):
        return {
            "log": self.log,
            "now": self.now(),
            "len": len(self.timers),
            "pending": [self.name(timer) for timer in self.timers.pending()],
            "errors": [(self.name(timer), message) for timer, message in self.errors],
            "timers": [
                (timer.when(), timer.remaining(), timer.active(), timer.cancelled(), timer.callback is None)
                for timer in self.made
            ],
        }


LENGTHS = st.sampled_from([0.001, 0.25, 1, 0.000001])
MISSED = st.sampled_from(["skip", "burst", "delay"])
NUMBER = st.integers(0, 30)


@cache
def durations(length, most=50):
    """Seconds as all kinds of numbers, about some ticks."""
    ticks = st.one_of(st.integers(-1, most), st.floats(-1, most), st.integers(0, 3))
    return st.one_of(
        ticks.map(lambda n: n * length),
        ticks.map(lambda n: timedelta(seconds=n * length)),
        st.integers(-1, int(most * length)),
        st.sampled_from([0, 0.0, 2 * length]),
    )


@cache
def timer_actions(length):
    delay = durations(length)
    return st.one_of(
        st.tuples(st.just("on_timer"), NUMBER, st.just("cancel")),
        st.tuples(st.just("on_timer"), NUMBER, st.just("reset")),
        st.tuples(st.just("on_timer"), NUMBER, st.just("reset"), delay),
        st.tuples(st.just("on_timer"), NUMBER, st.just("reschedule"), delay),
    )


@cache
def scripts(length):
    """What a callback does: mostly nothing much."""
    leaf = st.lists(timer_actions(length), max_size=2)
    action = st.one_of(
        timer_actions(length),
        st.tuples(st.just("call_later"), durations(length), leaf),
        st.tuples(st.just("call_at"), durations(length), leaf),
        st.tuples(st.just("fail")),
        st.tuples(st.just("interrupt")),
    )
    return st.one_of(st.just([]), st.lists(action, max_size=3))


class TimersMachine(RuleBasedStateMachine):
    pywheel: object

    @initialize(
        start=st.sampled_from([0, 5, 0.0015, 10**6 + 0.1, 10**9]), length=LENGTHS, room=st.sampled_from([None, None, 3])
    )
    def make(self, start, length, room):
        self.length = length
        clock, errors = self.pywheel.ManualClock(start), []
        timers = self.pywheel.Timers(
            clock, length, max_pending=room, on_error=lambda timer, error: errors.append((timer, str(error)))
        )
        model = Model(start, length, room)
        self.real = World(timers, clock, clock.time_ns, errors)
        self.model = World(model, model, lambda: model.now, model.errors)

    def do(self, *action):
        for world in (self.real, self.model):
            world.do(action)

    @rule(data=st.data())
    def call_later(self, data):
        self.do("call_later", data.draw(durations(self.length)), data.draw(scripts(self.length)))

    @rule(data=st.data())
    def call_at(self, data):
        when = self.model.now() / 1e9 + data.draw(st.floats(-5, 50)) * self.length
        self.do("call_at", when, data.draw(scripts(self.length)))

    @rule(data=st.data(), missed=MISSED)
    def call_every(self, data, missed):
        interval = data.draw(st.floats(0.3, 20)) * self.length
        first = data.draw(st.none() | durations(self.length))
        self.do("call_every", interval, data.draw(scripts(self.length)), first, missed)

    @rule(data=st.data())
    def touch_a_timer(self, data):
        self.do(*data.draw(timer_actions(self.length)))

    @rule(data=st.data())
    def advance(self, data):
        self.move("advance", data.draw(durations(self.length)))

    @rule(data=st.data())
    def jump(self, data):
        self.move("jump", data.draw(durations(self.length, most=200)))

    def move(self, how, seconds):
        """By a thousand ticks at most: in a second of a million, some periodic timers are called millions of times."""
        if isinstance(seconds, int):
            seconds = min(abs(seconds), 1000 * self.length)
        self.do("move", how, abs(seconds))

    @rule(limit=st.none() | st.integers(0, 4))
    def run_due(self, limit):
        self.do("run_due", limit)

    @rule(seldom=NUMBER)
    def stop(self, seldom):
        if seldom == 0:
            self.do("stop")

    @invariant()
    def the_driver_agrees_with_the_model(self):
        real = self.real.look()
        assert real == self.model.look()
        first, bound = self.model.timers.pending(), self.real.timers.next_deadline()
        assert (bound is None) == (not first)
        assert bound is None or bound <= max(first[0].when(), real["now"] / 1e9)


@pytest.mark.hypothesis
def test_random_operations_do_what_the_model_does(pywheel):
    class Machine(TimersMachine):
        pass

    Machine.pywheel = pywheel
    run_state_machine_as_test(Machine, settings=settings(stateful_step_count=STEPS))

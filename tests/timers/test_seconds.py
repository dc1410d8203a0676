"""Seconds at the edge, ticks inside: which values are numbers, and that rounding never makes a timer early."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import inf, nan

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.implementations import CORES, load_package
from tests.timers.loops import Told

LONGEST = 2**62  # nanoseconds


class Indexed:
    def __index__(self):
        return 3


class Floated:
    def __float__(self):
        return 2.5


class Broken:
    def __float__(self):
        raise ZeroDivisionError("no number today")


SECONDS = [
    (3, 3),
    (2.5, 2.5),
    (True, 1),
    (timedelta(minutes=2, microseconds=1500), 120.002),
    (Decimal("1.25"), 1.25),
    (Fraction(1, 8), 0.125),
    (np.float64(1.5), 1.5),
    (np.float32(0.25), 0.25),
    (np.int16(7), 7),
    (Indexed(), 3),
    (Floated(), 2.5),
    (0.1, 0.1),
    (10**9 + 0.5, 10**9 + 0.5),
    (4 * 10**9, 4 * 10**9),
]
WRONG = ["1", b"1", bytearray(b"1"), None, [], (1,), {}, 1j, object(), int]
TOO_MUCH = [nan, inf, -inf, 1e300, 1e10, 10**10, 10**400, Decimal("NaN"), Decimal("1e30"), timedelta.max]


def named(value):
    return f"{type(value).__name__}-{value!r:.20}"


@pytest.mark.parametrize(("given", "expected"), SECONDS, ids=named)
def test_whatever_is_a_number_counts_as_seconds(timers, given, expected):
    assert timers.call_later(given, int).when() == expected
    assert timers.call_at(given, int).when() == expected
    assert timers.call_every(given, int).when() == expected
    assert timers.call_every(1, int, first=given).when() == expected
    timer = timers.call_later(1, int)
    timer.reset(given)
    assert timer.when() == expected
    timer.reschedule(given)
    assert timer.when() == expected


class Uses:
    """All that takes seconds."""

    def __init__(self, pywheel):
        self.pywheel, self.clock = pywheel, pywheel.ManualClock()
        self.timers, self.dict = pywheel.Timers(self.clock), pywheel.TTLDict(10, clock=self.clock)
        self.timer, self.dict["a"] = self.timers.call_later(5, int), 1
        self.queues = [kind(clock=self.clock) for kind in (pywheel.DelayQueue, pywheel.AsyncDelayQueue)]
        self.handles = [q.put_nowait("a") for q in self.queues]

    def of(self, value):
        """Yield each argument that is seconds, by name."""
        pywheel, timers, d = self.pywheel, self.timers, self.dict
        yield "delay", lambda: timers.call_later(value, int)
        yield "when", lambda: timers.call_at(value, int)
        yield "interval", lambda: timers.call_every(value, int)
        yield "jitter", lambda: timers.call_every(1, int, jitter=value)
        yield "when", lambda: self.timer.reschedule(value)
        yield "tick", lambda: pywheel.Timers(tick=value)
        yield "start", lambda: pywheel.ManualClock(value)
        yield "seconds", lambda: self.clock.advance(value)
        yield "seconds", lambda: self.clock.jump(value)
        yield "ttl", lambda: pywheel.TTLDict(value)
        for q, handle in zip(self.queues, self.handles, strict=True):
            yield "delay", partial(q.put_nowait, "b", value)
            yield "delay", partial(q.reschedule, handle, value)
        if value is not None:  # which means the usual one
            yield "first", lambda: timers.call_every(1, int, first=value)
            yield "delay", lambda: self.timer.reset(value)
            yield "ttl", lambda: d.set("a", 2, value)
            yield "ttl", lambda: d.set("b", 2, value)
            yield "ttl", lambda: d.touch("a", value)

    def state(self):
        """Return what none of them may change."""
        queues = [(q.qsize(), q.ready()) for q in self.queues]
        return self.timers.pending(), self.timer.when(), self.timers.time(), queues, dict(self.dict), self.dict.ttl("a")


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [(value, TypeError, "must be seconds") for value in WRONG]
    + [(value, ValueError, "(must be|is out of range)") for value in TOO_MUCH],
    ids=lambda value: "" if isinstance(value, type) else named(value),
)
def test_what_is_no_number_or_beyond_146_years_is_refused_by_name_and_nothing_changes(pywheel, value, error, match):
    uses = Uses(pywheel)
    before = uses.state()
    for name, use in uses.of(value):
        with pytest.raises(error, match=f"^{name} {match}"):
            use()
        assert uses.state() == before


def test_an_error_of_the_number_itself_goes_through(timers):
    with pytest.raises(ZeroDivisionError, match="no number today"):
        timers.call_later(Broken(), int)
    assert len(timers) == 0


@pytest.mark.parametrize("value", [-1e300, -1e19, -(10**400), timedelta.min, Decimal("-1e30")], ids=named)
def test_any_negative_delay_is_due_now(timers, value):
    timers.call_later(value, int)
    timers.call_at(value, int)
    assert timers.run_due() == 2


@pytest.mark.parametrize("value", [0, -1, 0.0, -0.5, timedelta(0), -1e300], ids=named)
def test_an_interval_must_be_more_than_nothing(timers, value):
    with pytest.raises(ValueError, match="interval"):
        timers.call_every(value, int)
    assert len(timers) == 0


@pytest.mark.parametrize("tick", [0.000001, 0.001, 1, 60, 3600, timedelta(milliseconds=20)], ids=named)
def test_a_tick_is_from_a_microsecond_to_an_hour(pywheel, clock, tick):
    timers = pywheel.Timers(clock, tick)
    seconds = tick.total_seconds() if isinstance(tick, timedelta) else tick
    assert timers.tick == seconds
    assert timers.call_later(seconds * 7.5, int).when() == pytest.approx(seconds * 8)


@pytest.mark.parametrize("tick", [0, -1, 0.0000009, 3600.1, 10**9], ids=named)
def test_no_other_tick_is_accepted(pywheel, tick):
    with pytest.raises(ValueError, match="tick must be from"):
        pywheel.Timers(tick=tick)


# ---- never early ---------------------------------------------------------------------------------------------------

NANOSECONDS = st.one_of(
    st.integers(0, LONGEST), st.integers(0, 10**10), st.integers(0, 62).flatmap(lambda n: st.integers(0, 2**n))
)
TICKS = st.sampled_from([1_000, 1_001, 999_983, 1_000_000, 10**9, 3_600 * 10**9]) | st.integers(1_000, 3_600 * 10**9)
NUMBERS = st.one_of(
    st.floats(-1, LONGEST / 1e9),
    st.floats(0, 10),
    st.floats(10**6, 10**6 + 1),
    st.integers(-1, LONGEST // 10**9),
    st.integers(0, 10**9).map(lambda n: n / 1000),
    st.timedeltas(timedelta(-1), timedelta(days=50_000)),
)


def has_come(now, value):
    """Whether a clock that shows `now` nanoseconds says that the time is `value`; a timedelta is exact."""
    if isinstance(value, timedelta):
        return now >= value // timedelta(microseconds=1) * 1000
    return now / 1e9 >= value


def deadline(package, length, start, schedule):
    """The first tick at which the timer is called, in nanoseconds, found by looking."""
    clock = Told(start)
    timers = package.Timers(clock, length / 1e9 if length < 10**12 else timedelta(microseconds=length // 1000))
    length = timers._length
    timer = schedule(timers)
    due = round(Fraction(timer.when()) * 10**9 / length) * length
    for guess in (due - 2 * length, due - length, due, due + length, due + 2 * length):
        clock.now = min(max(guess, start), LONGEST)
        if timers.run_due():
            return clock.now
    assert due > LONGEST - 3 * length, "it was not called"
    return None


def agreed_deadline(length, start, schedule):
    """Return that of both implementations, which is the same."""
    [due] = {deadline(load_package(name), length, start, schedule) for name in CORES}
    return due


@given(length=TICKS, start=NANOSECONDS, value=NUMBERS)
@example(length=1_000_000, start=0, value=0.1)
@example(length=1_000_000, start=0, value=0.001)
@example(length=1_000_000, start=0, value=0.001_000_001)
@example(length=1_000_000, start=2**61 + 1, value=0.3)
@example(length=1_000, start=0, value=4_000_000_000.1)
@example(length=1_000_000, start=0, value=1e9 - 1e-7)
def test_no_callback_runs_before_its_clock_shows_the_time_asked_for(length, start, value):
    due = agreed_deadline(length, start, lambda timers: timers.call_at(value, int))
    if due is not None:
        assert has_come(due, value)
        earlier = due - length
        assert earlier < start or not has_come(earlier, value), "a tick too late"


@given(length=TICKS, start=NANOSECONDS, value=NUMBERS)
def test_no_delay_is_cut_short_at_any_uptime(length, start, value):
    due = agreed_deadline(length, start, lambda timers: timers.call_later(value, int))
    assert due is None or has_come(due - start, value)


@given(start=NANOSECONDS, value=NUMBERS)
def test_every_way_to_say_when_gives_the_same_tick(start, value):
    for name in CORES:
        clock = Told(start)
        timers = load_package(name).Timers(clock)
        moved = timers.call_later(10, int), timers.call_every(10, int)
        for ways, move in (
            ([timers.call_later(value, int), timers.call_every(1, int, first=value)], "reset"),
            ([timers.call_at(value, int)], "reschedule"),
        ):
            for timer in moved:
                getattr(timer, move)(value)
            assert len({timer.when() for timer in (*ways, *moved)}) == 1

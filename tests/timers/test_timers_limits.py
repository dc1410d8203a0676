"""Bounds and ends: `limit`, `max_pending`, `stop`, and clocks that do not keep their promises."""

import asyncio
import contextlib
import gc
import weakref
from datetime import timedelta

import pytest

from tests.core.items import Item
from tests.timers.loops import Told, nothing

# ---- limit ---------------------------------------------------------------------------------------------------------


def test_limit_bounds_the_callbacks_and_the_rest_comes_first_the_next_time(timers, clock):
    calls = []
    for number in range(5):
        timers.call_at(number, calls.append, number)
    clock.jump(10)
    assert timers.run_due(2) == 2
    assert (calls, len(timers)) == ([0, 1], 3)
    timers.call_at(1, calls.append, "late")
    assert timers.run_due(0) == 0
    assert timers.run_due(2) == 2
    assert timers.run_due(10**30) == 2
    assert calls == [0, 1, 2, 3, 4, "late"]


NO_BOUNDS = [(-1, ValueError), (1.5, TypeError), ("1", TypeError)]


@pytest.mark.parametrize(("limit", "error"), NO_BOUNDS)
def test_a_wrong_limit_is_refused_and_runs_nothing(timers, limit, error):
    timers.call_later(0, nothing)
    with pytest.raises(error, match="limit"):
        timers.run_due(limit)
    assert len(timers) == 1


@pytest.mark.parametrize(("value", "error"), [(0, ValueError), *NO_BOUNDS])
def test_a_bound_that_is_no_int_from_1_on_is_refused(pywheel, value, error):
    with pytest.raises(error, match="max_pending"):
        pywheel.Timers(max_pending=value)
    with pytest.raises(error):
        pywheel.AsyncTimers(asyncio.AbstractEventLoop(), limit=value)


# ---- max_pending ---------------------------------------------------------------------------------------------------


def test_max_pending_is_exact(pywheel, clock):
    timers = pywheel.Timers(clock, max_pending=3)
    made = [timers.call_later(1, nothing), timers.call_at(1, nothing), timers.call_every(1, nothing)]
    item = Item()
    gone = weakref.ref(item)
    for schedule in (timers.call_later, timers.call_at, timers.call_every):
        with pytest.raises(pywheel.WheelFull, match="max_pending"):
            schedule(1, nothing, item)
    del item
    assert gone() is None
    assert timers.pending() == made
    made[0].cancel()
    timers.call_later(1, nothing)
    with pytest.raises(pywheel.WheelFull):
        timers.call_later(1, nothing)


# ---- what is pending -----------------------------------------------------------------------------------------------


def test_next_deadline_leads_to_every_timer_in_few_steps(timers, clock):
    assert timers.next_deadline() is None
    calls = []
    for number in range(40):
        timers.call_at(1.5**number, calls.append, number)
    steps = 0
    while (deadline := timers.next_deadline()) is not None:
        assert deadline <= timers.pending()[0].when()
        clock.jump(max(0, deadline - clock.time()))
        timers.run_due()
        steps += 1
    assert calls == list(range(40))
    assert steps < 40 * 9


# ---- stop ----------------------------------------------------------------------------------------------------------


def test_stop_returns_what_was_pending_in_order_with_its_callbacks(timers):
    calls = []
    second = timers.call_later(2, calls.append, 2)
    first = timers.call_every(1, calls.append, 1)
    timers.call_later(3, calls.append, 3).cancel()
    left = timers.stop()
    assert left == [first, second]
    for timer in left:
        timer.callback(*timer.args)
    assert calls == [1, 2]
    assert (len(timers), timers.pending(), timers.next_deadline(), timers.stopped) == (0, [], None, True)
    assert [timer.active() or timer.cancelled() or timer.cancel() for timer in left] == [False, False]
    assert [timer.when() for timer in left] == [None, None]
    assert timers.stop() == []


def test_after_stop_everything_that_schedules_raises(pywheel, timers, clock):
    timer, periodic = timers.call_later(1, nothing), timers.call_every(1, nothing)
    fired = timers.call_later(0, nothing)
    clock.advance(0)
    timers.stop()
    for schedule in (
        lambda: timers.call_later(1, nothing),
        lambda: timers.call_at(1, nothing),
        lambda: timers.call_every(1, nothing),
        timer.reset,
        lambda: timer.reset(3),
        lambda: timer.reschedule(3),
        periodic.reset,
    ):
        with pytest.raises(pywheel.TimersStopped, match="was stopped"):
            schedule()
    assert issubclass(pywheel.TimersStopped, pywheel.PywheelError)
    assert fired.reset() is False
    clock.advance(10)
    assert timers.run_due() == 0


@pytest.mark.parametrize("limit", [None, 2])
def test_stop_from_a_callback_ends_the_turn(pywheel, timers, clock, limit):
    calls, left = [], []

    def stop():
        left.extend(timers.stop())
        with pytest.raises(pywheel.TimersStopped):
            running.reset()
        calls.append("stop")

    running = timers.call_later(1, stop)
    sibling = timers.call_later(1, calls.append, "sibling")
    periodic = timers.call_every(1, calls.append, "periodic", missed="burst")
    later = timers.call_later(5, calls.append, "later")
    clock.jump(10)
    assert timers.run_due(limit) == 1
    assert calls == ["stop"]
    assert left == [sibling, periodic, later]
    assert running.callback is None


def test_a_periodic_timer_that_stops_its_driver_is_among_the_rest(timers, clock):
    left = []
    timer = timers.call_every(1, lambda: left.extend(timers.stop()))
    clock.jump(5)
    assert timers.run_due() == 1
    assert left == [timer]
    assert timer.callback is not None


def test_leaving_a_with_block_stops(pywheel, clock):
    with pywheel.Timers(clock) as timers:
        timers.call_later(1, nothing)
    assert timers.stopped
    with pytest.raises(KeyError), pywheel.Timers(clock) as timers:
        raise KeyError
    assert timers.stopped


# ---- bad luck ------------------------------------------------------------------------------------------------------


class Broken(Told):
    """Raises what it is told, if that is an exception."""

    def time_ns(self):
        if self.now is OSError:
            raise OSError
        return self.now


BAD = [
    (-1, ValueError),
    (2**62 + 1, ValueError),
    (1.5, TypeError),
    ("1", TypeError),
    (None, TypeError),
    (OSError, OSError),
]


@pytest.mark.parametrize(("now", "error"), BAD, ids=repr)
def test_a_clock_that_shows_no_time_is_an_error_that_changes_nothing(pywheel, now, error):
    with pytest.raises(error):
        pywheel.Timers(Broken(now))
    clock = Broken()
    timers, calls = pywheel.Timers(clock), []
    timer, periodic = timers.call_later(1, calls.append, 1), timers.call_every(2, calls.append, 2)
    clock.now = now
    for call in (
        timers.run_due,
        timers.time,
        timer.reset,
        timer.remaining,
        lambda: timers.call_later(1, nothing),
        lambda: timers.call_every(1, nothing),
    ):
        with pytest.raises(error):
            call()
    assert (timers.pending(), timer.when(), periodic.when()) == ([timer, periodic], 1, 2)
    clock.now = 2 * 10**9
    assert timers.run_due() == 2
    assert calls == [1, 2]


def test_a_clock_that_goes_back_makes_nothing_early_and_loses_nothing(pywheel):
    clock = Told(100 * 10**9)
    timers, calls = pywheel.Timers(clock), []
    for when in (90, 95, 105, 130):
        timers.call_at(when, lambda when=when: calls.append((when, clock.now // 10**9)))
    periodic = timers.call_every(10, nothing)
    timers.run_due(1)
    clock.now = 50 * 10**9
    timers.call_later(3, lambda: calls.append((53, clock.now // 10**9)))
    for second in range(50, 200):
        clock.now = second * 10**9
        timers.run_due()
    assert all(asked <= called for asked, called in calls)
    assert sorted(asked for asked, _ in calls) == [53, 90, 95, 105, 130]
    assert periodic.when() == 200


def test_a_clock_near_its_end_still_counts_right(pywheel):
    clock = Told(2**62)
    for tick in (0.000001, 0.001, 3600):
        timers, calls = pywheel.Timers(clock, tick), []
        longest = timedelta(microseconds=2**62 // 1000)
        periodic = timers.call_every(longest, nothing, jitter=longest)
        timers.call_later(longest, nothing)
        assert periodic.when() > 2**62 / 1e9
        timers.call_at(2**61 / 1e9, calls.append, 1)
        soon = timers.call_every(longest, calls.append, 2, first=-1, jitter=longest)
        soon.reschedule(0)
        assert timers.run_due() == 2
        assert calls == [2, 1]
        assert len(timers) == 3


def test_a_subclass_that_forgets_to_initialise_its_base_does_not_crash(pywheel, clock):
    class Forgetful(pywheel.Timers):
        def __init__(self):
            """Forget it."""

    timers = Forgetful()
    for use in (
        lambda: timers.call_later(0, nothing).cancel(),
        lambda: timers.call_every(1, nothing).reset(),
        lambda: timers.run_due(),
        lambda: (len(timers), timers.pending(), timers.next_deadline(), timers.time(), timers.clock, timers.tick),
        lambda: timers.stop(),
    ):
        with contextlib.suppress(AttributeError):
            use()
    gc.collect()


def test_init_on_a_live_driver_begins_anew(pywheel, clock):
    timers = pywheel.Timers(clock)
    timer, item = timers.call_later(1, nothing), Item()
    gone = weakref.ref(item)
    timers.call_later(1, nothing, item)
    del item
    timers.__init__(clock, 0.25)
    assert gone() is None
    assert (len(timers), timers.tick, timer.cancel(), timer.reset()) == (0, 0.25, False, False)
    assert timers.call_later(0.3, nothing).when() == 0.5

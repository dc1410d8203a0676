"""Faults of the timers, of the dict and of the queue."""

import pywheel
from pywheel.timers import _delay_items, _pure_driver, _pure_timer
from tests.planted.how import found_by, method

T = "timers/test_"
TICK = 0.001
PURE = {"PYWHEEL_PURE": "1"}  # methods of native classes cannot be replaced


@found_by(
    T + "timer.py::test_a_timer_fires_at_its_tick_and_not_one_before",
    "assert calls == [(ms, ms * 1_000_000) for ms, _ in calls]",
    **PURE,
)
def a_time_is_rounded_down():
    method(_pure_driver.Driver, "_ceil", lambda real, self, ns: self._floor(ns))


@found_by(T + "timer.py::test_cancel_is_true_once", "assert timer.cancel() is False", **PURE)
def a_cancelled_timer_says_true_again():
    method(_pure_timer.Timer, "cancel", lambda real, self: real(self) or self.cancelled())


@found_by(
    T + "timer.py::test_cancel_is_true_once", "assert (timer.active(), timer.cancelled()) == (False, True)", **PURE
)
def a_cancelled_timer_fires():
    method(_pure_timer.Timer, "cancel", lambda real, self: self.active())


@found_by(
    T + "timer.py::test_reset_starts_anew_with_the_delay_it_was_made_with_unless_told",
    "assert timer.when() == 40",
    **PURE,
)
def a_reset_changes_nothing():
    method(_pure_timer.Timer, "reset", lambda real, self, *delay: self.active())


@found_by(
    T + "timers_callbacks.py::test_an_error_goes_to_on_error_with_its_timer_and_the_others_fire",
    "assert guarded.run_due() == 4",
    **PURE,
)
def an_error_of_a_callback_stops_the_others():
    def raising(real, self, timer, error):
        raise error

    method(_pure_driver.Driver, "_report", raising)


@found_by(
    T + "timers_limits.py::test_limit_bounds_the_callbacks_and_the_rest_comes_first_the_next_time",
    "assert timers.run_due(2) == 2",
)
def run_due_passes_its_limit_by_one():
    method(pywheel.Timers, "run_due", lambda real, self, limit=None: real(self, limit and limit + 1))


@found_by(
    T + "timers_limits.py::test_stop_returns_what_was_pending_in_order_with_its_callbacks",
    "assert left == [first, second]",
)
def stop_forgets_the_last_timer():
    method(pywheel.Timers, "stop", lambda real, self: real(self)[:-1])


@found_by(T + "periodic.py::test_skip_leaves_missed_calls_out_and_keeps_the_grid", "assert timers.run_due() == 1")
def skip_makes_up_for_missed_calls():
    def burst(real, self, *args, missed="skip", **kwargs):
        return real(self, *args, missed="burst" if missed == "skip" else missed, **kwargs)

    method(pywheel.Timers, "call_every", burst)


@found_by(
    T + "periodic.py::test_each_of_many_calls_comes_at_its_point_of_the_grid",
    "assert seen == [ceil(500 + number * 30.3 - 1e-6) / 1000 for number in range(len(seen))]",
)
def a_period_drifts():
    def longer(real, self, interval, *args, **kwargs):
        return real(self, interval * 1.001, *args, **kwargs)

    method(pywheel.Timers, "call_every", longer)


@found_by(T + "thread.py::test_a_sooner_timer_added_while_it_sleeps_wakes_it", "assert done.wait(GUARD)")
def a_wakeup_of_the_thread_is_lost():
    method(pywheel.ThreadTimers, "_sooner", lambda real, self: None if len(self) > 1 else real(self))


@found_by(T + "async_timers.py::test_a_sooner_timer_added_while_the_loop_sleeps_wakes_it", "await done.wait()")
def a_wakeup_of_the_loop_is_lost():
    method(pywheel.AsyncTimers, "_sooner", lambda real, self: None if len(self) > 1 else real(self))


@found_by(
    T + "ttl_dict.py::test_touch_starts_a_keys_time_anew_with_the_ttl_it_was_set_with", 'assert d.ttl("a") == 100'
)
def touch_changes_nothing():
    method(pywheel.TTLDict, "touch", lambda real, self, key, *ttl: key in self)


@found_by(T + "ttl_dict.py::test_reading_does_not_prolong_a_keys_life", 'assert "a" not in d')
def reading_prolongs_a_life():
    def prolonging(real, self, key):
        self.touch(key)
        return real(self, key)

    method(pywheel.TTLDict, "__getitem__", prolonging)


@found_by(T + "ttl_dict.py::test_a_key_is_there_until_its_deadline_and_gone_at_it", 'assert "a" not in d')
def a_key_is_there_beyond_its_deadline():
    method(pywheel.TTLDict, "__contains__", lambda real, self, key: key in self._data)


@found_by(T + "ttl_dict.py::test_exactly_maxsize_keys_fit", 'assert list(d) == ["b", "c", "d"]')
def one_more_than_maxsize_fits():
    def wider(real, self, ttl, *, maxsize=None, **kwargs):
        real(self, ttl, maxsize=maxsize and maxsize + 1, **kwargs)

    method(pywheel.TTLDict, "__init__", wider)


@found_by(T + "ttl_dict_on_expire.py::test_what_is_deleted_or_replaced_is_not_told", "assert told == []")
def what_is_deleted_is_told_as_expired():
    def telling(real, self, key, *default):
        value = real(self, key, *default)
        self._tell([(key, value)])
        return value

    method(pywheel.TTLDict, "pop", telling)


@found_by(
    T + "delay_queue.py::test_an_item_comes_out_when_it_is_due_and_not_before", "with pytest.raises(words.Empty):"
)
def an_item_is_early():
    def sooner(real, self, nanoseconds):
        return real(self, nanoseconds) - (nanoseconds > 0)

    method(_delay_items.DelayItems, "_tick_in", sooner)


@found_by(T + "delay_queue.py::test_a_removed_item_does_not_come_out", "assert q.remove(handle) is False")
def a_removed_item_comes_out():
    method(_delay_items.DelayItems, "remove", lambda real, self, handle: handle in self._wheel)


@found_by(T + "delay_queue.py::test_exactly_maxsize_items_fit_due_or_not", "assert q.full()")
def a_full_queue_takes_one_more():
    method(_delay_items.DelayItems, "full", lambda real, self: 0 < self.maxsize < self.qsize())


@found_by(T + "delay_queue.py::test_an_immediate_shutdown_drops_what_there_is", "assert seen() is None")
def an_immediate_shutdown_keeps_its_items():
    method(_delay_items.DelayItems, "shutdown", lambda real, self, immediate=False: real(self))


@found_by(T + "event_loop.py::test_any_real_number_is_a_time_and_is_kept_as_it_is", "assert handle.when() is when")
def the_loop_leaves_out_what_lies_below_a_millisecond():
    def coarse(real, self, when, *args, **kwargs):
        return real(self, when // TICK * TICK, *args, **kwargs)

    method(pywheel.EventLoop, "call_at", coarse)


@found_by(
    T + "event_loop.py::test_a_callback_runs_at_its_time_and_not_a_nanosecond_before", "assert handle.when() == delay"
)
def the_loop_runs_a_callback_a_millisecond_early():
    def early(real, self, delay, *args, **kwargs):
        return real(self, delay - TICK, *args, **kwargs)

    method(pywheel.EventLoop, "call_later", early)

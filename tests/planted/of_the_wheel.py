"""Faults of the wheel, around the methods that both implementations have."""

from tests.planted.how import found_by, wheels

A = "core/test_"


@found_by(
    A + "levels.py::test_a_timer_at_the_edge_of_a_level_expires_on_its_tick",
    "expires_exactly_at(wheel, start + distance)",
)
def a_timer_is_a_tick_early():
    wheels("schedule", lambda real, self, deadline, *item: real(self, max(deadline - 1, 0), *item))


@found_by(
    A + "levels.py::test_a_timer_at_the_edge_of_a_level_expires_on_its_tick",
    "expires_exactly_at(wheel, start + distance)",
)
def a_timer_is_a_tick_late():
    wheels("schedule", lambda real, self, deadline, *item: real(self, deadline + (deadline > self.now), *item))


@found_by(
    A + "levels.py::test_a_deadline_on_a_slot_start_expires_on_its_tick_however_the_wheel_gets_there",
    "expires_exactly_at(wheel, deadline)",
)
def a_slot_is_skipped_in_a_cascade():
    def skipped(real, self, deadline, *item):
        return real(self, deadline + 64 * (deadline > self.now + 64 and deadline % 64 == 0), *item)

    wheels("schedule", skipped)


@found_by(
    A + "levels.py::test_deadlines_that_differ_only_above_bit_32_do_not_meet", "assert wheel.advance(tick) == [tick]"
)
def a_deadline_has_32_bits():
    wheels("schedule", lambda real, self, deadline, *item: real(self, deadline & (1 << 32) - 1, *item))


@found_by(
    A + "order.py::test_a_batch_on_one_tick_comes_out_in_order_of_schedule",
    "assert difference(wheel.advance(70_000), range(size)) is None",
)
def the_order_on_one_tick_is_turned_round():
    wheels("advance", lambda real, self, *args: real(self, *args)[::-1])


@found_by(A + "order.py::test_a_reset_timer_goes_behind_the_others_of_its_tick", "assert wheel.advance(5) == [1, 2, 0]")
def a_timer_rescheduled_to_its_own_tick_keeps_its_place():
    def lazy(real, self, handle, deadline):
        return True if self.deadline(handle) == deadline else real(self, handle, deadline)

    wheels("reschedule", lazy)


@found_by(A + "handles.py::test_the_handle_of_a_cancelled_timer_is_stale", "assert is_stale(wheel, handle)")
def a_cancel_says_true_and_leaves_the_timer():
    wheels("cancel", lambda real, self, handle: handle in self)


@found_by(A + "handles.py::test_a_handle_serves_until_its_timer_expires", "assert is_stale(wheel, handle)")
def a_stale_handle_hits():
    wheels("cancel", lambda real, self, handle: real(self, handle) or isinstance(handle, int))


@found_by(
    A + "handles.py::test_a_stale_handle_never_reaches_the_timer_that_took_its_place",
    "assert all(is_stale(wheel, old) for old in stale)",
)
def a_stale_handle_hits_the_next_timer():
    def any_of_them(real, self, handle):
        return real(self, handle) or (isinstance(handle, int) and any(real(self, one) for one in list(self)[:1]))

    wheels("cancel", any_of_them)


@found_by(A + "limit.py::test_portions_make_up_the_whole_in_order", "assert len(portion) == min(limit, 9 - len(out))")
def a_limit_is_passed_by_one():
    wheels("advance", lambda real, self, now, limit=None: real(self, now, limit + 1 if limit else limit))


@found_by(
    A + "limit.py::test_held_back_timers_come_before_any_that_is_due_later",
    "assert wheel.advance(12) == [2, 3, 4, 5, 90, 91, 6, 7, 8, 92]",
)
def what_a_limit_holds_back_is_lost():
    def lossy(real, self, now, limit=None):
        came = real(self, now, limit)
        if limit is not None:
            real(self, now)
        return came

    wheels("advance", lossy)


@found_by(
    A + "limit.py::test_clear_drops_what_is_held_back",
    "assert (wheel.now, len(wheel), wheel.next_deadline()) == (1000, 0, None)",
)
def clear_leaves_one_timer():
    def most(real, self):
        for handle in list(self)[:-1]:
            self.cancel(handle)

    wheels("clear", most)


@found_by(A + "max_pending.py::test_exactly_max_pending_timers_fit", "with pytest.raises(WheelFull):")
def one_more_than_max_pending_fits():
    def wider(real, self, *args, max_pending=None):
        real(self, *args, max_pending=max_pending and max_pending + 1)

    for wheel in wheels("__init__", wider):
        told = wheel.max_pending
        wheel.max_pending = property(lambda self, told=told: told.__get__(self) and told.__get__(self) - 1)


@found_by(A + "items.py::test_cancel_releases_the_item_before_it_returns", 'assert released == ["a"]')
def a_cancelled_item_is_kept():
    kept = []

    def keeping(real, self, handle):
        kept.append(self.get(handle))
        return real(self, handle)

    wheels("cancel", keeping)


@found_by(
    A + "now.py::test_time_backwards_is_an_error_that_changes_nothing",
    'with pytest.raises(ValueError, match="forwards"):',
)
def time_may_go_backwards():
    wheels("advance", lambda real, self, now, *limit: real(self, max(now, self.now), *limit))


@found_by(
    A + "bad_numbers.py::test_a_tick_out_of_range_is_an_overflow_error",
    'with pytest.raises(OverflowError, match=r"2\\*\\*63-1"):',
)
def a_tick_out_of_range_is_clamped():
    wheels("schedule", lambda real, self, deadline, *item: real(self, min(deadline, 2**63 - 1), *item))


@found_by(
    "timers/test_timers_limits.py::test_next_deadline_leads_to_every_timer_in_few_steps",
    "assert deadline <= timers.pending()[0].when()",
    PYWHEEL_PURE="1",
)
def the_next_deadline_is_a_tick_too_late():
    wheels("next_deadline", lambda real, self: None if (found := real(self)) is None else found + 1)


@found_by(
    A + "bulk.py::test_a_handle_twice_in_cancel_many_is_cancelled_once",
    "assert found.tolist() == [True, False, False, True, False]",
)
def a_handle_twice_in_cancel_many_counts_twice():
    wheels("cancel_many", lambda real, self, handles: real(self, handles) | True)


@found_by(
    A + "bulk.py::test_schedule_many_returns_handles_that_the_single_calls_take",
    "assert [wheel.get(handle) for handle in handles] == [50, 30, 51, 40]",
)
def schedule_many_turns_its_handles_round():
    wheels("schedule_many", lambda real, self, *args: real(self, *args)[::-1])


@found_by(
    A + "now.py::test_a_past_deadline_expires_at_the_next_advance_even_to_the_same_tick",
    "assert wheel.deadline(handle) == deadline",
)
def a_past_deadline_waits_for_the_next_tick():
    wheels("schedule", lambda real, self, deadline, *item: real(self, max(deadline, self.now + 1), *item))

"""A handle stands for one timer, and for nothing once that is gone."""

import pytest

NEVER_HANDLES = [0, -1, -(2**63), 2**32, 2**60, 2**63, 2**64 - 1, 2**64, 10**5000, -(10**5000)]


def is_stale(wheel, handle):
    missing = object()
    return (
        wheel.cancel(handle) is False
        and wheel.reschedule(handle, 10**6) is False
        and wheel.deadline(handle) is None
        and wheel.get(handle) is None
        and wheel.get(handle, missing) is missing
        and handle not in wheel
    )


def test_a_handle_is_a_positive_int_below_two_to_the_sixtieth(any_wheel_class):
    wheel = any_wheel_class()
    for deadline in (0, 1, 2**40, 2**63 - 1):
        handle = wheel.schedule(deadline, 7)
        assert type(handle) is int
        assert 0 < handle < 2**60


def test_a_handle_serves_until_its_timer_expires(any_wheel_class):
    wheel = any_wheel_class()
    handle = wheel.schedule(300, 7)
    for now in (1, 100, 299):
        assert wheel.advance(now) == []
        assert handle in wheel
        assert wheel.get(handle) == 7
        assert wheel.deadline(handle) == 300
        assert list(wheel) == [handle]
    assert wheel.advance(300) == [7]
    assert is_stale(wheel, handle)


def test_the_handle_of_a_cancelled_timer_is_stale(any_wheel_class):
    wheel = any_wheel_class()
    handle = wheel.schedule(300, 7)
    assert wheel.cancel(handle) is True
    assert is_stale(wheel, handle)


def test_a_stale_handle_never_reaches_the_timer_that_took_its_place(any_wheel_class):
    wheel = any_wheel_class()
    stale = [wheel.schedule(300, 1)]
    wheel.cancel(stale[-1])
    for number in range(100):
        handle = wheel.schedule(300 + number, 2)
        assert all(is_stale(wheel, old) for old in stale)
        assert wheel.get(handle) == 2
        assert wheel.deadline(handle) == 300 + number
        if number % 2:
            wheel.cancel(handle)
        else:
            assert wheel.advance(300 + number) == [2]
        stale.append(handle)
    wheel._check()


@pytest.mark.parametrize("empty", [lambda wheel: wheel.clear(), lambda wheel: wheel.__init__(7)], ids=["clear", "init"])
def test_handles_from_before_the_wheel_was_emptied_are_stale_for_good(wheel_class, empty):
    wheel = wheel_class()
    before = [wheel.schedule(deadline, 1) for deadline in range(50)]
    empty(wheel)
    for _ in range(20):
        after = [wheel.schedule(deadline, 2) for deadline in range(50)]
        assert not set(before) & set(after)
        assert all(is_stale(wheel, handle) for handle in before)
        assert len(wheel) == 50
        before += after
        empty(wheel)


def test_handles_stay_stale_when_clear_follows_on_generations_that_are_used_up(small_core):
    wheel, given = small_core.TimingWheel(), set()
    for _ in range(50):
        for number in range(20):
            handle = wheel.schedule(5, number)
            assert handle not in given
            given.add(handle)
            assert wheel.cancel(handle)
        wheel.clear()
        wheel._check()


def test_a_handle_of_another_wheel_is_unknown(wheel_class):
    wheels = [wheel_class() for _ in range(10)]
    handles = [[wheel.schedule(300, number) for _ in range(20)] for number, wheel in enumerate(wheels)]
    for i, wheel in enumerate(wheels):
        for j, others in enumerate(handles):
            if i != j:
                assert all(is_stale(wheel, handle) for handle in others)
        assert len(wheel) == 20


def test_no_handle_of_a_wheel_that_is_used_a_lot_is_one_of_a_thousand_others(core):
    wheels = [core.KeyWheel() for _ in range(1000)]
    others = {wheel.schedule(300, 1) for wheel in wheels}
    wheel = core.KeyWheel()
    for number in range(150_000):  # of 2**26 generations of a node, divided by a thousand, it is twice as many
        handle = wheel.schedule(300, number)
        assert handle not in others
        assert wheel.cancel(handle)


def test_an_int_that_was_never_a_handle_is_unknown(any_wheel_class):
    wheel = any_wheel_class()
    for pending in (0, 1):
        assert [number for number in NEVER_HANDLES if not is_stale(wheel, number)] == []
        assert len(wheel) == pending
        wheel.schedule(300, 7)


def test_iteration_is_over_the_timers_pending_when_it_began(any_wheel_class):
    wheel = any_wheel_class()
    handles = {wheel.schedule(deadline, 7) for deadline in range(1, 21)}
    assert set(wheel) == handles
    seen = set()
    for handle in wheel:
        seen.add(handle)
        wheel.cancel(handle)
        wheel.schedule(50, 8)
    assert seen == handles
    assert len(wheel) == 20
    wheel.advance(50, 5)
    assert len(set(wheel)) == 15

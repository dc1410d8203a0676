"""Invalid ticks, keys, handles and limits: a clear error, and no change."""

import decimal
import fractions
from itertools import product

import numpy as np
import pytest

from tests.core.snapshot import snapshot

NOT_INTS = [
    *(12.0, 12.5, float("nan"), float("inf"), float("-inf"), np.float64(12), np.datetime64(12, "ms"), 12j),
    *(decimal.Decimal(12), decimal.Decimal("nan"), fractions.Fraction(12), "12", b"12", [12], object(), int),
    *(np.array([12]), np.array(12.0)),
]
TOO_SMALL = [-1, -(2**31), -(2**63), -(2**64), -(10**5000), np.int8(-1)]
NO_TICKS = [
    *TOO_SMALL,
    *(2**63, 2**63 + 12, 2**64 - 1, 2**64, 10**5000, np.uint64(2**63)),
    2**64 + 12,  # 12, were it cut to 64 bits
]
NO_KEYS = [*TOO_SMALL, 2**64, 2**64 + 12, 10**5000]


class Indexable:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class FunnyInt(int):
    """Counts as the int it is, whatever it says."""

    def __index__(self):
        return 99

    def __eq__(self, other):
        raise AssertionError("nobody needs to ask")

    __hash__ = int.__hash__


TWELVES = [Indexable(12), FunnyInt(12), np.int8(12), np.uint64(12), np.longlong(12), np.array(12)]


@pytest.fixture
def busy(wheel_class):
    """A wheel with a timer that waits, one held back and one past; afterwards it must be as it was."""
    wheel = wheel_class(10)
    handles = [wheel.schedule(15, 1), wheel.schedule(15, 2), wheel.schedule(2**40, 3)]
    assert wheel.advance(20, 1) == [1]
    handles.append(wheel.schedule(7, 4))

    before = snapshot(wheel, handles)
    yield wheel, handles[-1]
    assert snapshot(wheel, handles) == before
    assert wheel.advance(2**41) == [2, 4, 3]


def calls_with(wheel, handle, value):
    """Each call with the value where an int belongs."""
    yield lambda: wheel.schedule(value, 5)
    yield lambda: wheel.reschedule(value, 50)
    yield lambda: wheel.reschedule(handle, value)
    yield lambda: wheel.cancel(value)
    yield lambda: wheel.advance(value)
    yield lambda: wheel.deadline(value)
    yield lambda: wheel.get(value)
    yield lambda: wheel.get(value, 5)
    yield lambda: value in wheel
    yield lambda: wheel.__init__(value)
    if value is not None:  # which says that there is no limit
        yield lambda: wheel.advance(50, value)
        yield lambda: wheel.__init__(max_pending=value)


def test_what_is_not_an_int_is_a_type_error_wherever_an_int_belongs(busy):
    for value in (*NOT_INTS, None):
        for call in calls_with(*busy, value):
            with pytest.raises(TypeError, match="must be an int, not "):
                call()


def test_a_tick_out_of_range_is_an_overflow_error(busy):
    wheel, handle = busy
    for tick in NO_TICKS:
        for call, *arguments in (
            (wheel.schedule, tick, 5),
            (wheel.reschedule, handle, tick),
            (wheel.reschedule, 12345, tick),
            (wheel.advance, tick),
            (wheel.advance, tick, 3),
            (wheel.__init__, tick),
        ):
            with pytest.raises(OverflowError, match=r"2\*\*63-1"):
                call(*arguments)


def test_what_is_no_key_is_refused(core):
    wheel = core.KeyWheel()
    for keys, error, match in (
        (NO_KEYS, OverflowError, r"2\*\*64-1"),
        ([*NOT_INTS, None], TypeError, "key must be an int"),
    ):
        for key in keys:
            with pytest.raises(error, match=match):
                wheel.schedule(5, key)
    assert len(wheel) == 0


def test_whatever_has_an_index_counts_as_an_int(wheel_class):
    for value in TWELVES:
        wheel = wheel_class(value)
        handle = wheel.schedule(value, 5)
        for tick in (wheel.now, wheel.deadline(handle), wheel.next_deadline()):
            assert type(tick) is int
            assert tick == 12
        assert wheel.reschedule(handle, value) is True
        assert wheel.advance(value, value) == [5]
        assert type(wheel.now) is int
        assert wheel.now == 12
        assert value not in wheel
        assert wheel.cancel(value) is False


def test_a_handle_may_be_any_kind_of_int(wheel_class):
    wheel = wheel_class()
    for kind in (np.int64, np.uint64, Indexable):
        handle = kind(wheel.schedule(5, 7))
        assert handle in wheel
        assert wheel.get(handle) == 7
        assert wheel.deadline(handle) == 5
        assert wheel.reschedule(handle, 6) is True
        assert wheel.cancel(handle) is True
        assert wheel.cancel(handle) is False


def test_arguments_are_checked_from_left_to_right(wheel_class):
    wheel = wheel_class(10)
    for first, second in product((-1, "x"), repeat=2):
        expected = TypeError if first == "x" else OverflowError
        with pytest.raises(expected):
            wheel.advance(first, second)
    with pytest.raises(TypeError, match="handle"):
        wheel.reschedule("x", -1)
    with pytest.raises(OverflowError, match="deadline"):
        wheel.schedule(-1, "x")
    with pytest.raises(ValueError, match="limit"):
        wheel.advance(5, -1)  # bad arguments come before bad timing

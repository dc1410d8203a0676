"""Invalid ticks, keys, handles and limits: a clear error, and no change."""

import decimal
import fractions
from itertools import product

import numpy as np
import pytest

from tests.core.snapshot import snapshot

NOT_INTS = {
    "float": 12.0,
    "fraction of a float": 12.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": float("-inf"),
    "np.float64": np.float64(12),
    "np.datetime64": np.datetime64(12, "ms"),
    "Decimal": decimal.Decimal(12),
    "Decimal nan": decimal.Decimal("nan"),
    "Fraction": fractions.Fraction(12),
    "complex": 12j,
    "str": "12",
    "bytes": b"12",
    "list": [12],
    "1-D array": np.array([12]),
    "float array": np.array(12.0),
    "object": object(),
    "type": int,
}
TOO_SMALL = {
    "-1": -1,
    "-2^31": -(2**31),
    "-2^63": -(2**63),
    "-2^64": -(2**64),
    "-huge": -(10**5000),
    "np -1": np.int8(-1),
}
NO_TICKS = {
    **TOO_SMALL,
    "2^63": 2**63,
    "2^63+12": 2**63 + 12,
    "2^64-1": 2**64 - 1,
    "2^64": 2**64,
    "2^64+12": 2**64 + 12,  # 12, were it cut to 64 bits
    "huge": 10**5000,
    "np 2^63": np.uint64(2**63),
}
NO_KEYS = {**TOO_SMALL, "2^64": 2**64, "2^64+12": 2**64 + 12, "huge": 10**5000}


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


TWELVES = {
    "Indexable": Indexable(12),
    "subclass": FunnyInt(12),
    "np.int8": np.int8(12),
    "np.uint64": np.uint64(12),
    "np.longlong": np.longlong(12),
    "0-D array": np.array(12),
}


def parametrised(name, values):
    return pytest.mark.parametrize(name, list(values.values()), ids=list(values))


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


@parametrised("value", {**NOT_INTS, "None": None})
def test_what_is_not_an_int_is_a_type_error_wherever_an_int_belongs(busy, value):
    wheel, handle = busy
    calls = [
        lambda: wheel.schedule(value, 5),
        lambda: wheel.reschedule(value, 50),
        lambda: wheel.reschedule(handle, value),
        lambda: wheel.cancel(value),
        lambda: wheel.advance(value),
        lambda: wheel.deadline(value),
        lambda: wheel.get(value),
        lambda: wheel.get(value, 5),
        lambda: value in wheel,
        lambda: wheel.__init__(value),
    ]
    if value is not None:  # which says that there is no limit
        calls += [lambda: wheel.advance(50, value), lambda: wheel.__init__(max_pending=value)]
    for call in calls:
        with pytest.raises(TypeError, match="must be an int, not "):
            call()


@parametrised("tick", NO_TICKS)
def test_a_tick_out_of_range_is_an_overflow_error(busy, tick):
    wheel, handle = busy
    for call in (
        lambda: wheel.schedule(tick, 5),
        lambda: wheel.reschedule(handle, tick),
        lambda: wheel.reschedule(12345, tick),
        lambda: wheel.advance(tick),
        lambda: wheel.advance(tick, 3),
        lambda: wheel.__init__(tick),
    ):
        with pytest.raises(OverflowError, match=r"2\*\*63-1"):
            call()


@parametrised("key", {**NO_KEYS, **NOT_INTS, "None": None})
def test_what_is_no_key_is_refused(core, key):
    wheel, is_int = core.KeyWheel(), isinstance(key, int | np.integer)
    with pytest.raises(OverflowError if is_int else TypeError, match=r"2\*\*64-1" if is_int else "key must be an int"):
        wheel.schedule(5, key)
    assert len(wheel) == 0


@parametrised("value", TWELVES)
def test_whatever_has_an_index_counts_as_an_int(wheel_class, value):
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

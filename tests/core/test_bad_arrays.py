"""Arrays that a bulk call refuses before it touches the first timer."""

import decimal

import numpy as np
import pytest

from tests.core.snapshot import snapshot

# Each stands for an array of three.
NOT_INTEGERS = {
    "float64": np.array([1.0, 2.0, 3.0]),
    "float32": np.array([1, 2, 3], np.float32),
    "nan": np.array([1.0, np.nan, 3.0]),
    "complex": np.array([1, 2, 3j]),
    "bool": np.array([True, False, True]),
    "bytes": np.array([b"1", b"2", b"3"]),
    "str": np.array(["1", "2", "3"]),
    "datetime": np.array([1, 2, 3], "datetime64[ms]"),
    "timedelta": np.array([1, 2, 3], "timedelta64[ms]"),
    "record": np.zeros(3, [("a", "i8")]),
    "list of floats": [1.0, 2.0, 3.0],
    "list of bools": [True, False, True],
    "list of str": ["1", "2", "3"],
    "list with None": [1, None, 3],
    "objects": np.array([1, object(), 3], object),
    "Decimals": [decimal.Decimal(1)] * 3,
    "int and float": [1, 2.0, 3],
}
WRONG_SHAPES = {
    "0-D": np.array(3),
    "2-D": np.array([[1, 2, 3]]),
    "column": np.array([[1], [2], [3]]),
    "empty 2-D": np.empty((3, 0), np.int64),
    "list of lists": [[1, 2, 3]],
    "ragged": [[1], [2, 3], []],
    "int": 3,
}
OVERFLOWS = {
    "-1": np.array([1, -1, 3]),
    "int8 -1": np.array([1, -1, 3], np.int8),
    "big-endian -1": np.array([1, -1, 3], ">i8"),
    "min": np.array([1, -(2**63), 3]),
    "list -1": [1, -1, 3],
    "list 2^64": [1, 2**64, 3],
    "list huge": [1, 10**5000, 3],
    "list -huge": [1, -(10**5000), 3],
}
TICK_OVERFLOWS = {
    **OVERFLOWS,
    "2^63": np.array([1, 2**63, 3], np.uint64),
    "list 2^63": [1, 2**63, 3],
    "2^64-1": np.array([2**64 - 1, 2, 3], np.uint64),
    "last one": np.array([1, 2, 2**63], np.uint64),
}
GOOD = [1, 2, 3]


def parametrised(name, values):
    return pytest.mark.parametrize(name, list(values.values()), ids=list(values))


@pytest.fixture
def busy(core):
    """A wheel with timers, one held back; afterwards it must be as it was."""
    wheel = core.KeyWheel(10, max_pending=100)
    handles = wheel.schedule_many([15, 15, 15, 2**40], [1, 2, 3, 4])
    assert wheel.advance_many(20, 1).tolist() == [1]

    before = snapshot(wheel, handles)
    yield wheel, handles[1:]
    assert snapshot(wheel, handles) == before
    assert wheel.advance_many(2**41).tolist() == [2, 3, 4]


def calls(wheel, handles, bad, *, as_key=True, as_tick=True, as_handle=True):
    """Every call with the bad array in one place and good ones in the others."""
    if as_tick:
        yield lambda: wheel.schedule_many(bad, GOOD)
        yield lambda: wheel.reschedule_many(handles, bad)
    if as_key:
        yield lambda: wheel.schedule_many(GOOD, bad)
    if as_handle:
        yield lambda: wheel.reschedule_many(bad, GOOD)
        yield lambda: wheel.cancel_many(bad)


@parametrised("bad", NOT_INTEGERS)
def test_another_dtype_is_a_type_error(busy, bad):
    for call in calls(*busy, bad):
        with pytest.raises(TypeError, match="integer dtype"):
            call()


@parametrised("bad", WRONG_SHAPES)
def test_another_number_of_dimensions_is_a_value_error(busy, bad):
    for call in calls(*busy, bad):
        with pytest.raises(ValueError, match="dimension"):
            call()


@parametrised("bad", TICK_OVERFLOWS)
def test_a_tick_out_of_range_is_an_overflow_error(busy, bad):
    for call in calls(*busy, bad, as_key=False, as_handle=False):
        with pytest.raises(OverflowError, match="deadlines"):
            call()


@parametrised("bad", OVERFLOWS)
def test_a_key_out_of_range_is_an_overflow_error(busy, bad):
    for call in calls(*busy, bad, as_tick=False, as_handle=False):
        with pytest.raises(OverflowError, match="keys"):
            call()


@pytest.mark.parametrize("length", [0, 1, 2, 4])
def test_different_lengths_are_a_value_error(busy, length):
    wheel, handles = busy
    other = np.ones(length, np.int64)
    for call in (
        lambda: wheel.schedule_many(GOOD, other),
        lambda: wheel.schedule_many(other, GOOD),
        lambda: wheel.reschedule_many(handles, other),
        lambda: wheel.reschedule_many(other, GOOD),
    ):
        with pytest.raises(ValueError, match="length"):
            call()


@pytest.mark.parametrize(
    "nothing", [None, object(), int, {1, 2, 3}, {1: 2}, iter([1, 2, 3])], ids=lambda value: type(value).__name__
)
def test_what_is_no_array_at_all_is_an_error(busy, nothing):
    for call in calls(*busy, nothing):
        with pytest.raises((TypeError, ValueError), match="must have"):
            call()


@parametrised(
    "handles",
    {
        "zero": np.zeros(3, np.uint64),
        "negative": np.array([-1, -2, -(2**63)]),
        "int8": np.array([-1, 0, 127], np.int8),
        "large": np.array([2**60, 2**63, 2**64 - 1], np.uint64),
    },
)
def test_ints_that_were_never_handles_are_unknown(busy, handles):
    wheel, _ = busy
    assert wheel.cancel_many(handles).tolist() == [False] * 3
    assert wheel.reschedule_many(handles, GOOD).tolist() == [False] * 3


@parametrised("now", {"-1": -1, "2^63": 2**63, "huge": 10**5000})
def test_advance_many_checks_its_tick(busy, now):
    with pytest.raises(OverflowError):
        busy[0].advance_many(now)


@parametrised("now", {"float": 30.0, "None": None, "str": "30", "array": np.array([30, 31]), "nan": float("nan")})
def test_advance_many_takes_an_int(busy, now):
    with pytest.raises(TypeError, match="now must be an int"):
        busy[0].advance_many(now)
    with pytest.raises(TypeError, match="limit must be an int"):
        busy[0].advance_many(30, now if now is not None else 1.0)


def test_advance_many_goes_neither_backwards_nor_with_a_negative_limit(busy):
    wheel, _ = busy
    with pytest.raises(ValueError, match="forwards"):
        wheel.advance_many(19)
    with pytest.raises(ValueError, match="limit"):
        wheel.advance_many(30, -1)


def test_the_last_bad_one_of_many_changes_nothing(busy):
    wheel, handles = busy
    ticks = np.arange(1000)
    ticks[-1] = -1
    with pytest.raises(OverflowError):
        wheel.schedule_many(ticks, range(1000))
    with pytest.raises(OverflowError):
        wheel.reschedule_many(np.resize(handles, 1000), ticks)


def test_the_first_argument_is_checked_first(busy):
    wheel, _ = busy
    with pytest.raises(TypeError, match="deadlines"):
        wheel.schedule_many([1.0, 2.0, 3.0], [-1, 2, 3])
    with pytest.raises(OverflowError, match="deadlines"):
        wheel.schedule_many([-1, 2, 3], [1.0])
    with pytest.raises(TypeError, match="handles"):
        wheel.reschedule_many([1.0], [-1])

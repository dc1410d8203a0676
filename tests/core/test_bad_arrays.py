"""Arrays that a bulk call refuses before it touches the first timer."""

import decimal

import numpy as np
import pytest

from tests.core.snapshot import snapshot

# Each stands for an array of three.
NOT_INTEGERS = [
    *(np.array([1, 2, 3], dtype) for dtype in "f8 f4 c16 bool S1 U1 datetime64[ms] timedelta64[ms]".split()),
    np.array([1.0, np.nan, 3.0]),
    *(np.zeros(3, dtype) for dtype in ([("a", "i8")], "V0", [])),
    [1.0, 2.0, 3.0],
    [True, False, True],
    ["1", "2", "3"],
    [1, None, 3],
    np.array([1, object(), 3], object),
    [decimal.Decimal(1)] * 3,
    [1, 2.0, 3],
]
WRONG_SHAPES = [
    *(np.ones(shape, np.int64) for shape in [(), (1, 3), (3, 1), (3, 0)]),
    [[1, 2, 3]],
    [[1], [2, 3], []],
    3,
]
OVERFLOWS = [
    *(np.array([1, -1, 3], dtype) for dtype in ("i8", "i1", ">i8")),
    np.array([1, -(2**63), 3]),
    [1, -1, 3],
    [1, 2**64, 3],
    [1, 10**5000, 3],
    [1, -(10**5000), 3],
]
TICK_OVERFLOWS = [
    *OVERFLOWS,
    np.array([1, 2**63, 3], np.uint64),
    [1, 2**63, 3],
    np.array([2**64 - 1, 2, 3], np.uint64),
    np.array([1, 2, 2**63], np.uint64),
]
NO_ARRAYS = [None, object(), int, {1, 2, 3}, {1: 2}, iter([1, 2, 3])]
GOOD = [1, 2, 3]


# The error of each, and its places: of ticks, of keys, of handles.
REFUSED = [
    *((bad, TypeError, "integer dtype", "tick key handle") for bad in NOT_INTEGERS),
    *((bad, ValueError, "dimension", "tick key handle") for bad in WRONG_SHAPES),
    *((bad, OverflowError, "deadlines", "tick") for bad in TICK_OVERFLOWS),
    *((bad, OverflowError, "keys", "key") for bad in OVERFLOWS),
    *((bad, (TypeError, ValueError), "must have", "tick key handle") for bad in NO_ARRAYS),
]


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


def calls(wheel, handles, bad, places):
    """Every call with the bad array in one of the places and good ones in the others."""
    if "tick" in places:
        yield lambda: wheel.schedule_many(bad, GOOD)
        yield lambda: wheel.reschedule_many(handles, bad)
    if "key" in places:
        yield lambda: wheel.schedule_many(GOOD, bad)
    if "handle" in places:
        yield lambda: wheel.reschedule_many(bad, GOOD)
        yield lambda: wheel.cancel_many(bad)


def test_a_bad_array_is_refused_wherever_it_stands(busy):
    for bad, error, match, places in REFUSED:
        for call in calls(*busy, bad, places):
            with pytest.raises(error, match=match):
                call()


def test_different_lengths_are_a_value_error(busy):
    for length in (0, 1, 2, 4):
        for call in calls(*busy, np.ones(length, np.int64), "tick key"):
            with pytest.raises(ValueError, match="length"):
                call()


def test_ints_that_were_never_handles_are_unknown(busy):
    wheel, _ = busy
    for handles in (
        np.zeros(3, np.uint64),
        np.array([-1, -2, -(2**63)]),
        np.array([-1, 0, 127], np.int8),
        np.array([2**60, 2**63, 2**64 - 1], np.uint64),
    ):
        assert wheel.cancel_many(handles).tolist() == [False] * 3
        assert wheel.reschedule_many(handles, GOOD).tolist() == [False] * 3


def test_advance_many_refuses_what_advance_does(busy):
    for arguments, error, match in (
        *(((now,), OverflowError, "now") for now in (-1, 2**63, 10**5000)),
        *(((now,), TypeError, "now must be an int") for now in (30.0, None, np.array([30, 31]))),
        ((30, 1.0), TypeError, "limit must be an int"),
        ((19,), ValueError, "forwards"),
        ((30, -1), ValueError, "limit"),
    ):
        with pytest.raises(error, match=match):
            busy[0].advance_many(*arguments)


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

"""The calls of KeyWheel that take arrays: what they return, and that they do what a loop of single calls does."""

import numpy as np
import pytest

from tests.core.model import MAX_TICK

INTEGER_TYPES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 >i2 >i8 >u8 longlong".split()


def test_schedule_many_returns_handles_that_the_single_calls_take(any_core):
    wheel = any_core.KeyWheel()
    handles = wheel.schedule_many([5, 3, 5, 4], [50, 30, 51, 40])
    assert type(handles) is np.ndarray
    assert (handles.dtype, handles.shape) == (np.uint64, (4,))
    assert [wheel.get(handle) for handle in handles] == [50, 30, 51, 40]
    assert [wheel.deadline(handle) for handle in handles.tolist()] == [5, 3, 5, 4]
    assert wheel.cancel(handles[2]) is True
    wheel._check()
    assert wheel.advance(10) == [30, 40, 50]


def test_the_results_belong_to_the_caller(any_core):
    wheel = any_core.KeyWheel()
    handles = wheel.schedule_many([5, 6], [1, 2])
    handles[:] = 0
    keys = wheel.advance_many(10)
    assert keys.tolist() == [1, 2]
    keys[:] = 0
    for array in (handles, keys):
        assert array.flags.owndata or array.base is not None
        assert array.flags.writeable
        assert array.flags.c_contiguous


def test_a_handle_twice_in_cancel_many_is_cancelled_once(any_core):
    wheel = any_core.KeyWheel()
    a, b = wheel.schedule_many([5, 5], [0, 1])
    found = wheel.cancel_many(np.array([a, a, 0, b, b], np.uint64))
    assert found.dtype == np.bool_
    assert found.tolist() == [True, False, False, True, False]
    assert len(wheel) == 0


def test_every_integer_dtype_is_welcome(core):
    for dtype in INTEGER_TYPES:
        wheel = core.KeyWheel()
        handles = wheel.schedule_many(np.array([5, 3], dtype), np.array([100, 101], dtype))
        assert wheel.reschedule_many(handles, np.array([7, 8], dtype)).all()
        assert wheel.advance_many(np.dtype(dtype).type(8)).tolist() == [100, 101]
        assert wheel.cancel_many(np.array([1, 2], dtype)).tolist() == [False, False]


def strided(values, dtype):
    spread = np.full(2 * len(values), 99, dtype)
    spread[::2] = values
    return spread[::2]


def backward(values, dtype):
    return np.array(values[::-1], dtype)[::-1]


def field(values, dtype):
    records = np.zeros(len(values), [("a", "u1"), ("b", dtype)])  # unaligned as well
    records["b"] = values
    return records["b"]


def read_only(values, dtype):
    array = np.array(values, dtype)
    array.flags.writeable = False
    return array


def column(values, dtype):
    return np.array([values, values], dtype, order="F").T[:, 1]


def subclass(values, dtype):
    class Marked(np.ndarray):
        pass

    return np.array(values, dtype).view(Marked)


def view_of_memory(values, dtype):
    return memoryview(np.array(values, dtype))


LAYOUTS = [strided, backward, field, read_only, column, subclass, view_of_memory]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", ">i8"])
def test_every_layout_is_welcome(core, dtype):
    for layout in LAYOUTS:
        wheel = core.KeyWheel()
        handles = wheel.schedule_many(layout([5, 6, 7], dtype), layout([1, 2, 3], dtype))
        assert [wheel.deadline(handle) for handle in handles] == [5, 6, 7]
        handle_type = dtype if dtype != "int32" else "uint64"
        found = wheel.reschedule_many(layout(handles.tolist(), handle_type), layout([10, 9, 8], dtype))
        assert found.tolist() == [True] * 3
        assert wheel.cancel_many(layout(handles.tolist(), handle_type)[1:2]).tolist() == [True]
        wheel._check()
        assert wheel.advance_many(20).tolist() == [3, 1]


@pytest.mark.parametrize("make", [list, tuple])
def test_sequences_of_ints_of_any_size_are_welcome(core, make):
    """NumPy by itself makes floats of ints from both sides of 2**63."""
    wheel = core.KeyWheel()
    handles = wheel.schedule_many(make([5, 6, 7, MAX_TICK]), make([1, 2**63, 2**64 - 1, 2**53 + 1]))
    assert wheel.cancel_many(make([handles[1], 0, -1, 2**63])).tolist() == [True, False, False, False]
    assert wheel.advance_many(8).tolist() == [1, 2**64 - 1]
    assert wheel.advance_many(MAX_TICK).tolist() == [2**53 + 1]


@pytest.mark.parametrize(
    "empty", [[], (), np.empty(0, np.int64), np.empty(0, np.uint8)], ids=["list", "tuple", "i8", "u1"]
)
def test_nothing_is_fine(core, empty):
    wheel = core.KeyWheel(3)
    handles = wheel.schedule_many(empty, empty)
    assert (handles.dtype, handles.shape) == (np.uint64, (0,))
    for found in (wheel.reschedule_many(empty, empty), wheel.cancel_many(empty)):
        assert (found.dtype, found.shape) == (np.bool_, (0,))
    keys = wheel.advance_many(5)
    assert (keys.dtype, keys.shape) == (np.uint64, (0,))
    assert wheel.now == 5

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


def test_reschedule_many_goes_in_array_order_and_says_which_were_pending(any_core):
    wheel = any_core.KeyWheel()
    handles = wheel.schedule_many([5] * 4, [0, 1, 2, 3])
    wheel.cancel(int(handles[1]))
    found = wheel.reschedule_many(handles[[3, 1, 0, 3]], [9, 9, 9, 9])
    assert found.dtype == np.bool_
    assert found.tolist() == [True, False, True, True]
    wheel._check()
    assert wheel.advance_many(8).tolist() == [2]
    assert wheel.advance_many(9).tolist() == [0, 3]


def test_a_handle_twice_in_cancel_many_is_cancelled_once(any_core):
    wheel = any_core.KeyWheel()
    a, b = wheel.schedule_many([5, 5], [0, 1])
    found = wheel.cancel_many(np.array([a, a, 0, b, b], np.uint64))
    assert found.dtype == np.bool_
    assert found.tolist() == [True, False, False, True, False]
    assert len(wheel) == 0


def test_advance_many_returns_what_advance_would(any_core):
    single, many = any_core.KeyWheel(), any_core.KeyWheel()
    ticks = [number * number % 97 for number in range(500)]
    for number, tick in enumerate(ticks):
        single.schedule(tick, number)
    many.schedule_many(ticks, range(500))
    for now, limit in ((10, None), (20, 7), (20, 0), (30, 100), (60, 1), (60, None), (100, 10**6)):
        keys = many.advance_many(now, limit)
        assert (type(keys), keys.dtype, keys.ndim) == (np.ndarray, np.uint64, 1)
        assert keys.tolist() == single.advance(now, limit)
        assert many.now == single.now
        many._check()


def test_bulk_and_single_calls_mix(any_core):
    wheel = any_core.KeyWheel(100)
    first = wheel.schedule(150, 1)
    handles = wheel.schedule_many([150, 50, 200], [2, 3, 4])
    wheel.schedule(150, 5)
    assert wheel.advance_many(100).tolist() == [3]
    assert wheel.reschedule_many([first], [150]).tolist() == [True]
    assert wheel.advance(150, 1) == [2]
    assert wheel.reschedule_many([handles[2]], [0]).tolist() == [True]
    assert wheel.advance_many(150, 2).tolist() == [5, 1]
    assert wheel.cancel_many(handles).tolist() == [False, False, True]


def test_bulk_calls_reach_held_back_timers(any_core):
    wheel = any_core.KeyWheel()
    handles = wheel.schedule_many([5] * 6, range(6))
    assert wheel.advance_many(5, 1).tolist() == [0]
    assert wheel.cancel_many(handles[[0, 2]]).tolist() == [False, True]
    assert wheel.reschedule_many(handles[[1, 3]], [5, 9]).tolist() == [True, True]
    wheel._check()
    assert wheel.advance_many(5).tolist() == [4, 5, 1]
    assert wheel.advance_many(9).tolist() == [3]


@pytest.mark.parametrize("dtype", INTEGER_TYPES)
def test_every_integer_dtype_is_welcome(core, dtype):
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


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.__name__)
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", ">i8"])
def test_every_layout_is_welcome(core, layout, dtype):
    wheel = core.KeyWheel()
    handles = wheel.schedule_many(layout([5, 6, 7], dtype), layout([1, 2, 3], dtype))
    assert [wheel.deadline(handle) for handle in handles] == [5, 6, 7]
    handle_type = dtype if dtype != "int32" else "uint64"
    found = wheel.reschedule_many(layout(handles.tolist(), handle_type), layout([10, 9, 8], dtype))
    assert found.tolist() == [True] * 3
    assert wheel.cancel_many(layout(handles.tolist(), handle_type)[1:2]).tolist() == [True]
    wheel._check()
    assert wheel.advance_many(20).tolist() == [3, 1]


@pytest.mark.parametrize("make", [list, tuple, np.array], ids=lambda make: make.__name__)
def test_plain_sequences_of_ints_are_welcome(core, make):
    wheel = core.KeyWheel()
    handles = wheel.schedule_many(make([5, MAX_TICK]), make([0, 1]))
    assert wheel.reschedule_many(make(handles.tolist()), make([6, 7])).tolist() == [True, True]
    assert wheel.cancel_many(make(handles.tolist()[:1])).tolist() == [True]
    assert wheel.advance_many(7).tolist() == [1]


def test_sequences_of_ints_of_any_size_are_welcome(core):
    """NumPy by itself makes floats of ints from both sides of 2**63."""
    wheel = core.KeyWheel()
    keys = [1, 2**63, 2**64 - 1, 2**53 + 1]
    handles = wheel.schedule_many([5, 6, 7, 8], keys)
    assert wheel.cancel_many([handles[1], 0, -1, 2**63]).tolist() == [True, False, False, False]
    assert wheel.advance_many(8).tolist() == [1, 2**64 - 1, 2**53 + 1]


def test_keys_and_ticks_reach_to_their_last_value(core):
    wheel = core.KeyWheel()
    wheel.schedule_many(np.array([MAX_TICK, 0], np.uint64), np.array([2**64 - 1, 2**63], np.uint64))
    wheel.schedule_many([MAX_TICK], [2**64 - 1])
    wheel._check()
    assert wheel.advance_many(0).tolist() == [2**63]
    assert wheel.advance_many(MAX_TICK).tolist() == [2**64 - 1] * 2


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


def test_a_result_may_be_the_next_argument(core):
    wheel = core.KeyWheel()
    keys = np.arange(100, dtype=np.uint64)
    for now in range(1, 20):
        handles = wheel.schedule_many(np.full(len(keys), now), keys)
        assert wheel.reschedule_many(handles, handles - handles + np.uint64(now)).all()
        keys = wheel.advance_many(now)
        assert keys.tolist() == list(range(100))

"""The arguments that the wheels accept, and the errors for all others: one wording for both implementations.

The native wheel reads a plain int by itself and calls these functions for the rest. No message quotes the offending
number: Python refuses to print an int of more than 4 300 digits.
"""

from __future__ import annotations

from collections.abc import Sized
from operator import index
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_TICK: Final = 2**63 - 1
MAX_KEY: Final = 2**64 - 1


def integer(value: Any, name: str) -> int:
    """Return `value` as a plain int: an int, a bool, a NumPy integer, anything with ``__index__``.

    TypeError for anything else, including floats of any value.
    """
    try:
        return int(index(value))  # a subclass may define an equality of its own
    except TypeError:
        raise TypeError(f"{name} must be an int, not {type(value).__name__}") from None


def tick(value: Any, name: str) -> int:
    """Return `value` as a tick; OverflowError outside ``0 .. 2**63-1``."""
    number = integer(value, name)
    if not 0 <= number <= MAX_TICK:
        raise OverflowError(f"{name} is out of range: a tick is 0 .. 2**63-1")
    return number


def key(value: Any) -> int:
    """Return `value` as a key; OverflowError outside ``0 .. 2**64-1``."""
    number = integer(value, "key")
    if not 0 <= number <= MAX_KEY:
        raise OverflowError("key is out of range: a key is 0 .. 2**64-1")
    return number


def handle(value: Any) -> int:
    """Return `value` as a handle; 0, which no timer ever has, for an int that cannot be one."""
    number = integer(value, "handle")
    return number if 0 <= number <= MAX_TICK else 0


def limit(value: Any) -> int:
    """Return how many timers an advance may return; None means no limit. ValueError below 0."""
    if value is None:
        return MAX_TICK
    number = integer(value, "limit")
    if number < 0:
        raise ValueError("limit must be 0 or more, or None for no limit")
    return min(number, MAX_TICK)


def room(value: Any) -> int:
    """Return the number of timers to reserve room for. ValueError below 0."""
    number = integer(value, "count")
    if number < 0:
        raise ValueError("count must be 0 or more")
    return min(number, MAX_TICK)


def max_pending(value: Any) -> int | None:
    """Return the most timers a wheel may hold; None means no limit. ValueError below 1."""
    if value is None:
        return None
    number = integer(value, "max_pending")
    if number < 1:
        raise ValueError("max_pending must be 1 or more, or None for no limit")
    return int(number)


def backwards() -> ValueError:
    """Return the error for an advance to a tick before the wheel's `now`."""
    return ValueError("time only goes forwards: cannot advance to a tick before now")


def numpy() -> Any:
    """Import NumPy on the first bulk call; ImportError says how to get it."""
    try:
        import numpy
    except ImportError as error:
        raise ImportError("the *_many methods need NumPy: pip install 'pywheel-timer[numpy]'") from error
    return numpy


def integers(values: Any, name: str, strays: int | None = None) -> NDArray[Any]:
    """Return `values` as a contiguous int64 or uint64 array of one dimension, copied only if necessary.

    Any integer dtype, byte order and stride is accepted, as is a sequence of ints. TypeError for other dtypes,
    including bool; ValueError for another number of dimensions; OverflowError for an int of more than 64 bits, unless
    `strays` is given, which then replaces it.
    """
    np = numpy()
    try:
        array = np.asarray(values)
    except OverflowError:
        raise OverflowError(f"{name} has an int of more than 64 bits") from None
    except ValueError:
        raise ValueError(f"{name} must have one dimension") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if array.size == 0 and not isinstance(values, np.ndarray):
        return cast("NDArray[Any]", np.empty(0, np.uint64))
    if array.dtype.kind in "fO" and not isinstance(values, np.ndarray):
        array = _wide_integers(values, name, strays)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must have an integer dtype, not {array.dtype}")
    return cast("NDArray[Any]", np.require(array, np.dtype(f"{array.dtype.kind}8"), ["C", "A"]))


def _wide_integers(values: Any, name: str, strays: int | None) -> NDArray[Any]:
    """Return ints for which NumPy finds no integer dtype: those on both sides of 2**63 - 1, or of more than 64 bits.

    An int outside ``0 .. 2**64-1`` raises OverflowError, or is replaced by `strays`.
    """
    try:
        numbers = [index(value) for value in values]
    except TypeError:
        raise TypeError(f"{name} must have an integer dtype, or be ints") from None
    if strays is not None:
        numbers = [number if 0 <= number <= MAX_KEY else strays for number in numbers]
    elif not all(0 <= number <= MAX_KEY for number in numbers):
        raise OverflowError(f"{name} has a value out of range")
    return cast("NDArray[Any]", numpy().array(numbers, "u8"))


def deadlines(values: Any) -> NDArray[np.int64]:
    """Return `values` as an int64 array of ticks; OverflowError if one is outside ``0 .. 2**63-1``."""
    array = integers(values, "deadlines")
    if array.size and (array.min() < 0 or array.max() > MAX_TICK):
        raise OverflowError("deadlines has a value out of range: a tick is 0 .. 2**63-1")
    return array.view("int64")


def keys(values: Any) -> NDArray[np.uint64]:
    """Return `values` as a uint64 array of keys; OverflowError if one is negative."""
    array = integers(values, "keys")
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        raise OverflowError("keys has a value out of range: a key is 0 .. 2**64-1")
    return array.view("uint64")


def handles(values: Any) -> NDArray[np.uint64]:
    """Return `values` as a uint64 array of handles; 0 stands for a negative one, which no timer ever has."""
    array = integers(values, "handles", 0)
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        array = array.clip(0)
    return array.view("uint64")


def same_length(first: Sized, second: Sized, names: str) -> None:
    """Raise ValueError unless both arrays have the same length."""
    if len(first) != len(second):
        raise ValueError(f"{names} must have the same length, not {len(first)} and {len(second)}")

"""Seconds as people write them, turned into whole nanoseconds, or refused with a clear error.

The clock's own reading, a float, decides: 0.1 s is the first nanosecond at which a clock shows 0.1 or more. So no timer
is early, however coarse floats have become with the machine's uptime, and 0.1 is not 100 000 001 ns because of its
seventeenth digit.
"""

from __future__ import annotations

from datetime import timedelta
from math import ceil, floor, isfinite
from operator import index
from typing import Any, Final, SupportsFloat, SupportsIndex, TypeAlias

Seconds: TypeAlias = SupportsFloat | SupportsIndex | timedelta
"""A number of seconds, or a timedelta."""

NANO: Final = 1_000_000_000
LONGEST: Final = 2**62
"""The longest duration and the latest instant, in nanoseconds: 146 years."""


def too_far(name: str) -> ValueError:
    """Return the error for a time beyond 146 years."""
    return ValueError(f"{name} is out of range: at most 146 years, which is {LONGEST // NANO} seconds")


def first_ns(value: float) -> int:
    """Return the first nanosecond `ns` for which ``ns / 1e9 >= value``; value is finite."""
    whole = floor(value)
    ns = whole * NANO + ceil((value - whole) * 1e9)
    while ns / 1e9 < value:
        ns += 1
    while (ns - 1) / 1e9 >= value:
        ns -= 1
    return ns


def signed_ns(value: Any, name: str) -> int:
    """Return seconds as nanoseconds. All times far below zero become one number.

    Raises:
        TypeError: it is not a number and not a timedelta.
        ValueError: it is not finite, or beyond 146 years.
    """
    if isinstance(value, timedelta):
        return _bounded(((value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds) * 1_000, name)
    if isinstance(value, (str, bytes, bytearray)):
        raise _no_seconds(value, name)
    try:
        return _bounded(index(value) * NANO, name)
    except TypeError:
        number = _as_float(value, name)
    if not isfinite(number):
        raise ValueError(f"{name} must be a finite number of seconds, not {number}")
    return _bounded(first_ns(number) if abs(number) < 2 * LONGEST / NANO else int(number) * NANO, name)


def unsigned_ns(value: Any, name: str) -> int:
    """Return a duration or an instant in nanoseconds; a negative one is 0: due at once. Errors as for `signed_ns`."""
    return max(signed_ns(value, name), 0)


def tick_ns(value: Any) -> int:
    """Return the length of a tick in nanoseconds. Errors as for `signed_ns`; ValueError unless it is 1 us to 1 hour."""
    nanoseconds = signed_ns(value, "tick")
    if not 1_000 <= nanoseconds <= 3_600 * NANO:
        raise ValueError("tick must be from 0.000001 to 3600 seconds")
    return nanoseconds


def _as_float(value: Any, name: str) -> float:
    if not hasattr(type(value), "__float__"):
        raise _no_seconds(value, name)
    try:
        return float(value)
    except OverflowError:
        raise too_far(name) from None


def _bounded(nanoseconds: int, name: str) -> int:
    if nanoseconds > LONGEST:
        raise too_far(name)
    return max(nanoseconds, -LONGEST)


def _no_seconds(value: Any, name: str) -> TypeError:
    return TypeError(f"{name} must be seconds, as a number or a timedelta, not {type(value).__name__}")

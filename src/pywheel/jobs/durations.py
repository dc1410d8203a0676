"""Durations and moments as people write them, in whole milliseconds.

Numbers and timedeltas mean what they mean for timers, and have the same limit; text is for jobs and the command line.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from .._errors import BadJob, PywheelError
from .._seconds import LONGEST as LONGEST_NS
from .._seconds import signed_ns

Duration = float | timedelta | str
"""Seconds, a timedelta, or text: a number and a unit, one or more times, such as ``"30m"`` or ``"1h 30m"``.

A minus before the text makes all of it negative. The text has 100 characters at most."""

LONGEST: Final = LONGEST_NS // 1_000_000  # ms: 146 years, as for timers
KEEP: Final = "1d"
"""How long workers keep done and cancelled jobs by default."""
KEEP_DEAD: Final = "30d"
"""How long workers keep dead jobs by default, unless the others are kept for longer."""
_DUST: Final = 1e-6  # ms, one nanosecond: 0.1 s is 100 ms, though the float is a little more than a tenth
_EXACT: Final = 1e5  # seconds up to which floats are finer than the dust by far
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)\s*", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def delay_ms(value: Duration | Any, name: str = "delay") -> int:
    """Return a delay in ms, rounded up; a negative delay is 0: due at once.

    Raises:
        BadJob: it is not a duration, not finite, or longer than 146 years.
    """
    # The fast path of nearly every put; the tests compare both ways.
    if type(value) is float and 0.0 <= value < _EXACT:
        return math.ceil(value * 1000 - _DUST)
    if type(value) is int and 0 <= value < _EXACT:
        return value * 1000
    return max(signed_ms(value, name), 0)


def duration(value: Duration | Any, name: str, least: int = 0, *, error: type[PywheelError] = BadJob) -> int:
    """Return a length of time in ms, rounded up.

    Raises:
        BadJob: or `error`: it is not a duration, negative, less than `least` ms, not finite, or longer than 146 years.
    """
    milliseconds = signed_ms(value, name, error=error)
    if milliseconds < 0:
        raise error(f"{name} must not be negative, and is {value!r:.60}")
    if milliseconds < least:
        raise error(f"{name} must be {least} ms or more, and is {value!r:.60}")
    return milliseconds


def signed_ms(value: Duration | Any, name: str, *, error: type[PywheelError] = BadJob) -> int:
    """Return a time in ms, rounded up. All times far below zero become one number.

    Raises:
        BadJob: or `error`: it is not a duration, not finite, or longer than 146 years.
    """
    wanted = f"{name} must be seconds, a timedelta or text such as '30m', not"
    if isinstance(value, str):
        refuse_long(value, name, error=error)
    if isinstance(value, bool):
        raise error(f"{wanted} a bool")
    try:
        if isinstance(value, str):
            return _parsed(value, name)
        nanoseconds = signed_ns(value, name)
    except TypeError:
        raise error(f"{wanted} {type(value).__name__}") from None
    except ValueError as wrong:
        raise error(str(wrong)) from None
    return -((1 - nanoseconds) // 1_000_000)


def span_text(ms: int) -> str:
    """Return a length of time in the largest unit in which it is a whole number: 90 min are "90m"."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if ms % size == 0:
            return f"{ms // size}{unit}"
    return f"{ms}ms"


def refuse_long(text: str, name: str, most: int = 100, *, error: type[PywheelError] = BadJob) -> None:
    """Raise BadJob, or `error`, for a text longer than `most` characters.

    Parsing it would take long, and a cache would keep it.
    """
    if len(text) > most:
        raise error(f"{name} has {len(text)} characters, at most {most} are allowed")


@lru_cache  # a program has few durations, and each put repeats one
def _parsed(text: str, name: str) -> int:
    sign = -1 if text.startswith("-") else 1
    total, begin = 0.0, int(sign < 0)
    at = begin
    while match := _PART.match(text, at):
        total += sign * float(match[1]) * _UNITS[match[2]]
        at = match.end()
    if at == begin or at != len(text):
        raise ValueError(f"{name} {text[:60]!r} is not understood: write it like 500ms, 30s, 10m, 1h 30m, 2d")
    if not total <= LONGEST:
        raise ValueError(f"{name} is out of range: at most 146 years, which is {LONGEST // 86_400_000} days")
    return math.ceil(max(total, -LONGEST) - _DUST)


def moment(value: Any, name: str = "at", *, error: type[PywheelError] = BadJob) -> int:
    """Return an aware datetime in ms since 1970, rounded up.

    Raises:
        BadJob: or `error`: it is not a datetime, has no time zone, or lies before 1970.
    """
    if not isinstance(value, datetime):
        raise error(f"{name} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise error(f"{name} has no time zone: use datetime.now(timezone.utc) or .astimezone()")
    milliseconds = -(-(value - _EPOCH) // timedelta(milliseconds=1))
    if milliseconds < 0:
        raise error(f"{name} lies before 1970")
    return milliseconds

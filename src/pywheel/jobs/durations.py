"""Durations and moments as people write them, in whole milliseconds."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import Any, Final

from .._errors import BadJob

__all__ = ["Duration", "duration", "moment"]

Duration = float | timedelta | str
"""Seconds, a timedelta, or text: a number and a unit, one or more times, such as ``"30m"`` or ``"1h 30m"``."""

LONGEST: Final = 2**53  # ms; some 285 000 years, and every sum of two still fits into 63 bits
_NUMBER: Final = (int, float)
_DUST: Final = 1e-6  # ms: 0.1 s is 100 ms, though 0.1 is a little more than a tenth
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)\s*", re.ASCII)


def duration(value: Duration | Any, name: str = "delay") -> int:
    """Return a duration in ms, rounded up. BadJob if it is none, negative, or longer than 2**53 ms."""
    if isinstance(value, _NUMBER) and not isinstance(value, bool):
        if not -LONGEST <= value <= LONGEST:
            raise BadJob(f"{name} must be a finite number of seconds, not {value!r:.40}")
        milliseconds = math.ceil(value * 1000 - _DUST)
    elif isinstance(value, timedelta):
        milliseconds = -(-value // timedelta(milliseconds=1))
    elif isinstance(value, str):
        milliseconds = _parsed(value, name)
    else:
        raise BadJob(f"{name} must be seconds, a timedelta or text such as '30m', not {type(value).__name__}")
    if not 0 <= milliseconds <= LONGEST:
        raise BadJob(f"{name} must be from 0 to 2**53 ms, not {value!r:.60}")
    return milliseconds


def _parsed(text: str, name: str) -> int:
    total, at = 0.0, 0
    while match := _PART.match(text, at):
        total += float(match[1]) * _UNITS[match[2]]
        at = match.end()
    if at == 0 or at != len(text):
        raise BadJob(f"{name} {text[:60]!r} is not understood: write it like 500ms, 30s, 10m, 1h 30m, 2d")
    return math.ceil(total) if math.isfinite(total) else LONGEST + 1


def moment(value: Any, name: str = "at") -> int:
    """Return an aware datetime in ms since 1970, rounded up. BadJob for a naive one, or one before 1970."""
    if not isinstance(value, datetime):
        raise BadJob(f"{name} must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise BadJob(f"{name} has no time zone: use datetime.now(timezone.utc) or .astimezone()")
    since = value - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    milliseconds = -(-since // timedelta(milliseconds=1))
    if milliseconds < 0:
        raise BadJob(f"{name} lies before 1970")
    return milliseconds

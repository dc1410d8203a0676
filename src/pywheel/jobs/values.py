"""Checks of single values: each raises BadJob, and says what was expected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .._errors import BadJob

__all__ = ["FURTHEST", "integer", "number", "shown", "text", "text_by_name", "whole"]

FURTHEST: Final = 2**62
"""Times and durations lie within this: two of them can be added in 64 bits."""
_NEAREST: Final = -FURTHEST


def whole(value: Any, name: str, most: int, least: int = 1) -> int:
    """Return an int from `least` to `most`. BadJob for anything else, bool included."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadJob(f"{name} must be a whole number from {least} to {most}, not {shown(value)}")
    return value


def number(value: Any, name: str, least: float, most: float) -> float:
    """Return a number between two. BadJob for anything else, bool and nan included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise BadJob(f"{name} must be a number from {least:g} to {most:g}, not {shown(value)}")
    return value


def integer(value: Any, name: str) -> None:
    """Check that a value is a time or a duration: an int of 62 bits."""
    if type(value) is not int or not _NEAREST < value < FURTHEST:
        raise BadJob(f"{name} must be a whole number of 62 bits, not {value!r:.40}")


def text(value: Any, name: str) -> None:
    """Check that a value is text that every store can keep."""
    if type(value) is not str:
        raise BadJob(f"{name} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise BadJob(f"{name} must be text without NUL, not {value!r:.40}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadJob(f"{name} must be text that UTF-8 can hold, not {value!r:.40}") from None


def text_by_name(values: Mapping[Any, Any], name: str) -> None:
    """Check the names and the values of a mapping."""
    for one, value in values.items():
        text(one, f"the name of a {name}")
        text(value, f"a {name}")


def shown(value: Any) -> str:
    """Return a value in a few characters; an int of a million digits too."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    return f"{value!r:.40}"

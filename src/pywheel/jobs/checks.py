"""What numbers a caller may give."""

from __future__ import annotations

from typing import Any

from .._errors import BadJob

__all__ = ["number", "whole"]


def whole(value: Any, name: str, most: int) -> int:
    """Return an int from 1 to `most`. BadJob for anything else, bool included."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadJob(f"{name} must be a whole number from 1 to {most}, not {value!r:.40}")
    return value


def number(value: Any, name: str, least: float, most: float) -> float:
    """Return a number between two. BadJob for anything else, bool and nan included."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise BadJob(f"{name} must be a number from {least:g} to {most:g}, not {value!r:.40}")
    return value

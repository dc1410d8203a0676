"""Columns of values as PostgreSQL's arrays. Numbers go as text: psycopg would adapt them one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["columns", "flags", "numbers"]


def numbers(values: Iterable[int | None]) -> str:
    """Return integers as an array."""
    return "{" + str(list(values))[1:-1].replace("None", "NULL") + "}"


def flags(values: Iterable[bool | None]) -> str:
    """Return booleans as an array."""
    return numbers(values)


def columns(rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return rows as columns, each an array."""
    return [_array(column) for column in zip(*rows, strict=True)]


def _array(column: tuple[Any, ...]) -> Any:
    kinds = set(map(type, column))
    kinds.discard(type(None))
    return list(column) if kinds and not kinds <= {int, bool} else numbers(column)

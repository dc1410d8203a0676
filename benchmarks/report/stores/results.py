"""The results: by measure, by store, a turn for each round."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TypedDict

STORES = {
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "mysql": "MariaDB",
    "redis": "Redis everysec",
    "redis-always": "Redis always",
}


class Turn(TypedDict):
    """One measurement of one store, and the seconds of the floors before it."""

    part: int
    """The divisor of the number of jobs: 10 is a tenth."""
    server: str
    """The server's version."""
    load: float
    """The load average of the minute before."""
    fsync: float
    trip: float
    values: dict[str, float]


Results = dict[str, dict[str, list[Turn]]]


def middle(turns: Sequence[Turn], key: str) -> float | None:
    """Return the median of the rounds; None if there is none."""
    values = [turn["values"][key] for turn in turns if key in turn["values"]]
    return median(values) if values else None

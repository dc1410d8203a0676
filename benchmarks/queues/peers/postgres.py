"""The rows that are left in a table of PostgreSQL, for the queues that live there."""

from __future__ import annotations

import os
from functools import cache

import psycopg


@cache
def _connection() -> psycopg.Connection[tuple[int]]:
    return psycopg.connect(os.environ["JOBS_URL"], autocommit=True)


def counted(what: str) -> int:
    """Return how many rows there are."""
    [(rows,)] = _connection().execute(f"SELECT count(*) FROM {what}")  # type: ignore[arg-type]
    return rows

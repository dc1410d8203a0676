"""Checking the tables of a server against each other, in a transaction that the database's own part begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..sql import verify as tables
from ..sql.statement import Batch
from ..sql.transaction import Names, Tally
from ..verify import IDS, Finding, verified
from .dialect import ServerDialect
from .session import drive

__all__ = ["find", "mended"]

Send = Callable[[Batch], Sequence[Any]]
"""Runs statements, and returns the rows of each."""


def find(send: Send, dialect: ServerDialect) -> list[Finding]:
    """Return what is wrong with the tables, as one transaction sees them."""
    return drive(send, tables.find(Names("topic"), dialect.tallies(), [_ids(dialect)]))


def mended(send: Send, dialect: ServerDialect) -> list[Finding]:
    """Return what is wrong with the tables, and what of it was mended, in a transaction beside which nobody writes."""

    def mend() -> None:
        tally = Tally()
        tally.rows = drive(send, tables.mend(dialect.tallies(), [_ids(dialect)]))
        send(dialect.counted(tally))

    return verified(lambda: find(send, dialect), mend)


def _ids(dialect: ServerDialect) -> tables.Check:
    """Return a look for ids that would be given out once more."""
    both = ("job", "finished")
    found = " UNION ALL ".join(f"SELECT id FROM {table} WHERE id > {dialect.last_id}" for table in both)
    return tables.Check(IDS, found, tuple(map(dialect.raise_ids, both)))

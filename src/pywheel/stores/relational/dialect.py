"""The common part of the servers' dialects: the time is the server's, and counts are rows that are summed up."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from ..sql.dialect import Dialect
from ..sql.schema import TYPES
from ..sql.statement import Batch, Insert, Select, Statement, Steps
from ..sql.transaction import Tally, Transaction

_NAMES: Final = "topic|worker|job|finished|attempt|nonce|note|tally|member|hint|schema|number|request"
_TABLE: Final = re.compile(rf"\b(FROM|JOIN|STRAIGHT_JOIN|INTO|UPDATE|TABLE|ON|USING) ({_NAMES})\b")
_COLUMN: Final = re.compile(rf"(?<![:.\w])({_NAMES})\.(?=[a-z])")
_VALUE: Final = re.compile(r"(?<![:\w]):([a-z_]+)")


MORE: Final = """
CREATE TABLE tally (                    -- by how many the jobs of a topic have become more: a row for each change
    {row}topic {int} NOT NULL,
    live {big} NOT NULL,
    done {big} NOT NULL,
    cancelled {big} NOT NULL,
    dead {big} NOT NULL
);
CREATE TABLE member (                   -- workers that are there
    {member},
    topics {text},                      -- JSON: names; NULL: none announced
    beat {big} NOT NULL,
    horizon {big} NOT NULL DEFAULT -1,
    behind {big} NOT NULL DEFAULT 0,
    stopped {big} NOT NULL DEFAULT 0,   -- nothing starts there of what was paused up to this number
    {session}
);
"""
"""The tables of stores on servers, besides those of the engine."""


class Later(int):
    """A time in ms after the transaction's, as a value of a row."""

    __slots__ = ()


def is_number(column: str) -> bool:
    """Return whether a column has whole numbers."""
    return TYPES[column] in ("big", "int", "small")


class ServerDialect(Dialect):
    """The tables of a store on a server."""

    kinds: ClassVar[Mapping[str, str]] = {"big": "bigint", "int": "int", "small": "smallint", "clustered": ""}
    database: ClassVar[str]
    """An expression for the name of the database."""
    durability: ClassVar[str]
    """An expression for the guarantee that a commit gives: see `contract.Durability`."""
    snapshot: ClassVar[Batch]
    """The statements that begin a transaction that only reads, and sees one moment."""
    alone: Batch
    """The statements that begin a transaction beside which nobody writes."""
    plans: ClassVar[Batch] = ()
    """The statements that let a transaction read all rows in the quickest way."""
    fold: ClassVar[str]
    """A statement that sums up some rows of counts. Rows that others hold or add meanwhile stay."""
    session: ClassVar[dict[str, str]]
    """Columns of a worker's row that say which session is its own, and expressions for them."""
    known_by: ClassVar[str]
    """The column by which hints name a worker."""
    leftovers: ClassVar[Batch] = ()
    """Statements, run now and then, that delete other rows without use."""
    room: ClassVar[str]
    """A query for the server's version, and the bytes of the listed tables and of their indexes."""
    gone: str
    """An expression for whether the session of the worker in row `w` has ended."""
    first_lease = "(SELECT min(next) FROM job WHERE state = 1 AND next >= :since)"
    """An expression for the first end of a lease: see `presence.Leases.since`."""
    last_id: str
    """An expression for the last id that was given out."""

    def __init__(self, tables: str) -> None:
        super().__init__()
        self.tables = tables
        """The prefix of the tables' names."""

    @property
    def all_tables(self) -> str:
        """The names of all tables that a store may have, with commas."""
        return ",".join(self.tables + name for name in _NAMES.split("|"))

    def named(self, text: str) -> str:
        """Return SQL with the tables' real names, and values as the driver takes them."""
        tables = self.tables.replace("%", "%%")
        text = _VALUE.sub(r"%(\1)s", text.replace("%", "%%"))
        text = _COLUMN.sub(lambda match: f"{tables}{match[1]}.", text)
        return _TABLE.sub(lambda match: f"{match[1]} {tables}{match[2]}", text)

    @abstractmethod
    def raise_ids(self, table: str) -> str:
        """Return the statement that raises the last id to the highest one in a table."""

    def moment(self, now: int, delay: int = 0) -> Later:  # noqa: ARG002
        """Return a time that the server computes."""
        return Later(delay)

    @abstractmethod
    def schema(self) -> str:
        """Return the script that creates the tables."""

    def counted(self, tally: Tally) -> list[Statement]:
        """Return the statements that write the counts: a row for each changed topic, summed up now and then."""
        for topic, jobs in tally.put.items():
            tally.add(topic, 0, jobs)
        rows = [(topic, *row) for topic, row in sorted(tally.rows.items()) if any(row)]
        return [Insert("tally", ("topic", "live", "done", "cancelled", "dead"), rows)] if rows else []

    def count(self, tx: Transaction) -> Steps[None]:
        """Write the counts."""
        yield self.counted(tx.tally)

    def tallies(self) -> Sequence[Select]:
        """Return the query that sums up the counts."""
        return (Select("SELECT topic, sum(live), sum(done), sum(cancelled), sum(dead) FROM tally GROUP BY topic"),)

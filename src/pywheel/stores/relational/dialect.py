"""What is the same in the dialects of all servers: the time is the server's, and counts are rows that are summed up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from ..sql.dialect import Dialect
from ..sql.statement import Insert, Select, Statement, Steps
from ..sql.transaction import Tally, Transaction

__all__ = ["Later", "ServerDialect"]


class Later(int):
    """So many ms after the transaction's time, as a value of a row."""

    __slots__ = ()


class ServerDialect(Dialect):
    """The tables of a store on a server."""

    @property
    @abstractmethod
    def last_id(self) -> str:
        """An expression for the last id that was given out."""

    @abstractmethod
    def raise_ids(self, table: str) -> str:
        """Return what has no id given out that a row of a table has."""

    def moment(self, now: int, delay: int = 0) -> Later:  # noqa: ARG002
        """Return a time that the server reckons."""
        return Later(delay)

    def counted(self, tally: Tally) -> list[Statement]:
        """Return what writes the counts: a row for each change of a topic, summed up now and then."""
        for topic, jobs in tally.put.items():
            tally.add(topic, 0, jobs)
        rows = [(topic, *row) for topic, row in sorted(tally.rows.items()) if any(row)]
        return [Insert("tally", ("topic", "live", "done", "cancelled", "dead"), rows)] if rows else []

    def count(self, tx: Transaction) -> Steps[None]:
        """Write the counts."""
        yield self.counted(tx.tally)

    def tallies(self) -> Sequence[Select]:
        """Return what sums up the counts."""
        return (Select("SELECT topic, sum(live), sum(done), sum(cancelled), sum(dead) FROM tally GROUP BY topic"),)

"""The tables of a store: their creation, and their upgrade to the version that this pywheel knows."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Final

from ..._errors import NotAStore, StoreBusy
from ..schema import Schema, of_migrations
from .dialect import ServerDialect

_IN_USE: Final = (
    "it is to be upgraded, and its tables are in use by a transaction that lasts, such as a dump: "
    "try again when that has ended"
)
_PAUSE: Final = 2.0  # seconds between tries, less than a session may be idle in a transaction


def scripts(dialect: ServerDialect) -> list[str]:
    """Return the scripts that lead from one version to the next, from version 0 on."""
    return [dialect.schema()]


class Migration(ABC):
    """The steps by which a database makes new tables, on a connection."""

    limit: float
    """Seconds for which others wait behind an upgrade that waits for a table."""

    def __init__(self, connection: Any, dialect: Any) -> None:
        self.connection = connection
        self.dialect = dialect

    @abstractmethod
    def found(self) -> Schema:
        """Return the schema of the tables; of version 0 if there are none, or not all."""

    @abstractmethod
    def alone(self, shown: str) -> AbstractContextManager[None]:
        """Let no other process make tables within this."""

    @abstractmethod
    def run(self, version: int) -> bool:
        """Run the statements that lead from a version to the newest; False if another session keeps a table locked."""

    @abstractmethod
    def script(self, version: int) -> str:
        """Return those statements, for a DBA to run."""

    @property
    def made(self) -> Schema:
        """The schema of the tables once all scripts have run."""
        return of_migrations(scripts(self.dialect))

    def upgrade(self, shown: str, *, create: bool) -> None:
        """Make the tables, or bring them up to date, if needed. StoreTooNew, NotAStore."""
        newest, found = self.made.version, self.found()
        found.refuse(newest, shown)
        if found.version >= newest:
            return
        if not found.version and not create:
            raise NotAStore(f"there is no store at {shown}: put a job first, or run `pywheel migrate`")
        with self.alone(shown):
            while (version := self.found().version) < newest and not self.run(version):
                # A session that queues for a table blocks all behind it: they get their turn before the next try.
                if time.monotonic() + _PAUSE + 2 * self.limit >= self.connection.until:
                    raise StoreBusy(f"{shown}: {_IN_USE}")
                time.sleep(_PAUSE)

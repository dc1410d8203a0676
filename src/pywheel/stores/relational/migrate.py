"""The tables of a store: made, and brought to the version that this pywheel knows."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, Final

from ..._errors import NotAStore, StoreBusy
from ..schema import IN_USE, Schema, of_migrations
from .dialect import ServerDialect

__all__ = ["Migration", "scripts"]

_PAUSE: Final = 2.0  # seconds until it is tried again, less than a session may be idle in a transaction


def scripts(dialect: ServerDialect) -> list[str]:
    """Return the scripts that lead from one version to the next, from version 0 on."""
    return [dialect.schema()]


class Migration(ABC):
    """What a database does for new tables, on a connection."""

    limit: float
    """Seconds for which others wait behind an upgrade that waits for a table."""

    def __init__(self, connection: Any, dialect: Any) -> None:
        self.connection = connection
        self.dialect = dialect

    @abstractmethod
    def found(self) -> Schema:
        """Return what the tables are; of version 0 if there are none, or not all."""

    @abstractmethod
    def alone(self, shown: str) -> AbstractContextManager[None]:
        """Let no other process make tables within this."""

    @abstractmethod
    def run(self, version: int) -> bool:
        """Run the statements that lead from a version to the newest; False if somebody keeps a table locked."""

    @abstractmethod
    def script(self, version: int) -> str:
        """Return those statements, for a DBA to run."""

    @property
    def made(self) -> Schema:
        """What the tables are once all scripts have run."""
        return of_migrations(scripts(self.dialect))

    def upgrade(self, shown: str, *, create: bool) -> None:
        """Make the tables, or bring them up to date, if that is to be done. StoreTooNew, NotAStore."""
        newest, found = self.made.version, self.found()
        found.refuse(newest, shown)
        if found.version >= newest:
            return
        if not found.version and not create:
            raise NotAStore(f"there is no store at {shown}: put a job first, or run `pywheel migrate`")
        with self.alone(shown):
            while (version := self.found().version) < newest and not self.run(version):
                # Whoever queues for a table stops all who come behind: they have their turn before it is tried again.
                if time.monotonic() + _PAUSE + 2 * self.limit >= self.connection.until:
                    raise StoreBusy(f"{shown}: {IN_USE}")
                time.sleep(_PAUSE)

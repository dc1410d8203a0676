"""The tables of a store on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from psycopg import errors

from ..._errors import StoreReadOnly
from ..relational import migrate
from ..schema import Schema
from .connection import Timed
from .dialect import PostgresDialect

_LOCK: Final = 0x70797768  # the advisory lock held while tables are made
_AGAIN: Final = (
    "-- While this waits for a table, others wait behind it. An error of lock_timeout: run all of this again."
)


class Migration(migrate.Migration):
    """Scripts that run in one transaction."""

    connection: Timed
    dialect: PostgresDialect
    limit = 0.5

    def found(self) -> Schema:
        try:
            with self.connection.transaction():
                rows = self.connection.execute(f"SELECT * FROM {self.dialect.tables}schema".encode()).fetchall()
        except (errors.UndefinedTable, errors.InvalidSchemaName):
            rows = []
        version, least = (*rows[0], None)[:2] if rows else (0, 0)
        return Schema(version, version if least is None else least)

    @contextmanager
    def alone(self, shown: str) -> Iterator[None]:
        """Hold a lock of the database, in a transaction."""
        try:
            with self.connection.transaction():
                self.connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                yield
        except errors.InsufficientPrivilege as error:
            raise StoreReadOnly(
                f"{shown}: {error.diag.message_primary}: its tables are older than version {self.made.version}: ask "
                "an administrator to run what `pywheel migrate --sql` prints"
            ) from error

    def run(self, version: int) -> bool:
        try:
            with self.connection.transaction():
                self.connection.execute("\n".join(self._statements(version)).encode())
        except errors.LockNotAvailable:
            return False
        return True

    def script(self, version: int) -> str:
        """Return the statements that lead from a version to the newest, to be run in one transaction."""
        first, *others = self._statements(version)
        return "\n\n".join(["BEGIN;", f"{_AGAIN}\n{first}", *others, "COMMIT;\n"])

    def _statements(self, version: int) -> list[str]:
        tables, made = self.dialect.tables, self.made
        lines = [f"SET LOCAL lock_timeout = '{self.limit * 1_000:.0f}ms';"]
        if "." in tables and version == 0:
            lines.append(f"CREATE SCHEMA IF NOT EXISTS {tables.rpartition('.')[0]};")
        lines += [text.strip() for text in migrate.scripts(self.dialect)[version:]]
        if made.version > 1:  # the first script writes its own version
            lines.append(f"ALTER TABLE {tables}schema ADD COLUMN IF NOT EXISTS least int;")
            lines.append(f"UPDATE {tables}schema SET version = {made.version}, least = {made.least};")
        return lines

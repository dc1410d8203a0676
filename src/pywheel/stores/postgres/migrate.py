"""The tables of the store: made, and brought to the version that this pywheel knows."""

from __future__ import annotations

import time
from typing import Final

from psycopg import errors

from ..._errors import NotAStore, StoreBusy, StoreReadOnly
from ..schema import IN_USE, Schema, of_migrations
from .connection import Timed
from .statements import migrations

__all__ = ["schema_of", "script", "upgrade"]

_LOCK: Final = 0x70797768  # of the database, while tables are made
_PATIENCE: Final = "SET LOCAL lock_timeout = '500ms';"  # others wait behind an upgrade that waits for a table
_AGAIN: Final = "-- Others wait behind whoever waits for a table. An error of lock_timeout: run all of this again."
_PAUSE: Final = 2.0  # seconds until it is tried again, less than a session may be idle in a transaction


def script(schema: str | None, prefix: str, version: int = 0) -> str:
    """Return the statements that lead from a version to the newest, for a DBA to run in one transaction; "" if none."""
    if version >= len(migrations(schema, prefix)):
        return ""
    lines = ["BEGIN;", f"{_AGAIN}\n{_PATIENCE}"]
    if schema is not None and version == 0:
        lines.append(f'CREATE SCHEMA IF NOT EXISTS "{schema}";')
    newer = migrations(schema, prefix)
    lines += [text.strip() for text in newer[version:]]
    if len(newer) > 1:  # the first one writes its own
        made, table = of_migrations(newer), f"{_tables(schema, prefix)}schema"
        lines.append(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS least int;")
        lines.append(f"UPDATE {table} SET version = {made.version}, least = {made.least};")
    return "\n\n".join([*lines, "COMMIT;\n"])


def schema_of(connection: Timed, schema: str | None, prefix: str) -> Schema:
    """Return what the tables are; of version 0 if there are none."""
    try:
        rows = connection.execute(f"SELECT * FROM {_tables(schema, prefix)}schema").fetchall()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        rows = []
    version, least = (*rows[0], None)[:2] if rows else (0, 0)
    return Schema(version, version if least is None else least)


def upgrade(connection: Timed, schema: str | None, prefix: str, shown: str, *, create: bool) -> None:
    """Make the tables, or bring them up to date, if that is to be done. StoreTooNew, NotAStore."""
    newest = len(migrations(schema, prefix))
    there = schema_of(connection, schema, prefix)
    there.refuse(newest, shown)
    found = there.version
    if found >= newest:
        return
    if not found and not create:
        raise NotAStore(f"there is no store at {shown}: put a job first, or run `pywheel migrate`")
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            found = _locked(connection, schema, prefix).version
            body = script(schema, prefix, found).strip().removeprefix("BEGIN;").removesuffix("COMMIT;").encode()
            while body and not _done(connection, body):
                # Whoever queues for a table stops all who come behind: they have their turn before it is tried again.
                if time.monotonic() + _PAUSE + 1 >= connection.until:
                    raise StoreBusy(f"{shown}: {IN_USE}")
                time.sleep(_PAUSE)
    except errors.InsufficientPrivilege as error:
        raise StoreReadOnly(
            f"{shown}: {error.diag.message_primary}: its tables are of version {found}, {newest} is needed: have "
            "somebody who may run what `pywheel migrate --sql` prints"
        ) from error


def _done(connection: Timed, body: bytes) -> bool:
    """Run the statements of an upgrade, unless somebody keeps a table locked; return whether they ran."""
    try:
        with connection.transaction():
            connection.execute(body)
    except errors.LockNotAvailable:
        return False
    return True


def _locked(connection: Timed, schema: str | None, prefix: str) -> Schema:
    """Return the same within a transaction, which an error would end."""
    name = f"{_tables(schema, prefix)}schema"
    [(there,)] = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name,)).fetchall()
    return schema_of(connection, schema, prefix) if there else Schema(0, 0)


def _tables(schema: str | None, prefix: str) -> str:
    return prefix if schema is None else f'"{schema}".{prefix}'

"""The tables of the store: made, and brought to the version that this pywheel knows."""

from __future__ import annotations

from typing import Final

from psycopg import errors

from ..._errors import NotAStore, StoreReadOnly, StoreTooNew
from .connection import Timed
from .statements import migrations

__all__ = ["script", "upgrade", "version_of"]

_LOCK: Final = 0x70797768  # of the database, while tables are made


def script(schema: str | None, prefix: str, version: int = 0) -> str:
    """Return the statements that lead from a version to the newest, for a DBA to run in one transaction; "" if none."""
    if version >= len(migrations(schema, prefix)):
        return ""
    lines = ["BEGIN;"]
    if schema is not None and version == 0:
        lines.append(f'CREATE SCHEMA IF NOT EXISTS "{schema}";')
    newer = migrations(schema, prefix)
    lines += [text.strip() for text in newer[version:]]
    if version:
        lines.append(f"UPDATE {_tables(schema, prefix)}schema SET version = {len(newer)};")
    return "\n\n".join([*lines, "COMMIT;\n"])


def version_of(connection: Timed, schema: str | None, prefix: str) -> int:
    """Return the version of the tables, 0 if there are none."""
    try:
        rows = connection.execute(f"SELECT version FROM {_tables(schema, prefix)}schema").fetchall()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return 0
    return int(rows[0][0]) if rows else 0


def upgrade(connection: Timed, schema: str | None, prefix: str, shown: str, *, create: bool) -> None:
    """Make the tables, or bring them up to date, if that is to be done. StoreTooNew, NotAStore."""
    newest = len(migrations(schema, prefix))
    found = version_of(connection, schema, prefix)
    if found > newest:
        raise StoreTooNew(f"{shown} has version {found}, this pywheel knows {newest}: install a newer one")
    if found == newest:
        return
    if not found and not create:
        raise NotAStore(f"there is no store at {shown}: put a job first, or run `pywheel migrate`")
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            found = version_of_locked(connection, schema, prefix)
            if found < newest:
                body = script(schema, prefix, found).strip()
                connection.execute(body.removeprefix("BEGIN;").removesuffix("COMMIT;").encode())
    except errors.InsufficientPrivilege as error:
        raise StoreReadOnly(
            f"{shown}: {error.diag.message_primary}: its tables are of version {found}, {newest} is needed: have "
            "somebody who may run what `pywheel migrate --sql` prints"
        ) from error


def version_of_locked(connection: Timed, schema: str | None, prefix: str) -> int:
    """Return the same within a transaction, which an error would end."""
    name = f"{_tables(schema, prefix)}schema"
    [(there,)] = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name,)).fetchall()
    return version_of(connection, schema, prefix) if there else 0


def _tables(schema: str | None, prefix: str) -> str:
    return prefix if schema is None else f'"{schema}".{prefix}'

"""The tables of the store: made, and brought to the version that this pywheel knows."""

from __future__ import annotations

import math
import time
from typing import Final

import pymysql

from ..._errors import NotAStore, StoreBusy
from ..schema import IN_USE, Schema, of_migrations
from .connection import Timed
from .statements import migrations, scripts

__all__ = ["schema_of", "script", "upgrade"]

_MISSING: Final = 1146  # ER_NO_SUCH_TABLE
_LOCKED: Final = 1205  # ER_LOCK_WAIT_TIMEOUT
_PATIENCE: Final = 1  # seconds for which others wait behind an upgrade that waits for a table
_LIMIT: Final = "SET SESSION lock_wait_timeout = "
_AGAIN: Final = "-- Others wait behind whoever waits for a table. An error 1205: run all of this again."
_PAUSE: Final = 2.0  # seconds until it is tried again
_LONGEST: Final = 3_600  # seconds for another process that makes tables


def script(prefix: str, version: int = 0, *, mariadb: bool) -> str:
    """Return the statements that lead from a version to the newest, for a DBA to run in order; "" if it is that."""
    if version >= len(scripts()):
        return ""
    steps = [f"{_AGAIN}\n{_LIMIT}{_PATIENCE}", *_steps(prefix, version, mariadb=mariadb), f"{_LIMIT}DEFAULT"]
    return "".join(f"{statement};\n\n" for statement in steps)


def _steps(prefix: str, version: int, *, mariadb: bool) -> list[str]:
    newer = migrations(prefix, mariadb=mariadb)
    steps = [statement for statements in newer[version:] for statement in statements]
    # Last: who finds the number finds all that it stands for.
    made = of_migrations(scripts())
    numbers = f"('least', {made.least}), ('schema', {made.version})"
    return [*steps, f"REPLACE INTO {prefix}number (name, value) VALUES {numbers}"]


def schema_of(connection: Timed, prefix: str) -> Schema:
    """Return what the tables are; of version 0 if there are none, or not all."""
    try:
        [found] = connection.ask([f"SELECT name, value FROM {prefix}number WHERE name IN ('schema', 'least')"])
    except pymysql.Error as error:
        if error.args[0] == _MISSING:
            return Schema(0, 0)
        raise
    numbers = {str(name): int(value) for name, value in found.rows}
    version = numbers.get("schema", 0)
    return Schema(version, numbers.get("least", version))


def upgrade(connection: Timed, prefix: str, shown: str, *, create: bool) -> None:
    """Make the tables, or bring them up to date, if that is to be done. StoreTooNew, NotAStore."""
    newest = len(scripts())
    there = schema_of(connection, prefix)
    there.refuse(newest, shown)
    found = there.version
    if found >= newest:
        return
    if not found and not create:
        raise NotAStore(f"there is no store at {shown}: put a job first, or run `pywheel migrate`")
    lock = f"left(concat('pywheel.migrate.{prefix}', database()), 64)"
    patience = max(math.floor(min(connection.until - time.monotonic(), _LONGEST)) - 1, 1)
    [held] = connection.ask([f"SELECT get_lock({lock}, {patience})"])
    if held.rows[0][0] != 1:
        raise StoreBusy(f"{shown}: another process is making the tables: try again")
    found = schema_of(connection, prefix).version  # after an error the session ends, and the lock with it
    while found < newest and not _done(connection, _steps(prefix, found, mariadb=connection.mariadb)):
        # Whoever queues for a table stops all who come behind: they have their turn before it is tried again.
        if time.monotonic() + _PAUSE + 2 * _PATIENCE >= connection.until:
            raise StoreBusy(f"{shown}: {IN_USE}")
        time.sleep(_PAUSE)
    connection.ask([f"DO release_lock({lock})"])


def _done(connection: Timed, steps: list[str]) -> bool:
    """Run the statements of an upgrade, unless somebody keeps a table locked; return whether they ran."""
    try:
        connection.ask([f"{_LIMIT}{_PATIENCE}", *steps, f"{_LIMIT}DEFAULT"])
    except pymysql.Error as error:
        if error.args[0] != _LOCKED:
            raise
        return False
    return True

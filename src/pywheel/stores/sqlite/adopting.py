"""A store in a database that another program has begun, beside that program's own tables."""

from __future__ import annotations

from pathlib import Path

from ..._errors import NotAStore
from .connection import APPLICATION, MIGRATIONS, connect, translated

__all__ = ["adopt"]


def adopt(path: str | Path) -> None:
    """Mark a SQLite database as one in which the jobs' tables may be made; a store that is opened there makes them.

    One transaction; on a file that is a store, or empty, it changes nothing. The other program's tables stay as they
    are. The database gets a write-ahead log, which SQLite keeps in files beside it.

    Raises:
        NotAStore: another program has marked the file, or has a table by a name that the jobs' tables have.
        StoreError: the file cannot be used.
    """
    path = str(path)
    connection = connect(path)
    try:
        with translated(path):
            connection.execute("BEGIN IMMEDIATE")
            names = {name for [name] in connection.execute("SELECT name FROM sqlite_schema")}
            [application] = connection.execute("PRAGMA application_id").fetchone()
            [version] = connection.execute("PRAGMA user_version").fetchone()
            if names and application != APPLICATION:
                if application or version:
                    raise NotAStore(f"{path} is marked by another program: give a file of its own to the jobs")
                if taken := sorted(names & _ours()):
                    raise NotAStore(f"{path} has a table {taken[0]!r} of its own: give a file of its own to the jobs")
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute("COMMIT")
    finally:
        connection.close()


def _ours() -> set[str]:
    """Return the names of all that the schema makes."""
    words = [line.split() for script in MIGRATIONS for line in script.splitlines() if line.startswith("CREATE ")]
    return {line[line.index(kind) + 1] for line in words for kind in ("TABLE", "INDEX", "TRIGGER") if kind in line}

"""Reading the store, on a connection of its own, so that a commit under way holds nobody up."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, TypeVar

from ..sql.statement import Steps
from .connection import connect, translated
from .dialect import Carrier
from .statements import SQL

__all__ = ["Reader"]

T = TypeVar("T")


class Reader:
    """A connection that reads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection = connect(path, read_only=True)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._connection.close()

    def rows(self, name: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> list[Any]:
        """Run a statement and return all its rows."""
        with self._lock, translated(self._path):
            return self._connection.execute(SQL[name], parameters).fetchall()

    def ask(self, steps: Steps[T], now: int) -> T:
        """Return what a query comes to, all of one moment."""
        with self._lock, translated(self._path):
            self._connection.execute("BEGIN")
            try:
                return Carrier(self._connection, now).drive(steps)
            finally:
                self._connection.execute("COMMIT")

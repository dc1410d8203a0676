"""Connections to a server: a few, each used by one thread at a time, none of them waited for without end."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Generic, Protocol, TypeVar

from ..._errors import StoreBusy, StoreClosed

__all__ = ["CLOSED", "Connection", "Connections", "leave_alone"]

CLOSED: Final = "this store is closed: open another one"


class Connection(Protocol):
    """What is kept here."""

    until: float
    """The monotonic time until which an answer may take."""

    def close(self) -> None:
        """Close it."""


C = TypeVar("C", bound=Connection)


class Connections(Generic[C]):
    """Up to `most` connections. One that an error has come out of is closed, as nobody knows what it is in."""

    def __init__(self, connect: Callable[[float], C], most: int, seconds: float) -> None:
        self._connect = connect
        self._most = most
        self._seconds = seconds
        self._idle: list[C] = []
        self._out: set[C] = set()
        self._room = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self.closed = False

    @contextmanager
    def use(self, until: float | None = None) -> Iterator[C]:
        """Give a connection, an idle one or a new one. StoreBusy if none becomes free in time; StoreAway."""
        until = until or time.monotonic() + self._seconds
        if not self._room.acquire(timeout=max(until - time.monotonic(), 0)):
            raise StoreBusy(f"all {self._most} connections were busy for {self._seconds:g} s: try again")
        connection: C | None = None
        whole = False
        try:
            connection = self._take(until)
            yield connection
            whole = True
        finally:
            if connection is not None:
                self._put_back(connection, whole=whole)
            self._room.release()

    def _take(self, until: float) -> C:
        with self._lock:
            if self.closed:
                raise StoreClosed(CLOSED)
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect(until)
        connection.until = until
        with self._lock:
            self._out.add(connection)
        return connection

    def _put_back(self, connection: C, *, whole: bool) -> None:
        with self._lock:
            self._out.discard(connection)
            if whole and not self.closed:
                self._idle.append(connection)
                return
        with suppress(Exception):  # it may be broken
            connection.close()

    def drop_idle(self) -> None:
        """Close the connections that nobody uses: the server may have closed them."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(Exception):
                connection.close()

    def close(self) -> None:
        """Close all; those in use once they are given back."""
        self.closed = True
        self.drop_idle()

    def after_fork(self) -> None:
        """Leave those of the parent alone for ever, in a forked child: closing them would end the parent's sessions."""
        for connection in [*self._idle, *self._out]:
            leave_alone(connection)
        self._idle, self._out = [], set()
        self._room = threading.BoundedSemaphore(self._most)
        self._lock = threading.Lock()


def leave_alone(thing: object) -> None:
    """Keep something of the parent's from ever being closed in a forked child, at the interpreter's end too."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))

"""Connections to a server: a few, each used by one thread at a time. Every wait for one has a limit."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from ..._errors import StoreBusy, StoreClosed
from ..contract import CLOSED
from ..left_alone import leave_alone


class Connections:
    """Up to `most` connections. A connection is closed after an error, as its state is unknown.

    A signal handler may raise at any point: so there is no lock that could stay locked, only atomic calls.
    """

    def __init__(self, connect: Callable[[float], Any], most: int, seconds: float) -> None:
        self._connect = connect
        self._most = most
        self._seconds = seconds
        self.closed = False
        self._begin()

    def _begin(self) -> None:
        self._idle: list[Any] = []
        self._out: set[Any] = set()
        self._places: SimpleQueue[_Place] = SimpleQueue()
        for _ in range(self._most):
            self._places.put(_Place(self._places))

    @contextmanager
    def use(self, until: float | None = None) -> Iterator[Any]:
        """Give a connection, an idle one or a new one. StoreBusy if none becomes free in time; StoreAway."""
        until = until or time.monotonic() + self._seconds
        try:
            place = self._places.get(timeout=max(until - time.monotonic(), 0))
        except Empty:
            raise StoreBusy(f"all {self._most} connections were busy for {self._seconds:g} s: try again") from None
        connection: Any = None
        whole = False
        try:
            if self.closed:
                raise StoreClosed(CLOSED)
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect(until)
            connection.until = until
            self._out.add(connection)
            yield connection
            whole = True
        finally:
            self._out.discard(connection)
            if whole:
                self._idle.append(connection)
                if self.closed:
                    self.drop_idle()
            elif connection is not None:
                with suppress(Exception):  # it may be broken
                    connection.close()
            place.leave()

    def drop_idle(self) -> None:
        """Close the connections that nobody uses: the server may have closed them."""
        while self._idle:
            with suppress(Exception):  # another thread has taken the last one, or it is broken
                self._idle.pop().close()

    def close(self) -> None:
        """Close all connections; those in use once they are given back."""
        self.closed = True
        self.drop_idle()

    def after_fork(self) -> None:
        """Leave the parent's connections alone for ever, in a forked child: closing them would end its sessions."""
        for connection in [*self._idle, *self._out]:
            leave_alone(connection)
        self._begin()


class _Place:
    """The right to use a connection. It passes on by `leave`, or at its end if an interrupt prevented that."""

    _places: weakref.ref[SimpleQueue[_Place]] | None = None  # stays so if an interrupt comes in __init__

    def __init__(self, places: SimpleQueue[_Place]) -> None:
        self._places = weakref.ref(places)

    def leave(self) -> None:
        """Pass the right on to the next user."""
        places = None if self._places is None else self._places()
        if places is not None:
            places.put(_Place(places))  # an interrupt after this makes one place too many: better than one too few
            self._places = None

    __del__ = leave

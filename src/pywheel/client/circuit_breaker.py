"""A circuit breaker in front of a store: while the store is away, calls fail at once instead of waiting for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from .._errors import StoreAway, StoreBusy, StoreClosed, StoreError
from ..events import Event, StoreBack, StoreFailed
from ..jobs.commands import Put
from ..stores.address import hidden
from ..stores.contract import Store

AWAY: Final = (StoreAway, StoreBusy)
"""Errors that pass by themselves. An operator must fix a full disk, missing rights or a damaged file: those raise."""


class CircuitBreaker:
    """A store that is opened when it can be, and whether it is away. Any thread may call any method.

    There is no lock: two threads that fail at once both report it, and both are right.
    """

    def __init__(self, name: str, opener: Callable[[], Store], tell: Callable[[Event], None]) -> None:
        self.name = hidden(name)
        self.store: Store | None = None
        """The store; None until it was opened once."""
        self.away: StoreError | None = None
        """The error that says why the store is away; None if it is not."""
        self._since = 0.0
        self._failures = 0
        self._closed = False
        self._opener = opener
        self._tell = tell

    def opened(self) -> Store:
        """Return the store, after opening it if necessary."""
        store = self.store
        if store is None:
            self._refuse_closed()
            store = self.store = self._opener()
            if self._closed:  # closed meanwhile
                store.close()
        return store

    def there(self) -> Store:
        """Return the store. Raises StoreAway at once if it is away or was never opened."""
        away, store = self.away, self.store
        if away is None and store is not None:
            return store
        self._refuse_closed()
        seconds = time.monotonic() - self._since
        raise StoreAway(
            f"{self.name} has been away for {seconds:.0f} s: puts wait in the spool, all else must wait for it ({away})"
        ) from away

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreClosed("this queue is closed: open another one")

    def failed(self, error: StoreError) -> None:
        """Record that the store is away, and why. Listeners hear of it once for each kind of error."""
        before, self.away = self.away, error
        if before is None:
            self._since, self._failures = time.monotonic(), 0
        self._failures += 1
        if type(error) is not type(before):
            self._tell(StoreFailed(error, self._failures, 0))

    def probe(self) -> Store:
        """Return the store if it can write, after opening it if necessary.

        A store that was away is tested with a put of no jobs, which leaves a nonce. A call that changes nothing would
        not do: some store might answer it without asking its server.
        """
        try:
            store = self.opened()
            if self.away is not None:
                store.apply([Put((), new_nonce())])
        except StoreError as error:
            self.failed(error)
            raise
        return store

    def back(self, away: StoreError | None) -> None:
        """Record that the store works, unless another thread has found it away again since this error."""
        if away is not None and self.away is away:
            self.away = None
            self._tell(StoreBack(self._failures))

    def close(self) -> None:
        """Close the store, if it is open. Idempotent."""
        self._closed = True
        if self.store is not None:
            self.store.close()


def new_nonce() -> str:
    """Return a nonce that begins with the time, so that a store's index of nonces grows at its end; then random."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"

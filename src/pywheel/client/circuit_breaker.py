"""The way to a store that may be away: a circuit breaker. Nobody waits again for one that is."""

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

__all__ = ["AWAY", "CircuitBreaker", "new_nonce"]

AWAY: Final = (StoreAway, StoreBusy)
"""What passes by itself. A full disk, missing rights or a damaged file are for people to mend, and are told to them."""


class CircuitBreaker:
    """A store that is opened when it can be, and whether it is away. Any thread may call any method.

    There is no lock: two threads that fail at once say so twice, and each is right.
    """

    def __init__(self, name: str, opener: Callable[[], Store], tell: Callable[[Event], None]) -> None:
        self.name = hidden(name)
        self.store: Store | None = None
        """None until it was opened once."""
        self.away: StoreError | None = None
        """Why it is."""
        self._since = 0.0
        self._failures = 0
        self._closed = False
        self._opener = opener
        self._tell = tell

    def opened(self) -> Store:
        """Return the store, opened if it was not yet."""
        store = self.store
        if store is None:
            self._refuse_closed()
            store = self.store = self._opener()
            if self._closed:  # meanwhile
                store.close()
        return store

    def there(self) -> Store:
        """Return the store. StoreAway, at once, if it is away or was never opened."""
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
        """Note that it is away, and why. It is told once for each kind of reason."""
        before, self.away = self.away, error
        if before is None:
            self._since, self._failures = time.monotonic(), 0
        self._failures += 1
        if type(error) is not type(before):
            self._tell(StoreFailed(error, self._failures, 0))

    def probe(self) -> Store:
        """Return the store if it can write: opened, and if it was away, after a put of no jobs, which leaves a nonce.

        What changes nothing, some store might answer without asking its server.
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
        """Note that it works, unless somebody has found it away since it was so for this reason."""
        if away is not None and self.away is away:
            self.away = None
            self._tell(StoreBack(self._failures))

    def close(self) -> None:
        """Close the store, if it is open. Idempotent."""
        self._closed = True
        if self.store is not None:
            self.store.close()


def new_nonce() -> str:
    """Return a nonce: by time, so that a store's index of them grows at its end, and by lot."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"

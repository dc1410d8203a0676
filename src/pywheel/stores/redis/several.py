"""Several stores of one server or cluster as one. In a cluster each has a slot, on any of the masters."""

from __future__ import annotations

import os
import weakref
from typing import Any, Final

from ..._errors import NotAStore, StoreTooNew
from ...clock import Clock
from ..address import Address
from ..contract import Store
from ..notifier import Notifier
from ..partitions import SeveralStore
from .notifier import RedisNotifier
from .place import Place, place
from .server import Server
from .store import FORMAT, SEVERAL, RedisStore

__all__ = ["RedisStores", "open_redis"]


def open_redis(address: Address, *, clock: Clock | None = None, create: bool = True) -> Store:
    """Open the store, or the stores, at an address."""
    found = place(address)
    kind = RedisStore if found.stores == 1 else RedisStores
    return kind(found, clock=clock, create=create)


class RedisStores(SeveralStore):
    """Stores with prefixes of their own. How many there are is noted under the prefix that they share."""

    def __init__(self, place: Place, *, clock: Clock | None = None, create: bool = True) -> None:
        self.url, self.address, self._prefix = place.address.shown, place.address, place.prefix
        _note(place, create=create)
        stores: list[RedisStore] = []
        try:
            for number in range(place.stores):
                presence = stores[0].presence if stores else None
                stores.append(RedisStore(place.part(number), clock=clock, presence=presence))
        except BaseException:
            for store in stores:
                store.close()
            raise
        super().__init__(stores)
        self._stores = stores
        _ALL.add(self)

    def about(self) -> dict[str, Any]:
        """Return what there is to know of the server of the first store, and how many stores there are."""
        return {**super().about(), "prefix": self._prefix}

    def __repr__(self) -> str:
        return f"<RedisStores {self.url}>"

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier: one ear for all stores."""
        return RedisNotifier(self._stores, name)


def _note(place: Place, *, create: bool) -> None:
    """Note how many stores there are, or see that there are so many. NotAStore otherwise."""
    noted = SEVERAL + b"%d" % place.stores
    server = Server(place, lambda _, __: None)
    connection = server.fresh()
    try:
        key = server.prefix + b":store"
        found = connection.call(b"SET", key, noted, b"NX", b"GET") if create else connection.call(b"GET", key)
    finally:
        connection.close()
    if found == noted or (create and found is None):
        return
    if found is None:
        raise NotAStore(f"there is no store at {place.server}: put a job first, or give the right address")
    if FORMAT.fullmatch(found) or found.startswith(SEVERAL):
        number = found[len(SEVERAL) :].decode() if found.startswith(SEVERAL) else "1"
        raise NotAStore(
            f"the number of stores at {place.server} is {number}, not {place.stores}: write ?stores={number}, or move "
            "the jobs by pywheel copy, to another prefix"
        )
    if found.startswith(b"pywheel "):
        raise StoreTooNew(f"the stores at {place.server} are of a newer version of pywheel: upgrade pywheel")
    raise NotAStore(f"{place.server} has other data under this prefix: give another one, ?prefix=name")


_ALL: Final[weakref.WeakSet[RedisStores]] = weakref.WeakSet()


def _after_fork() -> None:
    for stores in list(_ALL):
        stores.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

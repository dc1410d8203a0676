"""Which of several stores a job lives in: its id says it, or its key does.

The stores take turns in blocks of ids.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from zlib import crc32

from ...jobs.commands import Ref

__all__ = ["Ids"]

_BLOCK: Final = 32


class Ids:
    """The ids of so many stores. Those of one store keep their order."""

    __slots__ = ("stores",)

    def __init__(self, stores: int) -> None:
        self.stores = stores

    def store(self, id: int) -> int:
        """Return the number of the store that a job lives in."""
        return id // _BLOCK % self.stores

    def inner(self, id: int) -> int:
        """Return a job's id in its own store."""
        return id // _BLOCK // self.stores * _BLOCK + id % _BLOCK

    def split(self, ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return of each id the number of its store, and the id there."""
        stores = self.stores
        return [(id // _BLOCK % stores, id // _BLOCK // stores * _BLOCK + id % _BLOCK) for id in ids]

    def outer(self, store: int, inner: int) -> int:
        """Return the id, for everybody, of a store's job."""
        return (inner // _BLOCK * self.stores + store) * _BLOCK + inner % _BLOCK

    def all_outer(self, store: int, inner: Iterable[int]) -> list[int]:
        """Return the ids, for everybody, of a store's jobs."""
        stores = self.stores
        return [(id // _BLOCK * stores + store) * _BLOCK + id % _BLOCK for id in inner]

    def after(self, store: int, id: int) -> int:
        """Return the last id in a store that is no larger than an id for everybody."""
        turn, place = divmod(id // _BLOCK, self.stores)
        if place == store:
            return turn * _BLOCK + id % _BLOCK
        return (turn + (place > store)) * _BLOCK - 1

    def of(self, ref: Ref) -> tuple[int, Ref]:
        """Return the store of the job that a reference stands for, and the reference there."""
        if isinstance(ref, int):
            return self.store(ref), self.inner(ref)
        return self.of_key(*ref), ref

    def of_key(self, topic: str, key: str) -> int:
        """Return the store that decides who has a key: all jobs that ever had it live there."""
        return crc32(_bytes(key), crc32(_bytes(topic))) % self.stores

    def of_nonce(self, nonce: str) -> int:
        """Return the store that knows a nonce."""
        return crc32(_bytes(nonce)) % self.stores

    def of_note(self, name: str) -> int:
        """Return the store that keeps a note: that of the nonce that its name has behind the first colon."""
        return self.of_nonce(name.partition(":")[2] or name)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

"""Ids, taken from the store in blocks before they are used: what is sent twice is stored once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

__all__ = ["Ids"]

_FIRST: Final = 1  # one that is not used would leave a shard out
_MOST: Final = 1_024


class Ids:
    """Ids that belong to this process, in order. `draw` gives so many new ones.

    All connections that write share them: of jobs due at one time those come first that a thread has put first.
    """

    def __init__(self, draw: Callable[[int], Sequence[int]]) -> None:
        self._draw = draw
        self._lock = threading.Lock()
        self._left: deque[int] = deque()
        self._block = _FIRST

    def take(self, count: int) -> Iterator[int]:
        """Return an iterator over so many ids and more, of which those that it has not given stay here."""
        self._have(count)
        return self._popped()

    def many(self, count: int) -> list[int]:
        """Return so many ids."""
        return list(islice(self.take(count), count))

    def forget(self) -> None:
        """Give none of those that are left: others have them, where a server took over that was behind."""
        with self._lock:
            self._left.clear()

    def _have(self, count: int) -> None:
        with self._lock:
            if len(self._left) < count:
                self._left.extend(self._draw(max(count - len(self._left), self._block)))
                self._block = min(2 * self._block, _MOST)

    def _popped(self) -> Iterator[int]:
        while True:
            try:
                yield self._left.popleft()
            except IndexError:  # another connection has taken them
                self._have(1)

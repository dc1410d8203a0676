"""Tells objects that they are in a forked child.

The parent's threads do not exist in the child, and no thread will release the locks that they held.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final, Protocol
from weakref import WeakValueDictionary


class Renewed(Protocol):
    """An object with locks, threads or connections."""

    def _after_fork(self) -> None:
        """Begin with free locks, and without the threads of the parent."""


_renewed: Final[WeakValueDictionary[int, Renewed]] = WeakValueDictionary()  # by id: not all of them can be hashed


def renew_after_fork(renewed: Renewed) -> None:
    """Call an object's `_after_fork` in forked children, for as long as the object lives."""
    _renewed[id(renewed)] = renewed


def renew_all(renewed: Iterable[Renewed]) -> None:
    """Call `_after_fork` of each object, and then raise the last error of any."""
    failed: BaseException | None = None
    for each in list(renewed):
        try:
            each._after_fork()
        except BaseException as error:  # noqa: BLE001  (of one: the others must not wait for threads that are not here)
            failed = error
    if failed is not None:
        raise failed


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: renew_all(_renewed.values()))

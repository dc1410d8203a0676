"""The stores of a process, around its forks and at its end."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Final, Protocol

__all__ = ["STORES"]


class _Store(Protocol):
    """What a store does around a fork, and at the end."""

    def before_fork(self) -> None:
        """Let no commit be under way."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Leave what is the parent's."""

    def before_exit(self) -> None:
        """Tell what is still to be told."""


STORES: Final[weakref.WeakSet[_Store]] = weakref.WeakSet()
_paused: list[_Store] = []


def _before_fork() -> None:
    _paused[:] = STORES
    for store in _paused:
        store.before_fork()


def _after_fork_in_parent() -> None:
    for store in _paused:
        store.after_fork_in_parent()
    _paused.clear()


def _after_fork_in_child() -> None:
    for store in STORES:
        store.after_fork_in_child()
    _paused.clear()


@atexit.register
def _before_exit() -> None:
    for store in list(STORES):
        store.before_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)

"""Gives what threads share a free lock in a forked child: whoever held the old one is not there."""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakValueDictionary


class Locked(Protocol):
    """Something with a lock."""

    def _after_fork(self) -> None:
        """Begin with a free lock, and without the threads that were waiting."""


_locked: Final[WeakValueDictionary[int, Locked]] = WeakValueDictionary()  # by id: not all of them can be hashed


def renew_after_fork(locked: Locked) -> None:
    """Have `locked` told in a forked child, for as long as it lives."""
    _locked[id(locked)] = locked


def _after_fork() -> None:
    for locked in list(_locked.values()):
        locked._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""Tells objects that they are in a forked child.

Their threads did not come along, and nobody will free the locks that those held.
"""

from __future__ import annotations

import os
from typing import Final, Protocol
from weakref import WeakValueDictionary


class Renewed(Protocol):
    """Something with locks, threads or connections."""

    def _after_fork(self) -> None:
        """Begin with free locks, and without the threads of the parent."""


_renewed: Final[WeakValueDictionary[int, Renewed]] = WeakValueDictionary()  # by id: not all of them can be hashed


def renew_after_fork(renewed: Renewed) -> None:
    """Have an object told in a forked child, for as long as it lives."""
    _renewed[id(renewed)] = renewed


def leave_alone(thing: object) -> None:
    """Keep something of the parent's from ever being closed in a forked child, at the interpreter's end too."""
    import ctypes  # it takes long to load

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _after_fork() -> None:
    for renewed in list(_renewed.values()):
        renewed._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

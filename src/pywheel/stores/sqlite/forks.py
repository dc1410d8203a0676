"""The stores of this process around its forks, and at its end.

A fork copies SQLite's mutexes as they are: one that another thread has locked stays locked in the child. So one thread
forks at a time, with the *gate*, and has paused all stores. A thread that uses a connection of no store, as while it
opens one, has the gate as well.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .engine import SqliteEngine

_MOST: Final = 10.0  # seconds for which a fork waits for the gate


_stores: Final[weakref.WeakSet[SqliteEngine]] = weakref.WeakSet()
_gate = threading.RLock()
_forking: Final[set[int]] = set()  # threads between the hooks below, also those that wait for the gate
_paused: Final[list[SqliteEngine]] = []  # by the thread that has the gate
_process = os.getpid()


def gate() -> threading.RLock:
    """Return a lock that keeps other threads from forking. Hold it for moments, by `with`."""
    return _gate


def add(store: SqliteEngine) -> None:
    """Have a store paused around forks, once it is whole; it is forgotten when nobody else refers to it."""
    with _gate:
        _stores.add(store)


def _before() -> None:
    _forking.add(threading.get_ident())  # first: what interrupts this is put right after the fork
    if _gate.acquire(timeout=_MOST):
        for store in list(_stores):
            _paused.append(store)
            store.before_fork()


def _after_in_parent(*, last: bool = False) -> None:
    """Let all go on. A thread that did not get the gate has paused nothing."""
    thread, over = threading.get_ident(), last
    if thread not in _forking:
        return
    try:
        if _gate._is_owned():  # type: ignore[attr-defined]
            with ExitStack() as stores:  # whatever one of them raises
                for store in _paused:
                    stores.callback(store.after_fork_in_parent)
        over = True
    finally:
        if over:
            if _gate._is_owned():  # type: ignore[attr-defined]
                _paused.clear()
                _gate.release()
            _forking.discard(thread)


def _after_in_child() -> None:
    """Begin anew: the other threads are the parent's."""
    global _gate, _process
    if _process == os.getpid():
        return
    with ExitStack() as stores:
        for store in list(_stores):
            stores.callback(store.after_fork_in_child)
    _paused.clear()
    _forking.clear()
    _gate = threading.RLock()
    _process = os.getpid()


def _at_exit() -> None:
    for store in list(_stores):
        store.before_exit()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before)
    # Twice: a signal handler that raises may end one call, even before its first step.
    os.register_at_fork(after_in_parent=_after_in_parent, after_in_child=_after_in_child)
    os.register_at_fork(after_in_parent=partial(_after_in_parent, last=True), after_in_child=_after_in_child)

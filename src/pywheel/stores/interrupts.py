"""What signal handlers that raise can do to code: end it between any two of its steps, in a `finally` too.

Only the main thread runs them. So: take a lock within the `try` that gives it back, and give it back by a method that
may be called again, in two nested `finally`, as one signal ends only one of them. Where several signals met, a lock
may be left that no code will ever give back: its own thread finds that at its next entry, others by looking at stacks.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

__all__ = ["Interruptible"]

_OWNER: Final = re.compile(r"owner=(\d+)")
_taking_over = threading.Lock()  # never held by the main thread, so no signal can leave it locked


class Interruptible:
    """Something with locks that are held only while methods in `holders` run, which set `entry` first.

    The locks are RLocks: they know their owner, and so can be asked, and given back, at any point. Who takes one must
    see afterwards that it still is the attribute's value; another thread may have replaced it.
    """

    holders: tuple[Callable[..., Any], ...] = ()
    entry: object = None
    """A new object at each entry, before a lock is taken."""

    def entered_again(self) -> bool:
        """Whether the present call, two frames up, came out of another one: from a signal handler in between."""
        return self._holds(sys._getframe(2).f_back)

    def take_over(self, name: str) -> bool:
        """Replace the lock in an attribute by one that this thread holds, if no code will give it back. O(stack)."""
        if threading.current_thread() is threading.main_thread() or not _taking_over.acquire(blocking=False):
            return False
        try:
            lock, entry = getattr(self, name), self.entry
            owner = _owner(lock)
            if not owner or self._holds(sys._current_frames().get(owner)) or _owner(lock) != owner:
                return False
            new = threading.RLock()
            new.acquire()
            setattr(self, name, new)
            # Nobody has entered since before the owner was seen outside: it cannot have the lock for a good reason.
            if self.entry is entry:
                return True
            setattr(self, name, lock)
            new.release()
            return False
        finally:
            _taking_over.release()

    def _holds(self, frame: FrameType | None) -> bool:
        codes = [method.__code__ for method in self.holders]
        while frame is not None:
            if frame.f_code in codes and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False


def _owner(lock: object) -> int:
    """Return the thread that holds an RLock, 0 if none does."""
    found = _OWNER.search(repr(lock))
    return int(found[1]) if found else 0


def _after_fork() -> None:
    global _taking_over
    _taking_over = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""How the pure-Python wheel changes: nobody sees half a change.

A finaliser, a signal handler or another thread can run wherever CPython may switch: at calls, at backward jumps and
(3.11) where an object that the collector tracks is made. So a change is prepared first and then committed by statements
with none of these, the last of which may be one call of C code. In these, what can raise MemoryError comes first, or
leaves a state that is just as good. A longer change is prepared by `_plan`: whoever changes the wheel meanwhile clears
`_planning`, and the plan is made anew; other threads wait until it is carried out. Without a GIL, or on another
interpreter, every public method holds the lock from start to end.
"""

from __future__ import annotations

import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from ._pure_base import _Wheel

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")

_HAS_GIL: Final = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")

consume: Final = deque[Any](maxlen=0).extend  # runs an iterator to its end, in C


def exclusive(method: _F) -> _F:
    """Hold the wheel's lock during `method`, unless the GIL makes a commit indivisible."""
    if _HAS_GIL:
        return method

    @wraps(method)
    def locked(self: _Wheel, /, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("_F", locked)


class Planned:
    """What changes by plans."""

    __slots__ = ("_lock", "_planning")
    _planning: bool
    _lock: AbstractContextManager[Any]

    def _plan(self, attempt: Callable[..., _R | None], *arguments: Any) -> _R:
        """Repeat an attempt until nothing changes the wheel between its plan and its commit: until it is not None."""
        with self._lock:
            try:
                while True:
                    self._planning = True
                    result: _R | None = None
                    try:
                        result = attempt(*arguments)
                    except (KeyError, RuntimeError):
                        if self._planning:
                            raise
                    if result is not None:
                        return result
            finally:
                self._planning = False

    def _interrupt(self) -> None:
        """Wait for the plan of another thread; let this thread make its own anew."""
        with self._lock:
            self._planning = False

    def _look(self, look: Callable[[], _R]) -> _R | None:
        """Attempt to look at all the timers."""
        seen = look()
        return seen if self._planning else None

    def _commit(self, changes: Iterator[Any], undoing: Iterator[Any]) -> bool:
        """Make all changes of a plan; if one of the first, which `undoing` takes back, cannot be made: none."""
        if not self._planning:
            return False
        try:
            consume(changes)
        except BaseException:
            consume(undoing)
            raise
        return True

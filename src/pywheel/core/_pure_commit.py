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
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from ._pure_base import _Wheel

_F = TypeVar("_F", bound=Callable[..., Any])

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

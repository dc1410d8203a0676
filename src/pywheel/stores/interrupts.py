"""What signal handlers that raise can do to code: end it between any two of its steps, in a `finally` too.

Only the main thread runs them. So: take a lock within the `try` that gives it back; give back by a method that may be
called again, in two nested `finally`, as one signal ends only one of them; and where several signals met, find at the
next entry that this thread has a lock which no code on its stack will ever give back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

__all__ = ["runs_below"]


def runs_below(function: Callable[..., Any], owner: object) -> bool:
    """Whether the caller's caller was itself called, however indirectly, by `function` of `owner`. O(stack).

    To be asked by a helper of `function`: has a signal handler come here out of the middle of an earlier call?
    """
    frame = sys._getframe(2).f_back
    while frame is not None:
        if frame.f_code is function.__code__ and frame.f_locals.get("self") is owner:
            return True
        frame = frame.f_back
    return False

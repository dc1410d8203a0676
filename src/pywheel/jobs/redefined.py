"""When a function takes the place of one before: as a cell of a notebook, or a line at a prompt, is run again."""

from __future__ import annotations

import inspect
import sys

__all__ = ["redefined"]


def redefined(before: object, now: object) -> bool:
    """Whether both are one function of an interactive session, the second by a later run of its definition.

    Such a session has a prompt. In a program a second handler of a topic is a mistake, whatever its name.
    """
    called = _called(now)
    return hasattr(sys, "ps1") and called is not None and called == _called(before)


def _called(function: object) -> tuple[str, str] | None:
    """Return the module and name by which a session finds a function; None for a lambda or a local one."""
    inner = inspect.unwrap(function) if callable(function) else function
    module, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", "<")
    return None if module is None or "<" in name else (module, name)

"""Things of the parent that a forked child must never close."""

from __future__ import annotations

import ctypes  # not by the function: a thread of the parent may have been importing it, whose lock nobody releases


def leave_alone(thing: object) -> None:
    """Keep an object of the parent from ever being closed in a forked child, even when the interpreter exits."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))

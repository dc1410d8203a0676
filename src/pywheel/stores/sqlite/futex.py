"""Waiting for a word in memory that processes share to change. A hint: whoever waits looks again after a short while.

Linux has a system call for it. Elsewhere a wait is a nap, and waking does nothing.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import time
from collections.abc import Callable
from typing import Any, Final

__all__ = ["EVERYBODY", "wait", "wake"]

_CALLS: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_WAIT: Final = 0
_WAKE: Final = 1
EVERYBODY: Final = 0x7FFF_FFFF


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _find() -> Callable[..., Any] | None:
    """Return `syscall`, where we know the number of futex and the words are as long as that says."""
    if sys.platform != "linux" or platform.machine() not in _CALLS or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        syscall = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return None
    syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p]
    syscall.restype = ctypes.c_long
    return syscall


_SYSCALL: Final = _find()
_FUTEX: Final = _CALLS.get(platform.machine(), 0)


def wait(address: int, seen: int, seconds: float, nap: float = 0.0005) -> None:
    """Return when the 32 bits at `address` are not `seen`, when woken, after so many seconds, or earlier.

    Without the system call it returns after a nap.
    """
    if _SYSCALL is None:
        time.sleep(min(nap, seconds))
        return
    span = _TimeSpec(int(seconds), int(seconds % 1 * 1e9))
    _SYSCALL(_FUTEX, address, _WAIT, seen, ctypes.addressof(span))


def wake(address: int, most: int = EVERYBODY) -> int:
    """Wake those that wait at `address`, in any process, the first to wait first; return how many were woken."""
    return 0 if _SYSCALL is None else int(_SYSCALL(_FUTEX, address, _WAKE, most, None))

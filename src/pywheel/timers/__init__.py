"""Timers with callbacks, on the core's wheel: driven by hand, by a thread, by asyncio."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ._clock import Clock, ManualClock, MonotonicClock
from ._driver import Timer
from ._manual import Timers
from ._thread import ThreadTimers

if TYPE_CHECKING:
    from ._aio import AsyncTimers

__all__ = ["AsyncTimers", "Clock", "ManualClock", "MonotonicClock", "ThreadTimers", "Timer", "Timers"]

# These import asyncio, which takes as long to load as all the rest of pywheel several times over.
_LATER: Final = {"AsyncTimers": "._aio"}


def __getattr__(name: str) -> Any:
    """Import what needs asyncio when it is asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name], __name__), name)
    return value

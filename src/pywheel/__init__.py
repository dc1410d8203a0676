"""Millions of timers in one process: hierarchical timing wheels, and timers with callbacks on them."""

from typing import TYPE_CHECKING, Any

from . import timers as _timers
from ._errors import PywheelError, TimersStopped, WheelFull
from .core import KeyWheel, TimingWheel, implementation
from .timers import (
    Clock,
    DelayQueue,
    ManualClock,
    MonotonicClock,
    ShutDown,
    ThreadTimers,
    Timer,
    Timers,
    TTLDict,
)

if TYPE_CHECKING:
    from .timers import AsyncDelayQueue, AsyncTimers, EventLoop, QueueShutDown

__all__ = [
    "AsyncDelayQueue",
    "AsyncTimers",
    "Clock",
    "DelayQueue",
    "EventLoop",
    "KeyWheel",
    "ManualClock",
    "MonotonicClock",
    "PywheelError",
    "QueueShutDown",
    "ShutDown",
    "TTLDict",
    "ThreadTimers",
    "Timer",
    "Timers",
    "TimersStopped",
    "TimingWheel",
    "WheelFull",
    "__version__",
    "implementation",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what needs asyncio when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_timers, name)
    return value

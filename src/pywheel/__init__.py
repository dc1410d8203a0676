"""Millions of timers in one process: hierarchical timing wheels, and timers with callbacks on them."""

from ._errors import PywheelError, TimersStopped, WheelFull
from .core import KeyWheel, TimingWheel, implementation
from .timers import AsyncTimers, Clock, ManualClock, MonotonicClock, ThreadTimers, Timer, Timers

__all__ = [
    "AsyncTimers",
    "Clock",
    "KeyWheel",
    "ManualClock",
    "MonotonicClock",
    "PywheelError",
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

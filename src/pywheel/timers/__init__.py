"""Timers with callbacks, on the core's wheel: driven by hand, by a thread, by asyncio."""

from ._aio import AsyncTimers
from ._clock import Clock, ManualClock, MonotonicClock
from ._driver import Timer
from ._manual import Timers
from ._thread import ThreadTimers

__all__ = ["AsyncTimers", "Clock", "ManualClock", "MonotonicClock", "ThreadTimers", "Timer", "Timers"]

"""Timers with callbacks, on the core's wheel: driven by hand, by a thread, by asyncio; and containers on it."""

from typing import TYPE_CHECKING, Final

from .._later import later
from ..clock import Clock, ManualClock, MonotonicClock
from ._delay_queue import DelayQueue, ShutDown
from ._driver import Timer
from ._manual import Timers
from ._thread import ThreadTimers
from ._ttl_dict import TTLDict

if TYPE_CHECKING:
    from ._aio import AsyncTimers
    from ._async_delay_queue import AsyncDelayQueue, QueueShutDown
    from ._event_loop import EventLoop
    from ._timeouts import timeout, timeout_at

__all__ = [
    "AsyncDelayQueue",
    "AsyncTimers",
    "Clock",
    "DelayQueue",
    "EventLoop",
    "ManualClock",
    "MonotonicClock",
    "QueueShutDown",
    "ShutDown",
    "TTLDict",
    "ThreadTimers",
    "Timer",
    "Timers",
    "timeout",
    "timeout_at",
]

# These import asyncio, which takes several times as long to load as all the rest of pywheel.
_LATER: Final = {
    "AsyncDelayQueue": "._async_delay_queue",
    "AsyncTimers": "._aio",
    "EventLoop": "._event_loop",
    "QueueShutDown": "._async_delay_queue",
    "timeout": "._timeouts",
    "timeout_at": "._timeouts",
}
__getattr__ = later(globals(), _LATER)

"""Timers with callbacks, on the core's wheel: driven by hand, by a thread, by asyncio; and containers on it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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


def __getattr__(name: str) -> Any:
    """Import the names that need asyncio on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name], __name__), name)
    return value

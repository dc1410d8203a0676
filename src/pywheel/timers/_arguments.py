"""Checks of the drivers' arguments other than seconds, and their errors: one wording for both implementations."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from operator import index
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from .._errors import TimersStopped
from .._seconds import LONGEST, unsigned_ns
from ..core._arguments import MAX_TICK, integer

if TYPE_CHECKING:
    from logging import Logger

Missed: TypeAlias = Literal["skip", "burst", "delay"]

SKIP, BURST, DELAY = range(3)
_MISSED: Final = {"skip": SKIP, "burst": BURST, "delay": DELAY}


def logger() -> Logger:
    """Return the logger for errors. It is imported on first use: `logging` takes as long to load as all the timers."""
    from logging import getLogger

    return getLogger("pywheel")


def callback(value: Any) -> Any:
    """Return `value`; TypeError unless it can be called."""
    if not callable(value):
        raise TypeError(f"callback must be callable, not {type(value).__name__}")
    return value


def callable_or_none(value: Any, name: str) -> Any:
    """Return `value`; TypeError unless it can be called or is None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be callable or None, not {type(value).__name__}")
    return value


def context(value: Any) -> Context:
    """Return `value`; TypeError unless it is a Context."""
    if not isinstance(value, Context):
        raise TypeError(f"context must be a contextvars.Context, not {type(value).__name__}")
    return value


def interval(value: Any) -> int:
    """Return an interval in nanoseconds; ValueError unless it is more than 0. Other errors as for seconds."""
    nanoseconds = unsigned_ns(value, "interval")
    if nanoseconds == 0:
        raise ValueError("interval must be more than 0 seconds")
    return nanoseconds


def turn_limit(value: Any) -> int:
    """Return how many callbacks a turn may run, at most what fits into 63 bits; ValueError if it is less than 1."""
    number = integer(value, "limit")
    if number < 1:
        raise ValueError("limit must be 1 or more")
    return min(number, MAX_TICK)


def missed(value: Any) -> int:
    """Return the number of a policy for missed calls; ValueError if there is none of that name."""
    number = _MISSED.get(value) if isinstance(value, str) else None
    if number is None:
        raise ValueError(f"missed must be 'skip', 'burst' or 'delay', not {value!r:.50}")
    return number


def stopped(driver: Any) -> TimersStopped:
    """Return the error for scheduling on a stopped driver."""
    return TimersStopped(f"this {type(driver).__name__} was stopped: make a new one for new timers")


def reentered() -> RuntimeError:
    """Return the error for running a driver that runs already."""
    return RuntimeError("this driver is running its callbacks: neither they nor another thread may run it meanwhile")


def clock_ns(value: Any, clock: Any) -> int:
    """Return the time of a clock; TypeError if it is not an int, ValueError if it is out of range."""
    try:
        now = index(value)
    except TypeError:
        raise TypeError(f"{type(clock).__name__}.time_ns() must return an int, not {type(value).__name__}") from None
    if not 0 <= now <= LONGEST:
        raise ValueError(f"{type(clock).__name__}.time_ns() must return nanoseconds from 0 to 2**62")
    return now


def describe(timer: Any) -> str:
    """Return a text with a timer's callback and deadline."""
    callback = timer.callback
    name = getattr(callback, "__qualname__", None) or type(callback).__name__
    remaining = timer.remaining()
    if remaining is not None:
        return f"<Timer {name}, due in {remaining:.3f} s>"
    if callback is None:
        return "<Timer, cancelled>" if timer.cancelled() else "<Timer, has run>"
    return f"<Timer {name}, running or stopped>"


def describe_driver(driver: Any) -> str:
    """Return a text with a driver's number of timers."""
    return f"<{type(driver).__name__} of {len(driver)} timers{', stopped' if driver.stopped else ''}>"


def report(on_error: Callable[[Any, BaseException], Any] | None, timer: Any, error: BaseException) -> None:
    """Pass a callback's error to `on_error`, or log it. KeyboardInterrupt and SystemExit are raised again."""
    try:
        if on_error is None:
            logger().error("a timer's callback raised: %s", repr(timer), exc_info=error)  # the repr of this moment
        else:
            on_error(timer, error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001  (an error in the error handler must not stop the other timers)
        logger().exception("on_error raised for %r", timer)

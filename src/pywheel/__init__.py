"""Millions of timers in one process, and delayed jobs that survive it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ._errors import (
    BadAddress,
    BadArguments,
    BadBody,
    BadJob,
    BadOption,
    BadResult,
    JobExists,
    NoKey,
    NonceTaken,
    NoSuchJob,
    NoSuchSchedule,
    NotAStore,
    PywheelError,
    StoreAway,
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreReplaced,
    StoreTooNew,
    TimersStopped,
    WaitTimeout,
    WheelFull,
)
from .clock import Clock, ManualClock, MonotonicClock
from .core import KeyWheel, TimingWheel, implementation
from .timers import (
    DelayQueue,
    ShutDown,
    ThreadTimers,
    Timer,
    Timers,
    TTLDict,
)

if TYPE_CHECKING:
    from .client import AsyncJobQueue, JobQueue
    from .jobs import (
        Change,
        Exponential,
        Fixed,
        GiveUp,
        Job,
        Keyring,
        Ladder,
        Limit,
        NotNow,
        Rate,
        Result,
        RetryLater,
        State,
    )
    from .observe import Tally
    from .processes import Supervisor
    from .tasks import AsyncTask, Task, provided
    from .timers import AsyncDelayQueue, AsyncTimers, EventLoop, QueueShutDown, timeout, timeout_at
    from .worker import AsyncWorker, Worker

__all__ = [
    "AsyncDelayQueue",
    "AsyncJobQueue",
    "AsyncTask",
    "AsyncTimers",
    "AsyncWorker",
    "BadAddress",
    "BadArguments",
    "BadBody",
    "BadJob",
    "BadOption",
    "BadResult",
    "Change",
    "Clock",
    "DelayQueue",
    "EventLoop",
    "Exponential",
    "Fixed",
    "GiveUp",
    "Job",
    "JobExists",
    "JobQueue",
    "KeyWheel",
    "Keyring",
    "Ladder",
    "Limit",
    "ManualClock",
    "MonotonicClock",
    "NoKey",
    "NoSuchJob",
    "NoSuchSchedule",
    "NonceTaken",
    "NotAStore",
    "NotNow",
    "PywheelError",
    "QueueShutDown",
    "Rate",
    "Result",
    "RetryLater",
    "ShutDown",
    "State",
    "StoreAway",
    "StoreBusy",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "StoreReplaced",
    "StoreTooNew",
    "Supervisor",
    "TTLDict",
    "Tally",
    "Task",
    "ThreadTimers",
    "Timer",
    "Timers",
    "TimersStopped",
    "TimingWheel",
    "WaitTimeout",
    "WheelFull",
    "Worker",
    "__version__",
    "implementation",
    "provided",
    "timeout",
    "timeout_at",
]

__version__ = "0.2.0"

# A program that needs timers alone does not wait for asyncio, json and SQLite.
_LATER: Final = {
    **dict.fromkeys(
        ("AsyncDelayQueue", "AsyncTimers", "EventLoop", "QueueShutDown", "timeout", "timeout_at"), ".timers"
    ),
    **dict.fromkeys(("AsyncJobQueue", "JobQueue"), ".client"),
    **dict.fromkeys(("AsyncTask", "Task", "provided"), ".tasks"),
    **dict.fromkeys(
        "Change Exponential Fixed GiveUp Job Keyring Ladder Limit NotNow Rate Result RetryLater State".split(),
        ".jobs",
    ),
    "Tally": ".observe",
    "Supervisor": ".processes",
    **dict.fromkeys(("AsyncWorker", "Worker"), ".worker"),
}


def __getattr__(name: str) -> Any:
    """Import the rest when it is asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name], __name__), name)
    return value

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
    ExtraMissing,
    JobExists,
    NoKey,
    NonceTaken,
    NoSuchJob,
    NoSuchSchedule,
    NotAStore,
    OutcomeUnknown,
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
    from ._seconds import Seconds
    from .client import (
        AsyncJobQueue,
        AsyncJobs,
        AsyncSchedules,
        AsyncTopics,
        BulkWords,
        FilterWords,
        HandlerOptions,
        JobQueue,
        Jobs,
        PageWords,
        RetryWords,
        Scheduled,
        ScheduleOptions,
        Schedules,
        TaskOptions,
        Topics,
    )
    from .jobs import (
        AnyRetry,
        Attempt,
        CatchUp,
        Change,
        Counts,
        Duration,
        EditOptions,
        Exponential,
        Fixed,
        GiveUp,
        Handler,
        Job,
        JobOptions,
        Keyring,
        Ladder,
        Limit,
        LimitOverride,
        NewJob,
        NotNow,
        Outcome,
        Overlap,
        PutOptions,
        Rate,
        Ref,
        Result,
        RetryLater,
        RetryPolicy,
        Schedule,
        State,
        Topic,
    )
    from .observe import Tally
    from .processes import Supervisor
    from .tasks import AsyncTask, Task, provided
    from .timers import AsyncDelayQueue, AsyncTimers, EventLoop, QueueShutDown, timeout, timeout_at
    from .worker import AsyncWorker, Worker, WorkerOptions

__all__ = [
    "AnyRetry",
    "AsyncDelayQueue",
    "AsyncJobQueue",
    "AsyncJobs",
    "AsyncSchedules",
    "AsyncTask",
    "AsyncTimers",
    "AsyncTopics",
    "AsyncWorker",
    "Attempt",
    "BadAddress",
    "BadArguments",
    "BadBody",
    "BadJob",
    "BadOption",
    "BadResult",
    "BulkWords",
    "CatchUp",
    "Change",
    "Clock",
    "Counts",
    "DelayQueue",
    "Duration",
    "EditOptions",
    "EventLoop",
    "Exponential",
    "ExtraMissing",
    "FilterWords",
    "Fixed",
    "GiveUp",
    "Handler",
    "HandlerOptions",
    "Job",
    "JobExists",
    "JobOptions",
    "JobQueue",
    "Jobs",
    "KeyWheel",
    "Keyring",
    "Ladder",
    "Limit",
    "LimitOverride",
    "ManualClock",
    "MonotonicClock",
    "NewJob",
    "NoKey",
    "NoSuchJob",
    "NoSuchSchedule",
    "NonceTaken",
    "NotAStore",
    "NotNow",
    "Outcome",
    "OutcomeUnknown",
    "Overlap",
    "PageWords",
    "PutOptions",
    "PywheelError",
    "QueueShutDown",
    "Rate",
    "Ref",
    "Result",
    "RetryLater",
    "RetryPolicy",
    "RetryWords",
    "Schedule",
    "ScheduleOptions",
    "Scheduled",
    "Schedules",
    "Seconds",
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
    "TaskOptions",
    "ThreadTimers",
    "Timer",
    "Timers",
    "TimersStopped",
    "TimingWheel",
    "Topic",
    "Topics",
    "WaitTimeout",
    "WheelFull",
    "Worker",
    "WorkerOptions",
    "__version__",
    "implementation",
    "provided",
    "timeout",
    "timeout_at",
]

__version__ = "0.3.0"

# A program that only needs timers does not wait for asyncio, json and SQLite.
_LATER: Final = {
    **dict.fromkeys(
        ("AsyncDelayQueue", "AsyncTimers", "EventLoop", "QueueShutDown", "timeout", "timeout_at"), ".timers"
    ),
    **dict.fromkeys(
        "AsyncJobQueue AsyncJobs AsyncSchedules AsyncTopics BulkWords FilterWords HandlerOptions JobQueue Jobs "
        "PageWords RetryWords ScheduleOptions Scheduled Schedules TaskOptions Topics".split(),
        ".client",
    ),
    **dict.fromkeys(("AsyncTask", "Task", "provided"), ".tasks"),
    **dict.fromkeys(
        "AnyRetry Attempt CatchUp Change Counts Duration EditOptions Exponential Fixed GiveUp Handler Job JobOptions "
        "Keyring Ladder Limit LimitOverride NewJob NotNow Outcome Overlap PutOptions Rate Ref Result RetryLater "
        "RetryPolicy Schedule State Topic".split(),
        ".jobs",
    ),
    "Seconds": "._seconds",
    "Tally": ".observe",
    "Supervisor": ".processes",
    **dict.fromkeys(("AsyncWorker", "Worker", "WorkerOptions"), ".worker"),
}


def __getattr__(name: str) -> Any:
    """Import the other names on first use."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LATER[name], __name__), name)
    return value


def __dir__() -> list[str]:
    """Return all names that can be imported, whether or not they were imported yet."""
    return sorted({*globals(), *__all__})

"""Typed events. Observers of a queue or a worker get them, and cannot disturb it.

A listener is any callable that takes an event. It is called on the thread where the event happened, from many threads,
and should be quick. A listener with a method ``many`` gets the ends of a commit's jobs at once, as a list, so that it
is called less often. An exception in a listener is logged and goes no further.

A `Tracer` is a listener that also wraps puts and handlers, and so carries a context from one to the other.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ._errors import BadBody, BadOption
from .jobs.job import Job, NewJob, Outcome, State

__all__ = [
    "BacklogSeen",
    "BodiesSealed",
    "ClockStepped",
    "Event",
    "Events",
    "JobDied",
    "JobEnded",
    "JobGivenBack",
    "JobRefused",
    "JobSkipped",
    "JobStarted",
    "JobsClaimed",
    "JobsForwarded",
    "JobsPut",
    "JobsSpooled",
    "LeaseLost",
    "Listener",
    "PoolStuck",
    "Sending",
    "StoreBack",
    "StoreFailed",
    "Tracer",
    "WorkerDrains",
    "WorkerStarted",
    "WorkerStopped",
]

_LOGGER: Final = logging.getLogger("pywheel.events")


class JobsPut(NamedTuple):
    """Jobs of a topic were stored durably. Puts in the caller's own transaction have no such event."""

    topic: str
    jobs: int  # number of jobs


class JobsClaimed(NamedTuple):
    """A worker claimed jobs of a topic."""

    topic: str
    jobs: int  # number of jobs


class BacklogSeen(NamedTuple):
    """A worker asked for a topic's due jobs, and some were left that it could not claim, or none."""

    topic: str
    seconds: float  # how long jobs have been left over; 0 if there are none


class BodiesSealed(NamedTuple):
    """A worker claimed jobs of a topic whose bodies it cannot read, and gave them back unspent.

    Emitted once a minute for a topic, while that lasts.
    """

    topic: str
    jobs: int  # number of jobs that were claimed together
    error: BadBody  # the error of the last of them, such as NoKey


class JobStarted(NamedTuple):
    """A handler begins."""

    job: Job
    late: float  # seconds after its due time


class JobEnded(NamedTuple):
    """A claim was settled durably."""

    job: Job
    outcome: Outcome  # DONE or FAILED
    state: State  # the job's new state: DONE, DELAYED or DEAD
    seconds: float  # how long the handler ran
    error: str | None  # the handler's error


class JobGivenBack(NamedTuple):
    """A worker gave a claim back unspent."""

    job: Job
    delay: float | None = None  # seconds, if its handler raised NotNow; otherwise it is due as before


class JobSkipped(NamedTuple):
    """A worker cancelled a job instead of handling it: a tick of a schedule that must not run now."""

    job: Job
    reason: str


class LeaseLost(NamedTuple):
    """A worker learned that its claim had ended before it was settled: the job is delivered again."""

    job: Job


class JobDied(NamedTuple):
    """A worker ended the last lease of a job, its own or another worker's, because it was over: the job is dead.

    No handler raised an error: its worker was killed or cut off, or the handler took longer than its ttr.
    """

    job: Job  # as the store has it


class PoolStuck(NamedTuple):
    """The handlers of a topic make no progress; the jobs that waited for them went back to the store."""

    topic: str
    jobs: int  # number of jobs


class JobsSpooled(NamedTuple):
    """Jobs of a topic were put into the spool durably, because the store is away. They also count as put."""

    topic: str
    jobs: int  # number of jobs


class JobsForwarded(NamedTuple):
    """Jobs of a topic went from the spool to the store."""

    topic: str
    jobs: int  # number of jobs


class JobRefused(NamedTuple):
    """The store refused a job of the spool. The spool keeps it, for `retry` or `delete`."""

    id: int  # the id that put returned
    topic: str
    key: str | None
    error: str


class StoreFailed(NamedTuple):
    """The store failed at a call of a worker, or of a queue with a spool. The call is tried again."""

    error: BaseException
    failures: int  # in a row
    unsettled: int  # ends of claims that the worker keeps meanwhile


class StoreBack(NamedTuple):
    """The store works again."""

    failures: int


class ClockStepped(NamedTuple):
    """The store's wall clock was stepped."""

    seconds: float


class WorkerStarted(NamedTuple):
    """A worker begins to claim."""

    worker: str
    store: str


class WorkerDrains(NamedTuple):
    """A worker claims nothing more. It waits up to `grace` seconds for its handlers."""

    worker: str
    grace: float


class WorkerStopped(NamedTuple):
    """A worker has ended."""

    worker: str


Event: TypeAlias = (
    JobsPut
    | JobsSpooled
    | JobsForwarded
    | JobRefused
    | JobsClaimed
    | BacklogSeen
    | BodiesSealed
    | JobStarted
    | JobEnded
    | JobDied
    | JobGivenBack
    | JobSkipped
    | LeaseLost
    | PoolStuck
    | StoreFailed
    | StoreBack
    | ClockStepped
    | WorkerStarted
    | WorkerDrains
    | WorkerStopped
)
Listener: TypeAlias = Callable[[Event], object]


class Sending:
    """One put under way."""

    __slots__ = ("ids", "jobs")

    def __init__(self, jobs: tuple[NewJob, ...]) -> None:
        self.jobs = jobs
        """The jobs that are put: the tracer may have added headers to the caller's jobs."""
        self.ids: Sequence[int] = ()
        """The ids that the put returned."""


class Tracer(ABC):
    """A listener that also wraps puts and handlers. A queue has at most one.

    Neither its methods, nor the objects that they return, may raise an exception of their own.
    """

    @abstractmethod
    def __call__(self, event: Event) -> object:
        """Receive an event."""

    @abstractmethod
    def sending(self, jobs: tuple[NewJob, ...]) -> AbstractContextManager[Sending]:
        """Wrap a put of jobs. The context is entered before they are stored, and left when they are durable or not."""

    @abstractmethod
    def handling(self, job: Job) -> AbstractContextManager[object]:
        """Wrap a handler's call, in its thread or task. An exception of the handler passes through the context."""

    @abstractmethod
    def carried(self) -> Mapping[str, str]:
        """Return the present context as text, for the process of an isolated handler."""

    @abstractmethod
    def going_on(self, carried: Mapping[str, str]) -> AbstractContextManager[object]:
        """Enter, in that process, the context that `carried` returned."""


_NOTHING: Final = nullcontext()
_COMMON: Final = frozenset({JobsPut, JobsSpooled, JobsClaimed, BacklogSeen, JobStarted})
"""Events that come with each job, as the ends of jobs without an error do."""


class Events:
    """Passes events to listeners.

    `listeners` get all events. Without any, events that come with each job are not even made. `log` gets rare events
    only, in any case.
    """

    def __init__(self, listeners: Iterable[Listener] = (), log: Listener | None = None) -> None:
        if not isinstance(listeners, Iterable):
            raise TypeError(f"listeners must be a list, not {listeners!r:.40}")
        self.listeners: tuple[Listener, ...] = ()
        self.tracer: Tracer | None = None
        """The listener that wraps puts and handlers, if there is one."""
        self._log = () if log is None else (log,)
        for listener in listeners:
            self.listen(listener)

    def listen(self, listener: Listener) -> None:
        """Add a listener. TypeError if it cannot be called, BadOption if it is a second tracer."""
        if not callable(listener):
            raise TypeError(f"a listener must be callable, not {type(listener).__name__}")
        if isinstance(listener, Tracer):
            if self.tracer is not None:
                raise BadOption("a queue has at most one tracer, as a job carries one context")
            self.tracer = listener
        self.listeners = (*self.listeners, listener)

    def handling(self, job: Job) -> AbstractContextManager[object]:
        """Return the context for a handler's call."""
        return _NOTHING if self.tracer is None else self.tracer.handling(job)

    def emit(self, event: Event) -> None:
        """Call every listener. Never raises an Exception."""
        for listener in self.listeners if type(event) in _COMMON else self._log + self.listeners:
            try:
                listener(event)
            except Exception:  # the jobs go on, whatever a listener does
                _LOGGER.exception("a listener failed at %s: %r", type(event).__name__, listener)

    def emit_many(self, events: Sequence[JobEnded]) -> None:
        """Call every listener with ends without an error, in order, in as few calls as it allows. Never raises."""
        for listener in self.listeners:
            try:
                getattr(listener, "many", partial(_each, listener))(events)
            except Exception:
                _LOGGER.exception("a listener failed at %d events: %r", len(events), listener)


def _each(listener: Listener, events: Sequence[Event]) -> None:
    for event in events:
        try:
            listener(event)
        except Exception:  # the other listeners are called nevertheless
            _LOGGER.exception("a listener failed at %s: %r", type(event).__name__, listener)

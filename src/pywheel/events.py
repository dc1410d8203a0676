"""What happened, typed. Observers of a queue or a worker get these, and cannot hurt it.

A listener is any callable that takes an event. It is called on the thread where the event happened, from many threads,
and should be quick. One that also has a method ``many`` gets the ends of a commit's jobs at once, as a list: it is
called less often. What it raises is logged and goes no further.

A `Tracer` is a listener that also stands around puts and handlers, and so carries a context from one to the other.
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
    """Jobs of a topic were stored, durably."""

    topic: str
    jobs: int  # how many


class JobsClaimed(NamedTuple):
    """A worker claimed jobs of a topic."""

    topic: str
    jobs: int  # how many


class BacklogSeen(NamedTuple):
    """A worker asked for the due jobs of a topic, and was left with some that it could not claim, or with none."""

    topic: str
    seconds: float  # for how long there have been some; 0 if there are none


class BodiesSealed(NamedTuple):
    """A worker claimed jobs of a topic whose bodies it cannot read, and gave them back, unspent.

    Told once a minute for a topic, while that goes on.
    """

    topic: str
    jobs: int  # how many, of those claimed together
    error: BadBody  # what is wrong with the last of them, such as NoKey


class JobStarted(NamedTuple):
    """A handler begins."""

    job: Job
    late: float  # seconds after its due time


class JobEnded(NamedTuple):
    """A claim was settled, durably."""

    job: Job
    outcome: Outcome  # DONE or FAILED
    state: State  # what the job is now: DONE, DELAYED or DEAD
    seconds: float  # how long the handler ran
    error: str | None  # what it raised


class JobGivenBack(NamedTuple):
    """A worker gave a claim back, unspent."""

    job: Job
    delay: float | None = None  # in seconds, if its handler said that it was not for now; else it is due as before


class JobSkipped(NamedTuple):
    """A worker cancelled a job instead of handling it: a tick of a schedule that is not to run now."""

    job: Job
    reason: str


class LeaseLost(NamedTuple):
    """A worker learned that a claim of its own was over before it was settled: the job is delivered again."""

    job: Job


class JobDied(NamedTuple):
    """A worker ended the last lease of a job, whosesoever it was, as it was over: the job is dead.

    Nobody has failed in it: its worker was killed or cut off, or its handler took longer than its ttr.
    """

    job: Job  # as the store has it


class PoolStuck(NamedTuple):
    """The handlers of a topic make no progress; what waited for them went back to the store."""

    topic: str
    jobs: int  # how many


class JobsSpooled(NamedTuple):
    """Jobs of a topic were put into the spool, durably, as the store is away. They count as put, too."""

    topic: str
    jobs: int  # how many


class JobsForwarded(NamedTuple):
    """Jobs of a topic went from the spool to the store."""

    topic: str
    jobs: int  # how many


class JobRefused(NamedTuple):
    """The store refused a job of the spool, which keeps it: for `retry`, or `delete`."""

    id: int  # what put returned
    topic: str
    key: str | None
    error: str


class StoreFailed(NamedTuple):
    """The store could not do what a worker, or a queue with a spool, asked. It is tried again."""

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
    """One put, while it is under way."""

    __slots__ = ("ids", "jobs")

    def __init__(self, jobs: tuple[NewJob, ...]) -> None:
        self.jobs = jobs
        """What is put: the tracer may have given headers to the caller's jobs."""
        self.ids: Sequence[int] = ()
        """What the put returned."""


class Tracer(ABC):
    """A listener that also stands around puts and handlers. A queue has one at most.

    None of its methods, and none of what they return, may raise an exception of its own.
    """

    @abstractmethod
    def __call__(self, event: Event) -> object:
        """Take in what happened."""

    @abstractmethod
    def sending(self, jobs: tuple[NewJob, ...]) -> AbstractContextManager[Sending]:
        """Stand around a put of jobs. It is entered before they are stored, and left when they are durable or not."""

    @abstractmethod
    def handling(self, job: Job) -> AbstractContextManager[object]:
        """Stand around a handler's call, in its thread or task. What the handler raises goes through it."""

    @abstractmethod
    def carried(self) -> Mapping[str, str]:
        """Return the present context as text, for the process of an isolated handler."""

    @abstractmethod
    def going_on(self, carried: Mapping[str, str]) -> AbstractContextManager[object]:
        """Let that process go on in the context that was carried there."""


_NOTHING: Final = nullcontext()
_COMMON: Final = frozenset({JobsPut, JobsSpooled, JobsClaimed, BacklogSeen, JobStarted})
"""What happens with each job; ends without an error too."""


class Events:
    """Tells every listener.

    `listeners` hear of everything. Without any, events that come with each job need not even be made. `log` hears of
    rare events alone, and hears them in any case.
    """

    def __init__(self, listeners: Iterable[Listener] = (), log: Listener | None = None) -> None:
        if not isinstance(listeners, Iterable):
            raise TypeError(f"listeners are given as a list of them, not {listeners!r:.40}")
        self.listeners: tuple[Listener, ...] = ()
        self.tracer: Tracer | None = None
        """The listener that stands around puts and handlers, if there is one."""
        self._log = () if log is None else (log,)
        for listener in listeners:
            self.listen(listener)

    def listen(self, listener: Listener) -> None:
        """Tell one more listener from now on. TypeError if it cannot be called, BadOption if it is a second tracer."""
        if not callable(listener):
            raise TypeError(f"a listener is called with each event, and {type(listener).__name__} cannot be")
        if isinstance(listener, Tracer):
            if self.tracer is not None:
                raise BadOption("a queue has one tracer: each of two would give its own context to the jobs")
            self.tracer = listener
        self.listeners = (*self.listeners, listener)

    def handling(self, job: Job) -> AbstractContextManager[object]:
        """Return what stands around a handler's call."""
        return _NOTHING if self.tracer is None else self.tracer.handling(job)

    def emit(self, event: Event) -> None:
        """Call every listener. Never raises an Exception."""
        for listener in self.listeners if type(event) in _COMMON else self._log + self.listeners:
            try:
                listener(event)
            except Exception:  # whatever a listener does wrong, the jobs go on
                _LOGGER.exception("a listener failed at %s: %r", type(event).__name__, listener)

    def emit_many(self, events: Sequence[JobEnded]) -> None:
        """Call every listener with ends without an error, in order, each as seldom as it allows. Never raises."""
        for listener in self.listeners:
            try:
                getattr(listener, "many", partial(_each, listener))(events)
            except Exception:
                _LOGGER.exception("a listener failed at %d events: %r", len(events), listener)


def _each(listener: Listener, events: Sequence[Event]) -> None:
    for event in events:
        try:
            listener(event)
        except Exception:  # the others are told all the same
            _LOGGER.exception("a listener failed at %s: %r", type(event).__name__, listener)

"""What runs a job: a function of the program, its options, and what becomes of the job when it ends."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .._errors import BadBody, BadJob, BadOption, BadResult, PywheelError
from .checks import callable_with, whole
from .commands import Ack, Cancel, ClaimPolicy, Edit, Nack, Release
from .durations import delay_ms
from .job import Job
from .limits import Limits
from .retry import RetryFunction, RetryPolicy, after_losses, asked, checked

__all__ = [
    "MOST_AT_ONCE",
    "GiveUp",
    "Handler",
    "NotNow",
    "RaisedElsewhere",
    "RetryLater",
    "Skipped",
    "Verdict",
    "by_name",
    "current_job",
    "decide",
    "ending",
    "error_text",
    "is_async",
    "kept",
    "moved",
    "redefined",
    "rest_of",
    "to_the_end",
    "verdict",
]

current_job: Final[ContextVar[Job | None]] = ContextVar("current_job", default=None)
"""The job whose handler runs in this context. A put with its topic and key takes the key over."""

MOST_AT_ONCE: Final = 10_000
"""The largest concurrency, of a handler and of a worker."""
_ERROR_LENGTH: Final = 4_000  # characters of an error that are kept, the last ones
_OF_THE_JOB: Final = "a handler is a function of the job (one of other arguments is made by @queue.task())"
_SOONEST: Final = 10  # ms for which a job that was not for now waits: one that is due at once would go round and round


class GiveUp(PywheelError):
    """Raised by a handler: no further attempt makes sense, the job is dead now."""


class _Delayed(PywheelError):
    """Names a delay, in ms."""

    def __init__(self, delay: Any, message: str = "") -> None:
        super().__init__(message or f"again in {delay}")
        self.delay = delay_ms(delay)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._unpickled, (self.args, self.__dict__)

    @classmethod
    def _unpickled(cls, args: tuple[Any, ...], attributes: dict[str, Any]) -> _Delayed:
        error = cls.__new__(cls, *args)  # not from its message, which is no delay
        error.args = args
        error.__dict__.update(attributes)
        return error


class RetryLater(_Delayed):
    """Raised by a handler: the attempt failed, and the next one is due after `delay`, whatever the policy says.

    With `least` the policy's own delay counts if it is longer.
    """

    def __init__(self, delay: Any, message: str = "", *, least: bool = False) -> None:
        super().__init__(delay, message)
        self.least = least


class NotNow(_Delayed):
    """Raised by a handler: it has tried nothing, the job is given back unspent, and is due again after `delay`.

    For a handler whose own room for such a job is taken. The delay is 10 ms or more.
    """


class Skipped(PywheelError):
    """Raised instead of a handler's call: the job is not wanted any more. It is given back unspent, and cancelled."""


def expired(job: Job, now: int) -> Skipped | None:
    """Return why a claimed job is not begun at a time of the store's clock, ms, if it comes too late."""
    if not job.expired(now):
        return None
    return Skipped(f"it expired: it could have begun {(now - job.due) / 1000:.1f} s after its due time")


class Verdict(NamedTuple):
    """What becomes of a job whose handler raised something."""

    final: bool = False  # dead now
    delay: int | None = None  # ms until the next attempt; None: as the policy says
    least: bool = False  # or as the policy says, if that is longer
    spent: bool = True  # whether it was an attempt
    cancelled: bool = False  # whether nobody wants it any more


class RaisedElsewhere(PywheelError):
    """What a handler raised in a process of its own: the text of it, and what becomes of the job."""

    def __init__(self, text: str, *verdict: Any) -> None:
        super().__init__(text, *verdict)
        self.text = text
        self.verdict = Verdict(*verdict)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Handler:
    """A topic's handler. `function` takes the Job; what it raises is a failed attempt.

    Raises:
        TypeError: it cannot be one, such as a generator function, which nobody would run.
        BadOption: an option makes no sense.
    """

    topic: str
    function: Callable[[Job], Any]
    concurrency: int
    ttr: int
    retry: RetryPolicy
    keep_lease: bool
    isolate: bool = False  # whether each job runs in a process that is killed at its ttr
    results: bool = False  # whether what it returns is kept
    limits: Limits | None = None  # how many run and begin in the whole store

    def __post_init__(self) -> None:
        whole(self.concurrency, "concurrency", MOST_AT_ONCE, error=BadOption)
        if self.ttr < 1:
            raise BadOption("ttr must be 1 ms or more")
        checked(self.retry)
        for name in ("keep_lease", "isolate", "results"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} is True or False, not {getattr(self, name)!r:.40}")
        if not callable(self.function):
            raise TypeError(f"a handler must be callable, not {type(self.function).__name__}")
        if _is(self.function, inspect.isgeneratorfunction) or _is(self.function, inspect.isasyncgenfunction):
            raise TypeError(
                f"a handler must not be a generator, which nobody runs: take yield out of {self.function!r:.80}"
            )
        callable_with(self.function, 1, _OF_THE_JOB)
        if self.isolate:
            by_name(self.function)
            if isinstance(self.retry, RetryFunction):
                by_name(self.retry.function, "a retry function")

    @property
    def policy(self) -> ClaimPolicy:
        """How its jobs are claimed."""
        delays, jitter = after_losses(self.retry)
        return ClaimPolicy(self.ttr, self.retry.max_attempts, delays, jitter, limits=self.limits)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it is known to give a coroutine. A function that only returns one is not: see `rest_of`."""
    return _is(function, inspect.iscoroutinefunction)


def by_name(function: Any, what: str = "a function") -> tuple[str, str]:
    """Return a function's module and its name there, by which another process finds it.

    Raises:
        BadOption: it has none, as lambdas, local functions, methods of an instance and partials have not.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    wanted = f"isolate=True wants {what} of a module, which its own process finds by name"
    if isinstance(name, str) and "<" in name:
        raise BadOption(f"{wanted}: {name:.200} is a lambda or a local function (a decorator needs functools.wraps)")
    bound = getattr(function, "__self__", None)
    if not (isinstance(module, str) and isinstance(name, str) and (bound is None or inspect.ismodule(bound))):
        raise BadOption(f"{wanted}: {function!r:.200} is none")
    if module == "__main__":
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        if getattr(main, "__file__", None) is None or (spec and spec.name.rpartition(".")[2] == "__main__"):
            raise BadOption(f"{wanted}: {name:.200} stands in a __main__ that cannot be imported again")
    return module, name


def _is(function: Any, kind: Callable[[Any], bool]) -> bool:
    """Whether a function, or what a partial or a callable object calls, is of a kind."""
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004  (its own method, not whether)


def rest_of(result: Any) -> Awaitable[Any] | None:
    """Return what is left to await of what a handler returned, or None: then it has ended.

    Whoever runs a handler asks this of each result, also of what was awaited: a lambda, or a wrapper, around a
    coroutine function returns a coroutine that has not begun.

    Raises:
        TypeError: it is a generator, of which nothing has run.
    """
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(f"the handler returned {type(result).__name__} {result.__name__!r:.80}: nothing of it was run")
    return result if inspect.isawaitable(result) else None


async def to_the_end(rest: Awaitable[Any] | None) -> Any:
    """Await what is left, and what that leaves, until the handler has ended; return what it returned, or raise that."""
    result = None
    while rest is not None:
        result = await rest
        rest = rest_of(result)
    return result


def ending(
    handler: Handler, job: Job, error: BaseException | None, result: bytes | None = None
) -> Ack | Nack | Release:
    """Return the command that settles a claim, after its handler returned `result`, or raised `error`."""
    if error is None:
        return Ack(job.id, job.claims, result)
    text, decided = decide(handler.retry, job, error)
    return Nack(job.id, job.claims, decided.delay, kept(text)) if decided.spent else Release(job.id, job.claims)


def decide(retry: RetryPolicy, job: Job, error: BaseException) -> tuple[str, Verdict]:
    """Return what is kept of an error, and what becomes of its job: the policy is asked, unless it need not be."""
    text, said = error_text(error), verdict(error)
    if not said.spent or said.final or (said.delay is not None and not said.least):
        return text, said
    usual, wrong = asked(retry, job, error)
    if wrong is not None:
        text = f"{text} ({wrong:.400})"
    if usual is None:
        return text, Verdict(final=True)
    return text, Verdict(delay=max(usual, said.delay or 0))


def moved(job: Job, error: BaseException | None) -> Edit | Cancel | None:
    """Return the command that follows the Release of a job that was not for now, or is skipped; None if there is none.

    A job whose lease was lost before has another due time by then, and keeps that.
    """
    if error is None:
        return None
    _, delay, _, spent, cancelled = verdict(error)
    if cancelled:
        return Cancel(job.id, expect=(job.due, job.claims))
    return None if spent else Edit(job.id, delay=max(delay or 0, _SOONEST), expect=(job.due, job.claims))


def verdict(error: BaseException) -> Verdict:
    """Return what becomes of a job whose handler raised this."""
    if isinstance(error, RaisedElsewhere):
        return error.verdict
    if isinstance(error, RetryLater):
        return Verdict(delay=error.delay, least=error.least)
    if isinstance(error, NotNow):
        return Verdict(delay=error.delay, spent=False)
    if isinstance(error, Skipped):
        return Verdict(spent=False, cancelled=True)
    return Verdict(final=isinstance(error, GiveUp | BadBody | BadResult))


def error_text(error: BaseException) -> str:
    """Return what an error says, as a traceback ends, as a store keeps it."""
    if isinstance(error, RaisedElsewhere):
        return kept(error.text)
    return kept("".join(traceback.format_exception_only(error)).strip())


def kept(text: str) -> str:
    """Return the end of an error's text, in characters that every store can keep. BadJob if it is no str."""
    if not isinstance(text, str):
        raise BadJob(f"error must be a str, not {type(text).__name__}")
    return text[-_ERROR_LENGTH:].encode("utf-8", "replace").decode().replace("\0", "\\0")


def redefined(before: object, now: object) -> bool:
    """Whether both are one function of an interactive session, the second by a later run of its definition.

    Such a session has a prompt. In a program a second handler of a topic is a mistake, whatever its name.
    """
    called = _called(now)
    return hasattr(sys, "ps1") and called is not None and called == _called(before)


def _called(function: object) -> tuple[str, str] | None:
    """Return the module and name by which a session finds a function; None for a lambda or a local one."""
    inner = inspect.unwrap(function) if callable(function) else function
    module, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", "<")
    return None if module is None or "<" in name else (module, name)

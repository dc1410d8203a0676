"""Handlers: the functions that run jobs, their options, and the outcome of a job when its function ends."""

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
from .durations import Duration, delay_ms
from .job import Job
from .limits import Limits
from .retry import RetryFunction, RetryPolicy, after_losses, asked, checked

current_job: Final[ContextVar[Job | None]] = ContextVar("current_job", default=None)
"""The job whose handler runs in this context. A put with its topic and key takes the key over."""

MOST_AT_ONCE: Final = 10_000
"""The largest concurrency, of a handler and of a worker."""
_ERROR_LENGTH: Final = 4_000  # characters of an error that are kept, from its end
_OF_THE_JOB: Final = "a handler is a function of the job (one of other arguments is made by @queue.task())"
_SOONEST: Final = 10  # ms that a job waits after NotNow, at least: a job that is due at once would go round and round


class GiveUp(PywheelError):
    """Raised by a handler: no further attempt makes sense, and the job is dead now."""


class _Delayed(PywheelError):
    """An error that names a delay, in ms."""

    def __init__(self, delay: Duration, message: str = "") -> None:
        super().__init__(message or f"again in {delay}")
        self.delay = delay_ms(delay)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._unpickled, (self.args, self.__dict__)

    @classmethod
    def _unpickled(cls, args: tuple[Any, ...], attributes: dict[str, Any]) -> _Delayed:
        error = cls.__new__(cls, *args)  # not from its message, which is not a delay
        error.args = args
        error.__dict__.update(attributes)
        return error


class RetryLater(_Delayed):
    """Raised by a handler: the attempt failed, and the next one is due after `delay`, whatever the policy says.

    With `least` the policy's own delay is used if it is longer.
    """

    def __init__(self, delay: Duration, message: str = "", *, least: bool = False) -> None:
        super().__init__(delay, message)
        self.least = least


class NotNow(_Delayed):
    """Raised by a handler that has tried nothing: the job is given back unspent, and is due again after `delay`.

    For a handler without room for such a job at present. The delay is 10 ms or more.
    """


class Skipped(PywheelError):
    """Raised instead of calling a handler: the job is no longer wanted. It is given back unspent, and cancelled."""


def expired(job: Job, now: int) -> Skipped | None:
    """Return the reason not to begin a claimed job, if it has expired at a time of the store's clock, ms."""
    if not job.expired(now):
        return None
    return Skipped(f"it expired: it could have begun {(now - job.due) / 1000:.1f} s after its due time")


class Verdict(NamedTuple):
    """The outcome of a job whose handler raised an error."""

    final: bool = False  # the job is dead now
    delay: int | None = None  # ms until the next attempt; None: the policy decides
    least: bool = False  # the policy's delay is used if it is longer
    spent: bool = True  # whether an attempt was spent
    cancelled: bool = False  # whether the job is no longer wanted


class RaisedElsewhere(PywheelError):
    """An error of a handler in another process: its text, and the outcome of the job."""

    def __init__(self, text: str, *verdict: Any) -> None:
        super().__init__(text, *verdict)
        self.text = text
        self.verdict = Verdict(*verdict)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Handler:
    """A topic's handler. `function` takes the Job; an exception is a failed attempt.

    Raises:
        TypeError: the function cannot be a handler, such as a generator function, whose body nothing would run.
        BadOption: an option makes no sense.
    """

    topic: str
    function: Callable[[Job], Any]
    concurrency: int
    ttr: int
    retry: RetryPolicy
    keep_lease: bool
    isolate: bool = False  # whether each job runs in a process that is killed at its ttr
    results: bool = False  # whether its results are kept
    limits: Limits | None = None  # how many jobs may run and begin in the whole store
    max_attempts: int | None = None  # in place of the policy's number, from @queue.task

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
            raise TypeError(f"a handler must not be a generator: remove yield from {self.function!r:.80}")
        callable_with(self.function, 1, _OF_THE_JOB)
        if self.isolate:
            by_name(self.function)
            if isinstance(self.retry, RetryFunction):
                by_name(self.retry.function, "a retry function")

    @property
    def policy(self) -> ClaimPolicy:
        """The policy by which its jobs are claimed."""
        delays, jitter = after_losses(self.retry)
        return ClaimPolicy(self.ttr, self.max_attempts or self.retry.max_attempts, delays, jitter, limits=self.limits)


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call is known to return a coroutine. Not for a plain function that returns one: see `rest_of`."""
    return _is(function, inspect.iscoroutinefunction)


def by_name(function: Any, what: str = "a function") -> tuple[str, str]:
    """Return a function's module and its qualified name, by which another process finds it.

    Raises:
        BadOption: another process cannot find it: a lambda, a local function, a method of an instance, or a partial.
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
            raise BadOption(f"{wanted}: {name:.200} is defined in a __main__ that cannot be imported again")
    return module, name


def _is(function: Any, kind: Callable[[Any], bool]) -> bool:
    """Whether a function, or the function inside a partial or a callable object, is of a kind."""
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004  (its own method, not whether)


def rest_of(result: Any) -> Awaitable[Any] | None:
    """Return the awaitable that a handler's result still is; None if the handler has ended.

    The caller checks each result with this, even an awaited one: a lambda, or a wrapper, around a coroutine function
    returns a coroutine that has not begun.

    Raises:
        TypeError: the result is a generator, of which nothing has run.
    """
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise TypeError(f"the handler returned {type(result).__name__} {result.__name__!r:.80}: nothing of it was run")
    return result if inspect.isawaitable(result) else None


async def to_the_end(rest: Awaitable[Any] | None) -> Any:
    """Await a result until the handler has ended; return or raise its final outcome."""
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
    """Return the text of an error, and the outcome of its job. The policy is asked only if the error leaves it open."""
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
    """Return the command that follows the Release of a job after NotNow or Skipped; None if none is needed.

    A job that has lost its lease meanwhile has another due time, and keeps that.
    """
    if error is None:
        return None
    _, delay, _, spent, cancelled = verdict(error)
    if cancelled:
        return Cancel(job.id, expect=(job.due, job.claims))
    return None if spent else Edit(job.id, delay=max(delay or 0, _SOONEST), expect=(job.due, job.claims))


def verdict(error: BaseException) -> Verdict:
    """Return the outcome of a job whose handler raised this error."""
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
    """Return the text of an error as a store keeps it: the last line of a traceback."""
    if isinstance(error, RaisedElsewhere):
        return kept(error.text)
    return kept("".join(traceback.format_exception_only(error)).strip())


def kept(text: str) -> str:
    """Return the end of an error's text, in characters that every store can keep. BadJob if it is not a str."""
    if not isinstance(text, str):
        raise BadJob(f"error must be a str, not {type(text).__name__}")
    return text[-_ERROR_LENGTH:].encode("utf-8", "replace").decode().replace("\0", "\\0")


def redefined(before: object, now: object) -> bool:
    """Whether both are one function of an interactive session, which has run the definition again.

    Only a session with a prompt counts. In a program a second handler of a topic is a mistake, whatever its name.
    """
    called = _called(now)
    return hasattr(sys, "ps1") and called is not None and called == _called(before)


def _called(function: object) -> tuple[str, str] | None:
    """Return the module and name by which a session finds a function; None for a lambda or a local function."""
    inner = inspect.unwrap(function) if callable(function) else function
    module, name = getattr(inner, "__module__", None), getattr(inner, "__qualname__", "<")
    return None if module is None or "<" in name else (module, name)

"""A program's declarations, on both kinds of queue: handlers, tasks, schedules, and functions around handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, cast, overload

from .._errors import BadJob, BadOption
from ..clock import Clock
from ..events import Events, Listener
from ..jobs.checks import MOST, name, whole
from ..jobs.commands import ClaimPolicy, Reserve
from ..jobs.durations import Duration, duration
from ..jobs.handler import Handler, redefined
from ..jobs.job import Job, NewJob
from ..jobs.keyring import Keyring
from ..jobs.limits import Limit, Rate, limits_of
from ..jobs.middleware import After, Before, Dead, Middleware
from ..jobs.new_job import JobOptions, PutOptions, SharedOptions, misspelt, new_job
from ..jobs.retry import DEFAULT, AnyRetry, RetryPolicy, after_losses, policy_of
from ..jobs.schedule import CatchUp, Overlap, Schedule, schedule_name, timing
from ..observe.logs import log
from ..stores.contract import Store
from ..stores.open import open as open_store
from ..stores.schedule_notes import Declared
from ..tasks.handler import task_handler
from ..tasks.providers import Providers
from ..tasks.signature import Signature
from ..tasks.task import AnyTask, AsyncTask, Task, default_topic
from . import claims
from .calls import Calls
from .schedules import how, schedule_of, taking_the_job

MAX_BODY: Final = 1 << 20
_MOST_RESERVED: Final = 1_000_000  # jobs in one claim
P = ParamSpec("P")
R = TypeVar("R")
_Yields: TypeAlias = Iterator[Any] | AsyncIterator[Any]
F = TypeVar("F", bound=Callable[[], _Yields] | Callable[[Job], _Yields])
S = TypeVar("S", bound=Callable[[], Any] | Callable[[Job], Any])
H = TypeVar("H", bound=Callable[[Job], Any])
B = TypeVar("B", bound=Before)
A = TypeVar("A", bound=After)
D = TypeVar("D", bound=Dead)
Place: TypeAlias = str | Store | Callable[[], str | Store]


class HandlerOptions(TypedDict, total=False):
    """The options of a handler. `JobQueue.handler` describes them."""

    concurrency: int
    ttr: Duration
    retry: AnyRetry
    keep_lease: bool
    isolate: bool
    results: bool
    limit: int | Limit | None
    rate: str | Rate | None


class TaskOptions(HandlerOptions, SharedOptions, total=False):
    """The options of a task: those of `JobQueue.handler`, and those of `JobQueue.put` for all its jobs."""


class Decorator(Protocol):
    """A decorator that makes a task of a function. A function that takes the Job first is put without it."""

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> Task[P, Concatenate[Job, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, P, R]: ...


class AsyncDecorator(Protocol):
    """The same decorator, of a queue whose methods are awaited."""

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> AsyncTask[P, Concatenate[Job, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> AsyncTask[P, P, R]: ...


class Program:
    """A store, and a program's handlers, tasks and schedules. `JobQueue` describes the arguments."""

    def __init__(
        self,
        url: Place = "sqlite:///jobs.db",
        *,
        clock: Clock | None = None,
        create: bool = True,
        max_body: int = MAX_BODY,
        listeners: Iterable[Listener] = (),
        spool: str | None = None,
        encryption: Keyring | None = None,
    ) -> None:
        if encryption is not None and not isinstance(encryption, Keyring):
            raise TypeError(f"encryption must be a Keyring, not {type(encryption).__name__}")
        self.events = Events(listeners, log)
        self.handlers: dict[str, Handler] = {}
        self.declared = Declared()
        self.middleware = Middleware()
        self._providers = Providers()
        self._policies: dict[str, RetryPolicy] = {}  # the policies that reserves were given, by topic
        opener = partial(_placed, url, clock, create, spool, self.events)
        self.calls = self._calls = Calls(
            opener, self.events, encryption, whole(max_body, "max_body", MOST, error=BadOption)
        )
        if not callable(url):
            self.calls.open()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.store.url if self.calls.used else '(not used yet)'}>"

    @property
    def store(self) -> Store:
        """The store, opened on first use."""
        return self.calls.store

    def job(self, topic: str, body: Any = None, /, **options: Unpack[JobOptions]) -> NewJob:
        """Return a new job for `put_many`; nothing is stored yet. `put` describes the arguments. BadJob."""
        try:
            return new_job(self.calls.max_body, topic, body, **options)
        except TypeError:
            misspelt(options, PutOptions, "a put")
            if "connection" in options:
                raise BadJob("connection= is for what stores jobs: give it to put or put_many") from None
            raise

    # ---- handlers ---------------------------------------------------------------------------------------------------

    def handler(
        self,
        topic: str,
        *,
        concurrency: int = 8,
        ttr: Duration = 60,
        retry: AnyRetry = DEFAULT,
        keep_lease: bool = False,
        isolate: bool = False,
        results: bool = False,
        limit: int | Limit | None = None,
        rate: str | Rate | None = None,
    ) -> Callable[[H], H]:
        """Return a decorator that registers a topic's handler: a function or coroutine function that takes the Job.

        The job succeeds when the handler returns. Any exception is a failed attempt, and `retry` decides when the job
        runs again. GiveUp makes the job dead at once, RetryLater names the delay.

        Args:
            topic: the topic whose jobs it handles.
            concurrency: how many may run at once in a worker.
            ttr: how long a handler may run before another worker may take its job, more than 0.
            retry: when and how often a failed job is tried again: a policy, such as Ladder, or a function of the job
                and the error. The function returns the delay, such as "30s", or None to make the job dead. It is called
                where the handler ran. If it raises, or returns something else, that is logged and kept in the error,
                and the default policy's delay is used. With a function the default policy also decides after lost
                leases, and sets the number of attempts, 10, unless the put gave `max_attempts`.
            keep_lease: renew the lease for as long as the handler runs and its process lives.
            isolate: run each job in a child process, which imports the handler's module. The process is killed at the
                ttr, unless the lease is kept. A job that crashes its process has failed; other jobs are not affected.
            results: keep what the handler returns, for `result` and `wait`: bytes as they are, anything else as JSON,
                up to 64 KiB. With a value that cannot be kept the job is dead at once: a retry would only repeat its
                work.
            limit: how many may run at once in the whole store, at most 1 000 000. ``Limit(3, per=":")``: how many of
                the jobs whose keys are equal up to the first ":". All workers of the topic must give the same limit.
            rate: how many may begin in a time in the whole store, such as "100/m" or "5/s", or a `Rate`.

        Raises:
            BadJob: the topic's name is not valid.
            TypeError: the function cannot be a handler, such as a generator function.
            BadOption: the topic has a handler; or an option makes no sense; or an isolated handler is a lambda, which
                another process cannot find by name. In a notebook, or at a prompt, a function replaces the earlier
                one of the same name.
        """
        if callable(topic):
            raise TypeError("write @queue.handler(topic): which jobs it handles stands in the parentheses")
        named = name(topic, "topic")
        lease, limits, policy = duration(ttr, "ttr", 1, error=BadOption), limits_of(limit, rate), policy_of(retry)

        def register(function: H) -> H:
            if named in self.handlers and not redefined(self.handlers[named].function, function):
                raise BadOption(f"topic {named[:80]!r} has a handler already")
            self.handlers[named] = Handler(
                named, function, concurrency, lease, policy, keep_lease, isolate, results, limits
            )
            return function

        return register

    # ---- tasks ------------------------------------------------------------------------------------------------------

    def _task(
        self, kind: type[AnyTask[..., ..., Any]], topic: str | None, key: Any, options: dict[str, Any]
    ) -> Callable[[Callable[..., Any]], Any]:
        """Return a decorator that makes a task of the given kind."""
        if callable(topic):
            raise TypeError("write @queue.task(), with parentheses, or a topic in them")
        misspelt(options, TaskOptions, "a task")
        handled = {option: options.pop(option) for option in (self.handler.__kwdefaults__ or {}) if option in options}
        if isinstance(key, str):
            options["key"], key = name(key, "key"), None

        def register(function: Callable[..., Any]) -> AnyTask[..., ..., Any]:
            if not callable(function):
                raise TypeError(f"a task is made of a function, not of {function!r:.40}")
            named = default_topic(function) if topic is None else topic
            self.job(named, b"", **options)  # options that make no sense raise here
            signature = Signature(function, named, self._providers)
            handler = task_handler(function, signature, encodes=bool(handled.get("results")))
            task = kind(self.calls, handler, signature, key, options)
            self.handler(named, **handled)(handler)
            most = options.get("max_attempts")  # also of jobs that other programs put
            self.handlers[named] = replace(self.handlers[named], max_attempts=most)
            return task

        return register

    def provide(self, function: F) -> F:
        """Provide to tasks what a generator function, or an async one, yields; return the function.

        A task's parameter gets the value if it has the function's name, or the type that the function is annotated to
        yield. The generator is opened before each job and closed after it, whatever the outcome. An error in it is a
        failed attempt. The function may take the Job. An async generator is for async tasks.

        Raises:
            TypeError: the function is not a generator function.
            BadOption: its name is taken.
        """
        self._providers.add(function)
        return function

    # ---- declared by code -------------------------------------------------------------------------------------------

    def every(
        self,
        period: Duration,
        *,
        name: str | None = None,
        catch_up: CatchUp = "none",
        overlap: Overlap | None = None,
        jitter: Duration = 0,
        **handler: Unpack[HandlerOptions],
    ) -> Callable[[S], S]:
        """Return a decorator that runs a function at the multiples of `period` since 1970, in UTC.

        The function takes nothing, or the Job, or is a Task whose arguments all have defaults. A worker stores the
        schedule when it starts; the worker that starts last decides. `ScheduleOptions` describes the other arguments;
        the options of `handler` may be given as well.

        Raises:
            BadJob, BadOption: an argument makes no sense, or the name is taken.
        """
        return self._declaring(name, timing(period, None, None), how(catch_up, overlap, jitter), dict(handler))

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        name: str | None = None,
        catch_up: CatchUp = "none",
        overlap: Overlap | None = None,
        jitter: Duration = 0,
        **handler: Unpack[HandlerOptions],
    ) -> Callable[[S], S]:
        """Return a decorator that runs a function when a cron expression says, in a time zone.

        The expression has five fields, minute, hour, day, month and weekday, or six with seconds first. All else is as
        for `every`.

        Raises:
            ExtraMissing: ``pip install 'pywheel-timer[cron]'``.
            BadJob, BadOption: an argument makes no sense, or the name is taken.
        """
        return self._declaring(name, timing(None, expression, tz), how(catch_up, overlap, jitter), dict(handler))

    def _declaring(
        self, given: str | None, when: dict[str, Any], options: dict[str, Any], handler: dict[str, Any]
    ) -> Callable[[S], S]:
        misspelt(handler, {*(self.handler.__kwdefaults__ or ()), *when, *options, "name"} - {"cron"}, "every or cron")

        def declare(function: S) -> S:
            called = schedule_name(getattr(function, "__name__", None) if given is None else given)
            if isinstance(function, AnyTask):
                if handler:
                    raise BadOption(f"{', '.join(handler)[:80]}: give what is for the handler to @queue.task")
                said = schedule_of(called, function.job(), declared=function.__module__, **when, **options)
                self.declared.add(said, function)
                return cast(S, function)
            runs = taking_the_job(function)
            self.declared.add(Schedule(called, called, declared=function.__module__, **when, **options), runs)
            try:
                self.handler(called, **handler)(runs)
            except BaseException:
                self.declared.discard(called)
                raise
            return cast(S, runs)

        return declare

    # ---- around all handlers ----------------------------------------------------------------------------------------

    def before(self, function: B) -> B:
        """Call a function with the Job before each handler of this queue, where the handler runs; return the function.

        The functions are called in the order in which they were given. An error counts as the handler's: a failed
        attempt, or GiveUp, RetryLater, NotNow. The handler is not called then. Context variables that a function sets
        are the handler's.

        Raises:
            TypeError: it is not a function, or is a coroutine function.
        """
        self.middleware.add(self.middleware.before, function, "before")
        return function

    def after(self, function: A) -> A:
        """Call a function with the Job and the exception, or None, after each handler; return the function.

        The function that was given last is called first. All of them are called, whatever the handler or another one
        raised. An error in a function is logged and changes nothing: the handler has done its work. After a process
        was killed, none is called.

        Raises:
            TypeError: it is not a function, or is a coroutine function.
        """
        self.middleware.add(self.middleware.after, function, "after")
        return function

    def on_dead(self, function: D) -> D:
        """Call a function, or a coroutine function, with each Job that is dead; return the function.

        The job's last attempt has failed, or has lost its lease, as when its worker was killed; `last_error` gives the
        reason. The call comes in a worker, in a thread of its own, once the store has the state. Errors in it are
        logged.

        The function is called once at most. It is not called if the process ends first, or if `reserve`, or a put with
        the same key, ended the lost lease before a worker did.

        Raises:
            TypeError: it is not a function.
        """
        self.middleware.add(self.middleware.dead, function, "on_dead")
        return function

    # ---- claims by hand ---------------------------------------------------------------------------------------------

    def _reserving(self, topic: str, limit: int, ttr: Duration, retry: AnyRetry | None) -> Reserve:
        """Return the command that claims jobs of a topic. Without a policy a lost lease makes the job due at once."""
        policy = None if retry is None else policy_of(retry)
        losses = () if policy is None else after_losses(policy)
        terms = ClaimPolicy(duration(ttr, "ttr", 1), (policy or DEFAULT).max_attempts, *losses)
        command = Reserve(name(topic, "topic"), whole(limit, "limit", _MOST_RESERVED), terms, "reserve")
        if policy is None:
            self._policies.pop(topic, None)
        else:
            self._policies[topic] = policy
        return command

    def _retry(self, job: Job) -> RetryPolicy:
        """Return the retry policy of a reserved job."""
        claims.receipt(job)
        if job.topic in self._policies:
            return self._policies[job.topic]
        handler = self.handlers.get(job.topic)
        return DEFAULT if handler is None else handler.retry

    # ---- life -------------------------------------------------------------------------------------------------------

    def use(self, url: str | Store, *, clock: Clock | None = None, create: bool = True) -> None:
        """Use another store, without a spool, and close the present one; the handlers stay.

        For tests of a program that has made its queue: ``shop.queue.use("memory:", clock=clock)``. No other thread may
        use the queue meanwhile. Raises what making a queue raises; the queue then keeps its store.
        """
        self.calls.use(_opened(url, clock, create=create))


def _placed(url: Place, clock: Clock | None, create: bool, spool: str | None, events: Events) -> Store:
    """Open a store. Not a method: a queue that holds its own method is only freed by the garbage collector."""
    place = url if isinstance(url, str | Store) or not callable(url) else url()
    if spool is None:
        return _opened(place, clock, create=create)
    from .spooled_store import SpooledStore  # most queues have no spool, and do not need SQLite

    return SpooledStore(place, partial(_opened, place, clock, create=create), spool, clock, events.emit)


def _opened(url: str | Store, clock: Clock | None, *, create: bool) -> Store:
    if clock is not None and not isinstance(clock, Clock):
        raise TypeError(f"clock must be a pywheel.Clock, not {clock!r:.40}")
    if not isinstance(url, Store):
        return open_store(url, clock=clock, create=create)
    if clock is not None:
        raise BadOption("a store has a clock of its own: give the clock to the store")
    return url

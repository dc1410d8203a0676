"""What a program says of its jobs, on both kinds of queue: handlers, tasks, schedules, and what stands around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar, Unpack, cast, overload

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

__all__ = ["MAX_BODY", "Place", "Program", "TaskOptions"]

MAX_BODY: Final = 1 << 20
_MOST_RESERVED: Final = 1_000_000  # jobs in one claim
P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
H = TypeVar("H", bound=Callable[[Job], Any])
B = TypeVar("B", bound=Before)
A = TypeVar("A", bound=After)
D = TypeVar("D", bound=Dead)
Place: TypeAlias = str | Store | Callable[[], str | Store]


class TaskOptions(SharedOptions, total=False):
    """What `JobQueue.handler` may be told, and what `JobQueue.put` may, for all jobs of a task."""

    concurrency: int
    ttr: Duration
    retry: AnyRetry
    keep_lease: bool
    isolate: bool
    results: bool
    limit: int | Limit
    rate: str | Rate


class Decorator(Protocol):
    """Makes a task of a function. One that takes the Job first is put without it."""

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> Task[P, Concatenate[Job, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, P, R]: ...


class AsyncDecorator(Protocol):
    """The same, of a queue whose methods are awaited."""

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> AsyncTask[P, Concatenate[Job, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> AsyncTask[P, P, R]: ...


class Program:
    """A store, and what a program does with its jobs. `JobQueue` says what it is made with."""

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
            raise TypeError(f"encryption is a Keyring, not {type(encryption).__name__}")
        self.events = Events(listeners, log)
        self.handlers: dict[str, Handler] = {}
        self.declared = Declared()
        self.middleware = Middleware()
        self._providers = Providers()
        self._policies: dict[str, RetryPolicy] = {}  # that reserves were given, by topic
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
        """The store, opened when it is used first."""
        return self.calls.store

    def job(self, topic: str, body: Any = None, /, **options: Unpack[JobOptions]) -> NewJob:
        """Return a new job for `put_many`; nothing is stored yet. `put` says what the arguments mean. BadJob."""
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

        It succeeds by returning. Any exception is a failed attempt, retried as `retry` says; GiveUp makes the job dead
        at once, RetryLater names the delay.

        Args:
            topic: whose jobs it handles.
            concurrency: how many may run at once in a worker.
            ttr: how long one may run until another worker may have its job, more than 0.
            retry: when a failed job is tried again, and how often: a policy, such as Ladder; or a function of the job
                and the error that returns how long to wait, such as "30s", or None: dead. It is called where the
                handler ran; what it raises, or returns instead, is logged and kept in the error, and the default
                policy's delay is taken. That policy holds as well for lost leases, of which no function is asked, and
                for how often a job is tried at most, 10 times, unless it was put with `max_attempts`.
            keep_lease: renew the lease for as long as the handler runs and its process lives.
            isolate: run each job in a child process. It is killed at the ttr, unless the lease is kept; a job that
                crashes it has failed, and no other one notices. The child imports the handler's module.
            results: keep what it returns, for `result` and `wait`: bytes as they are, anything else as JSON, up to
                64 KiB. With a value that cannot be kept the job is dead at once: its work would only be done again.
            limit: how many may run at once in the whole store: at most 1 000 000. ``Limit(3, per=":")``: how many of
                those whose keys are the same up to the first ":". Each worker of the topic is to say the same.
            rate: how many may begin in a time, in the whole store, such as "100/m" or "5/s", or a `Rate`.

        Raises:
            BadJob: there can be no such topic.
            TypeError: it can be no handler, such as a generator function.
            BadOption: the topic has a handler, or an option makes no sense, or it is isolated and a lambda, which
                another process cannot find by name. In a notebook, or at a prompt, a function takes the
                place of the one of its name that was there.
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
        """Return a decorator that makes a task of a kind."""
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
            self.job(named, b"", **options)  # what makes no sense is said now
            signature = Signature(function, named, self._providers)
            handler = task_handler(function, signature, encodes=bool(handled.get("results")))
            task = kind(self.calls, handler, signature, key, options)
            self.handler(named, **handled)(handler)
            return task

        return register

    def provide(self, function: F) -> F:
        """Provide to tasks what a generator function, or an async one, yields; return the function.

        A parameter of a task that has the function's name, or the type that the function is annotated to yield, gets
        it: opened before each job, closed after it, whatever becomes of it. What is raised in either is a failed
        attempt. The function may take the Job. An async one is for async tasks.

        Raises:
            TypeError: it is no generator function.
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
        **handler: Any,
    ) -> Callable[[F], F]:
        """Return a decorator that has a function run every so often: at the multiples of `period` since 1970, in UTC.

        The function takes nothing, or the Job, or it is a Task whose arguments all have defaults. The store hears of it
        when a worker starts; the one that starts last says what holds. `ScheduleOptions` says what the other arguments
        mean; those of `handler` may be given too.

        Raises:
            BadJob, BadOption: an argument makes no sense, or the name is taken.
        """
        return self._declaring(name, timing(period, None, None), how(catch_up, overlap, jitter), handler)

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        name: str | None = None,
        catch_up: CatchUp = "none",
        overlap: Overlap | None = None,
        jitter: Duration = 0,
        **handler: Any,
    ) -> Callable[[F], F]:
        """Return a decorator that has a function run when a cron expression says, in a time zone.

        It has five fields, minute, hour, day, month and weekday, or six with seconds first. All else is as for `every`.

        Raises:
            CronMissing: ``pip install 'pywheel-timer[cron]'``.
            BadJob, BadOption: an argument makes no sense, or the name is taken.
        """
        return self._declaring(name, timing(None, expression, tz), how(catch_up, overlap, jitter), handler)

    def _declaring(
        self, given: str | None, when: dict[str, Any], options: dict[str, Any], handler: dict[str, Any]
    ) -> Callable[[F], F]:
        misspelt(handler, {*(self.handler.__kwdefaults__ or ()), *when, *options, "name"} - {"cron"}, "every or cron")

        def declare(function: F) -> F:
            called = schedule_name(getattr(function, "__name__", None) if given is None else given)
            if isinstance(function, AnyTask):
                if handler:
                    raise BadOption(f"{', '.join(handler)[:80]}: give what is for the handler to @queue.task")
                said = schedule_of(called, function.job(), declared=function.__module__, **when, **options)
                self.declared.add(said, function)
                return cast(F, function)
            runs = taking_the_job(function)
            self.declared.add(Schedule(called, called, declared=function.__module__, **when, **options), runs)
            try:
                self.handler(called, **handler)(runs)
            except BaseException:
                self.declared.discard(called)
                raise
            return cast(F, runs)

        return declare

    # ---- around all handlers ----------------------------------------------------------------------------------------

    def before(self, function: B) -> B:
        """Call a function with the Job before each handler of this queue, where the handler runs; return the function.

        In the order in which they were given. What one raises is what the handler would have raised: a failed attempt,
        or GiveUp, RetryLater, NotNow; the handler is not called then. Context variables that it sets are the handler's.

        Raises:
            TypeError: it is no function, or a coroutine function.
        """
        self.middleware.add(self.middleware.before, function, "before")
        return function

    def after(self, function: A) -> A:
        """Call a function with the Job and what was raised, or None, after each handler; return the function.

        The last given is called first, each of them whatever has happened. What one raises is logged, and changes
        nothing: the handler has done what it did. Not called after a process that was killed.

        Raises:
            TypeError: it is no function, or a coroutine function.
        """
        self.middleware.add(self.middleware.after, function, "after")
        return function

    def on_dead(self, function: D) -> D:
        """Call a function, or a coroutine function, with each Job that is dead; return the function.

        Its last attempt has failed, or the lease of that was lost, as by a worker that was killed; its `last_error`
        says why. It is called in a worker, in a thread of its own, once the store knows. What it raises is logged.

        It is called once at most: not if the process ends first, nor if `reserve`, or a put with the same key, ended
        the lost lease before a worker did.

        Raises:
            TypeError: it is no function.
        """
        self.middleware.add(self.middleware.dead, function, "on_dead")
        return function

    # ---- claims by hand ---------------------------------------------------------------------------------------------

    def _reserving(self, topic: str, limit: int, ttr: Duration, retry: AnyRetry | None) -> Reserve:
        """Return the command that claims jobs of a topic. Without a policy a lost one is due again at once."""
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
        """Return the policy by which a job is tried again that was reserved."""
        claims.receipt(job)
        if job.topic in self._policies:
            return self._policies[job.topic]
        handler = self.handlers.get(job.topic)
        return DEFAULT if handler is None else handler.retry

    # ---- life -------------------------------------------------------------------------------------------------------

    def use(self, url: str | Store, *, clock: Clock | None = None, create: bool = True) -> None:
        """Go over to another store, without a spool, and close the one before; the handlers stay.

        For tests of a program that has made its queue: ``shop.queue.use("memory:", clock=clock)``. To be called
        while nobody else uses the queue. Errors as when a queue is made; then it keeps its store.
        """
        self.calls.use(_opened(url, clock, create=create))


def _placed(url: Place, clock: Clock | None, create: bool, spool: str | None, events: Events) -> Store:
    """Open a store. Not a method: a queue that keeps one of its own would only be freed by the garbage collector."""
    place = url if isinstance(url, str | Store) or not callable(url) else url()
    if spool is None:
        return _opened(place, clock, create=create)
    from .spooled_store import SpooledStore  # most queues have none, and do without SQLite

    return SpooledStore(place, partial(_opened, place, clock, create=create), spool, clock, events.emit)


def _opened(url: str | Store, clock: Clock | None, *, create: bool) -> Store:
    if clock is not None and not isinstance(clock, Clock):
        raise TypeError(f"a clock is a pywheel.Clock, not {clock!r:.40}")
    if not isinstance(url, Store):
        return open_store(url, clock=clock, create=create)
    if clock is not None:
        raise BadOption("a store has a clock of its own: give the clock to the store")
    return url

"""Functions that become tasks, and what a program provides to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, overload

from .._errors import BadJob
from ..jobs.checks import did_you_mean, name
from ..jobs.durations import Duration
from ..jobs.job import Job
from ..jobs.limits import Limit, Rate
from ..jobs.middleware import After, Before, Dead, Middleware
from ..jobs.providers import Providers
from ..jobs.retry import RetryPolicy
from ..jobs.signature import Signature
from ..jobs.task_handler import task_handler
from .task import OPTIONS, Task, default_topic

if TYPE_CHECKING:
    from .queue import JobQueue

__all__ = ["TaskOptions", "Tasks"]

P = ParamSpec("P")
K = ParamSpec("K")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])
B = TypeVar("B", bound=Before)
A = TypeVar("A", bound=After)
D = TypeVar("D", bound=Dead)

_OF_ONE_PUT: Final = {"at", "connection", "key", "traceparent"}


class TaskOptions(TypedDict, total=False):
    """What `JobQueue.handler` may be told, and what `JobQueue.put` may, for all jobs of a task."""

    concurrency: int
    ttr: Duration
    retry: RetryPolicy
    keep_lease: bool
    isolate: bool
    results: bool
    limit: int | Limit
    rate: str | Rate
    delay: Duration
    replace: bool
    max_attempts: int
    headers: dict[str, str]
    to: str
    dedupe_for: Duration
    priority: int


class Decorator(Protocol[K]):
    """Makes a task of a function. One that takes the Job first is put without it."""

    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> Task[P, K, Concatenate[Job, P], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, K, P, R]: ...


class Tasks:
    """How a program says what its tasks are."""

    middleware: Middleware
    _providers: Providers

    @overload
    def task(
        self, topic: str | None = None, *, key: Callable[K, str], **options: Unpack[TaskOptions]
    ) -> Decorator[K]: ...
    @overload
    def task(
        self, topic: str | None = None, *, key: str | None = None, **options: Unpack[TaskOptions]
    ) -> Decorator[[]]: ...
    def task(self, topic: str | None = None, *, key: Any = None, **options: Any) -> Any:
        """Return a decorator that makes a task of a function, or of a coroutine function.

        A job of it calls the function with the arguments that were put, and with what else it asks for: the Job, and
        what `provide` gives. It succeeds by returning, and fails as a handler does.

        Args:
            topic: where its jobs are; the function's module and name unless told.
            key: of each job: a function of the task's arguments that returns it, or the same one for all.
            options: those of `handler`, and of `put` for each of its jobs, such as `delay`, `replace`, `max_attempts`.
                A `ttr` is the handler's.

        Raises:
            BadJob: the topic has a handler, or an argument makes no sense, such as a function with ``*args``.
        """
        if callable(topic):
            raise BadJob("write @queue.task(), with parentheses, or a topic in them")
        queue: JobQueue = self  # type: ignore[assignment]  # which is one
        known = frozenset(queue.handler.__kwdefaults__ or ())
        for option in options.keys() - known - OPTIONS | options.keys() & _OF_ONE_PUT:
            raise BadJob(f"{option[:80]!r} is no option of a task{did_you_mean(option, known | OPTIONS - _OF_ONE_PUT)}")
        handled = {option: options.pop(option) for option in known & options.keys()}
        if isinstance(key, str):
            options["key"], key = name(key, "key"), None

        def register(function: Callable[..., Any]) -> Task[..., ..., ..., Any]:
            if not callable(function):
                raise BadJob(f"a task is made of a function, not of {function!r:.40}")
            named = default_topic(function) if topic is None else topic
            queue.job(named, b"", **options)  # what makes no sense is said now
            signature = Signature(function, named, self._providers)
            handler = task_handler(function, signature, encodes=bool(handled.get("results")))
            task: Task[..., ..., ..., Any] = Task(queue, handler, signature, key, options)
            queue.handler(named, **handled)(handler)
            return task

        return register

    def provide(self, function: F) -> F:
        """Provide to tasks what a generator function, or an async one, yields; return the function.

        A parameter of a task that has the function's name, or the type that the function is annotated to yield, gets
        it: opened before each job, closed after it, whatever becomes of it. What is raised in either is a failed
        attempt. The function may take the Job. An async one is for async tasks.

        Raises:
            BadJob: it is no generator function, or its name is taken.
        """
        self._providers.add(function)
        return function

    # ---- around all handlers ----------------------------------------------------------------------------------------

    def before(self, function: B) -> B:
        """Call a function with the Job before each handler of this queue, where the handler runs; return the function.

        In the order in which they were given. What one raises is what the handler would have raised: a failed attempt,
        or GiveUp, RetryLater, NotNow; the handler is not called then. Context variables that it sets are the handler's.

        Raises:
            BadJob: it is no function, or a coroutine function.
        """
        self.middleware.add(self.middleware.before, function, "before")
        return function

    def after(self, function: A) -> A:
        """Call a function with the Job and what was raised, or None, after each handler; return the function.

        The last given is called first, each of them whatever has happened. What one raises is logged, and changes
        nothing: the handler has done what it did. Not called after a process that was killed.

        Raises:
            BadJob: it is no function, or a coroutine function.
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
            BadJob: it is no function.
        """
        self.middleware.add(self.middleware.dead, function, "on_dead")
        return function

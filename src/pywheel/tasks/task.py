"""A task: a function whose calls are jobs, put with its arguments."""

from __future__ import annotations

import copy
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, ParamSpec, Protocol, Self, TypeVar, Unpack

from .._errors import BadArguments, BadJob, BadOption
from ..jobs.commands import Cancel, Change, Command, Edit, Put
from ..jobs.job import Job, NewJob
from ..jobs.new_job import PutOptions, batch, edit, misspelt, new_job, parent_of, too_long
from .handler import TaskHandler
from .key import TaskKey
from .signature import Signature

P = ParamSpec("P")  # what a put takes
C = ParamSpec("C")  # what a plain call takes
R = TypeVar("R", covariant=True)
T = TypeVar("T")

_DIFFERING: Final = {"connection", "headers", "key", "to", "traceparent"}  # jobs share no dict; a key needs more checks


class Calls(Protocol):
    """The way of a task's commands to its queue's store."""

    max_body: int

    def apply_within(self, connection: object, command: Command[T]) -> T:
        """Return the outcome of a command, applied in the transaction of the caller's connection if one is given."""

    def aapply_within(self, connection: object, command: Command[T]) -> Awaitable[T]:
        """`apply_within`, for asyncio."""


class AnyTask(Generic[P, C, R]):
    """The common part of `Task` and `AsyncTask`.

    Calling a task calls its function, here and now: for tests, and for other tasks.

    The methods take the function's own arguments, without the job and the values that the queue provides. Options are
    given before the call: ``close_order.options(delay="30m").put(7)``.

    For type checkers a task is a ``Task[P, C, R]``: the arguments of a put, those of a plain call, and its result.
    """

    topic: str
    """The topic of its jobs."""

    def __init__(
        self,
        calls: Calls,
        handler: TaskHandler,
        signature: Signature,
        key: Callable[..., str] | None,
        options: dict[str, Any],
    ) -> None:
        functools.update_wrapper(
            self, handler, updated=()
        )  # so `__wrapped__` is the handler, which another process looks for
        self.topic = signature.task
        self._calls = calls
        self._handler = handler
        self._signature = signature
        self._key = None if key is None else TaskKey(key, signature)
        self._options = options
        self._form: tuple[Any, ...] | None = None  # the fields that its jobs share
        self._form_of = -1  # the number of providers when `_form` was made
        self._providers = signature.providers

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> R:
        """Call the function; no job is put. The caller gives the values that the queue would provide."""
        return self._handler.function(*args, **kwargs)  # type: ignore[no-any-return]  # as it is

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.topic}>"

    def options(self, **options: Unpack[PutOptions]) -> Self:
        """Return the same task with other options for its jobs. O(1).

        `JobQueue.put` describes the options; a `key` replaces the task's own. TypeError for an unknown option.
        """
        misspelt(options, PutOptions, "a put")
        other = copy.copy(self)
        other._options, other._form_of = merged(self._options, options), -1
        return other

    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob:
        """Return a new job for `put_many`; nothing is stored yet.

        Raises:
            BadArguments: they do not fit the function; the message names the argument and the expected type.
            BadJob: an option makes no sense, or belongs to calls that store jobs: `connection`.
        """
        if self._options.get("connection") is not None:
            raise BadJob("connection= is for what stores jobs: give it to put_many, for all of them")
        return self._new(args, kwargs)

    def key(self, *args: P.args, **kwargs: P.kwargs) -> str:
        """Return the key of the job that was put with these arguments.

        Arguments without a part in the key may be missing. The others are converted like those of a put; a missing one
        has its default.

        Raises:
            BadJob: the task has no keys, or its function made none.
            BadArguments: an argument that the key needs is missing, or the function does not take one.
        """
        given: str | None = self._options.get("key")
        if given is not None:
            return given
        if self._key is None:
            raise BadJob(f"the jobs of {self.topic} have no keys: give key= to @queue.task, or use what put returned")
        return self._key.of_call(args, kwargs)

    def arguments(self, job: Job | NewJob) -> dict[str, Any]:
        """Return the arguments of a job by name, as the function gets them, without those left to their defaults.

        Raises:
            BadArguments: they do not fit the function.
            BadBody: the body is not JSON, or nested too deep.
        """
        return self._signature.asked().arguments.decoded(job.body)

    @property
    def sync(self) -> Task[P, C, R]:
        """The same task, for threads: for handlers that are plain functions."""
        return twin(Task, self)  # type: ignore[no-any-return]  # of that kind

    @property
    def aio(self) -> AsyncTask[P, C, R]:
        """The same task, for asyncio."""
        return twin(AsyncTask, self)  # type: ignore[no-any-return]  # of that kind

    def _new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        """Return the job of a put. Written for speed: most jobs of a task differ only in body and key."""
        if self._form_of != self._providers.count:
            self._form, self._form_of = self._formed(), self._providers.count
        arguments = self._signature.asked().arguments
        options, key, parent = self._options, None, None
        try:
            if args:
                kwargs = arguments.named(args, kwargs)
            if self._key is None or options.get("key") is not None:
                body = arguments.encoded(kwargs)
            else:
                body, read = arguments.read_back(kwargs)
                key = self._key.of_put(read)
        except BadArguments as error:
            raise self._with_advice(error, kwargs) from error.__cause__
        calls = self._calls
        if self._form is None:
            said = {name: value for name, value in options.items() if name != "connection"}
            return new_job(calls.max_body, self.topic, body, **(said if key is None else {**said, "key": key}))
        if len(body) > calls.max_body:
            raise too_long(body, calls.max_body)
        if key is not None:
            parent = parent_of(self.topic, key)
        due, kept, replace, wait, dedupe_for = self._form
        fields = (self.topic, body, due, key, *kept, replace, wait, parent, dedupe_for)
        return tuple.__new__(NewJob, fields)

    def _with_advice(self, error: BadArguments, kwargs: dict[str, Any]) -> BadArguments:
        """Return the error for arguments that do not fit, with a hint if some of them may be meant as options."""
        for option in sorted(kwargs.keys() & PutOptions.__annotations__.keys() - self._signature.parameters.keys()):
            return BadArguments(f"{error}; options stand before them: .options({option}=...).put(...)")
        return error

    def _formed(self) -> tuple[Any, ...] | None:
        """Return the fields that jobs of these options share; None if the jobs differ in more than body and key."""
        if not _DIFFERING.isdisjoint(self._options):
            return None
        key = None if self._key is None else "any"
        job = new_job(self._calls.max_body, self.topic, b"", key=key, **self._options)
        _, *kept = job.kept  # the first field is the key
        return job.due, kept, job.replace, job.delay, job.dedupe_for

    def _ref(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
        """Return the reference, (topic, key), to the job that was put with these arguments."""
        return self.topic, self.key(*args, **kwargs)

    def _move(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Edit:
        delay, at = self._options.get("delay"), self._options.get("at")
        return edit(self._calls.max_body, self._ref(args, kwargs), delay=delay, at=at)

    @property
    def _connection(self) -> object:
        return self._options.get("connection")


class Task(AnyTask[P, C, R]):
    """A function whose calls are put as jobs, with its arguments as their bodies. `JobQueue.task` makes them."""

    def put(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """Store a job that calls the function with these arguments; return its id.

        Raises:
            BadArguments: they do not fit the function; the message names the argument and the expected type.
            BadJob, JobExists, StoreError: as for `JobQueue.put`. In each case nothing was stored.
        """
        return self._calls.apply_within(self._connection, Put((self._new(args, kwargs),)))[0]

    def put_many(self, jobs: Iterable[NewJob]) -> list[int]:
        """Store jobs that `job` made, all or none; return their ids, in order. Errors as for `JobQueue.put_many`."""
        return self._calls.apply_within(self._connection, Put(batch(jobs)))

    def cancel(self, *args: P.args, **kwargs: P.kwargs) -> Change:
        """Cancel the delayed job with the key of these arguments; return MADE, or the reason why not.

        After MADE the job is never delivered. Errors as for `key`.
        """
        return self._calls.apply_within(self._connection, Cancel(self._ref(args, kwargs)))

    def reschedule(self, *args: P.args, **kwargs: P.kwargs) -> Change:
        """Give the delayed job with the key of these arguments another due time; return MADE, or the reason why not.

        The options give the due time: ``close_order.options(delay="1h").reschedule(7)``. Errors as for `key`, and
        BadJob without `delay` or `at`.
        """
        return self._calls.apply_within(self._connection, self._move(args, kwargs))


class AsyncTask(AnyTask[P, C, R]):
    """A `Task` whose methods are awaited. `AsyncJobQueue.task` makes them."""

    async def put(self, *args: P.args, **kwargs: P.kwargs) -> int:
        """As `Task.put`."""
        return (await self._calls.aapply_within(self._connection, Put((self._new(args, kwargs),))))[0]

    async def put_many(self, jobs: Iterable[NewJob]) -> list[int]:
        """As `Task.put_many`."""
        return await self._calls.aapply_within(self._connection, Put(batch(jobs)))

    async def cancel(self, *args: P.args, **kwargs: P.kwargs) -> Change:
        """As `Task.cancel`."""
        return await self._calls.aapply_within(self._connection, Cancel(self._ref(args, kwargs)))

    async def reschedule(self, *args: P.args, **kwargs: P.kwargs) -> Change:
        """As `Task.reschedule`."""
        return await self._calls.aapply_within(self._connection, self._move(args, kwargs))


def twin(kind: Any, one: Any) -> Any:
    """Return an object of another kind that shares all attributes with this one."""
    if isinstance(one, kind):
        return one
    other = kind.__new__(kind)
    other.__dict__ = one.__dict__
    return other


def default_topic(function: Callable[..., Any]) -> str:
    """Return a function's module and qualified name: the same if the module is run as a script.

    Raises:
        BadOption: the function has no name, such as a partial.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module is None or name is None:
        raise BadOption(f"{function!r:.80} has no name: give its task a topic")
    if module in ("__main__", "__mp_main__"):
        names: dict[str, Any] = getattr(function, "__globals__", {})
        spec, file = names.get("__spec__"), names.get("__file__")
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        elif file is not None:
            module = Path(file).stem
    return f"{module}.{name}"


def merged(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options, updated with others. A new `delay` replaces an old `at`, and the other way round."""
    kept = dict(options)
    if given.get("at") is not None:
        kept.pop("delay", None)
    elif given.get("delay") is not None:
        kept.pop("at", None)
    return {**kept, **given}

"""A task: a function whose calls are jobs, put with its arguments."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypedDict, TypeVar, Unpack, overload

from .._errors import BadArguments, BadJob
from ..jobs.arguments import Arguments
from ..jobs.checks import did_you_mean
from ..jobs.checks import name as checked
from ..jobs.commands import Put
from ..jobs.durations import Duration, delay_ms
from ..jobs.job import Job, NewJob
from ..jobs.signature import Signature
from ..jobs.task_handler import TaskHandler
from .new_job import new_job, parent_of, too_long
from .puts import Puts
from .task_key import TaskKey

if TYPE_CHECKING:
    from .queue import JobQueue

__all__ = ["PutOptions", "Task", "default_topic", "merged"]

P = ParamSpec("P")  # what a put takes
K = ParamSpec("K")  # what the key is made of
C = ParamSpec("C")  # what a plain call takes
R = TypeVar("R", covariant=True)

OPTIONS: Final = frozenset(Puts.put.__kwdefaults__ or ())
_DIFFERING: Final = {"connection", "headers", "key", "to", "traceparent"}  # jobs share no dict, and a key asks for more
_DELAY: Final = frozenset({"delay"})


class PutOptions(TypedDict, total=False):
    """What `JobQueue.put` may be told, beside the body."""

    delay: Duration | None
    at: datetime | None
    key: str | None
    replace: bool
    ttr: Duration | None
    max_attempts: int | None
    headers: Mapping[str, str] | None
    to: str | None
    traceparent: str | None
    connection: object
    dedupe_for: Duration | None
    priority: int


class Task(Generic[P, K, C, R]):
    """A function whose calls are put as jobs, with its arguments as their bodies. `JobQueue.task` makes them.

    Called itself, it calls the function, here and now: for tests, and for other tasks.

    Where a method takes the arguments of a put, they are the function's own, but for the job and what the queue
    provides. The names of `PutOptions` may stand among them, as in ``put(order_id=7, delay="30m")``, unless a parameter
    has that name: then, and for type checkers that are to see the arguments, ``options(delay="30m").put(order_id=7)``.

    For type checkers it is a ``Task[P, K, C, R]``: what a put takes, what its key is made of, what a plain call takes,
    and what that returns.
    """

    topic: str
    """Whose jobs it handles."""

    def __init__(
        self,
        queue: JobQueue,
        handler: TaskHandler,
        signature: Signature,
        key: Callable[..., str] | None,
        options: dict[str, Any],
    ) -> None:
        functools.update_wrapper(
            self, handler, updated=()
        )  # so `__wrapped__` is the handler, which another process looks for
        self.topic = signature.task
        self._queue = queue
        self._handler = handler
        self._signature = signature
        self._key = None if key is None else TaskKey(key, signature)
        self._options = options
        self._form: tuple[Any, ...] | None = None  # what its jobs share
        self._form_of = -1  # how many providers there were then
        self._providers = signature.providers
        self._option_names = OPTIONS.difference(signature.parameters)

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> R:
        """Call the function; no job is put. What the queue would provide is to be given."""
        return self._handler.function(*args, **kwargs)  # type: ignore[no-any-return]  # as it is

    def __repr__(self) -> str:
        return f"<Task {self.topic}>"

    def options(self, **options: Unpack[PutOptions]) -> Task[P, K, C, R]:
        """Return the same task with other options for what is put. BadJob for one that there is not. O(1).

        `JobQueue.put` says what they mean; a `key` is used instead of what `JobQueue.task` was given.
        """
        for name in options.keys() - OPTIONS:
            raise BadJob(f"{name[:80]!r} is no option of a put{did_you_mean(name, OPTIONS)}")
        other = copy.copy(self)
        other._options, other._form_of = merged(self._options, options), -1
        return other

    # ---- new jobs ---------------------------------------------------------------------------------------------------

    @overload
    def put(self, *args: P.args, **kwargs: P.kwargs) -> int: ...
    @overload
    def put(self, *args: Any, delay: Duration, **kwargs: Any) -> int: ...
    @overload
    def put(self, *args: Any, at: datetime, **kwargs: Any) -> int: ...
    @overload
    def put(self, *args: Any, key: str, **kwargs: Any) -> int: ...
    def put(self, *args: Any, **kwargs: Any) -> int:
        """Store a job that calls the function with these arguments; return its id.

        Raises:
            BadArguments: the function does not take them; it names the argument and the type wanted.
            BadJob: an option makes no sense.
            JobExists: a live job has the key, and is not to be replaced, or is running.
            StoreError: the store cannot do it. In each case nothing was stored.
        """
        job, connection = self._new(args, kwargs)
        if connection is not None:
            return self._queue._store(job, connection)
        return self._queue.apply(Put((job,)))[0]

    @overload
    async def aput(self, *args: P.args, **kwargs: P.kwargs) -> int: ...
    @overload
    async def aput(self, *args: Any, delay: Duration, **kwargs: Any) -> int: ...
    @overload
    async def aput(self, *args: Any, at: datetime, **kwargs: Any) -> int: ...
    @overload
    async def aput(self, *args: Any, key: str, **kwargs: Any) -> int: ...
    async def aput(self, *args: Any, **kwargs: Any) -> int:
        """`put`, for asyncio."""
        job, connection = self._new(args, kwargs)
        if connection is not None:
            return self._queue._store(job, connection)
        return (await self._queue._outcome(Put((job,))))[0]

    @overload
    def job(self, *args: P.args, **kwargs: P.kwargs) -> NewJob: ...
    @overload
    def job(self, *args: Any, delay: Duration, **kwargs: Any) -> NewJob: ...
    @overload
    def job(self, *args: Any, at: datetime, **kwargs: Any) -> NewJob: ...
    @overload
    def job(self, *args: Any, key: str, **kwargs: Any) -> NewJob: ...
    def job(self, *args: Any, **kwargs: Any) -> NewJob:
        """Return a new job for `put_many`; nothing is stored yet. BadArguments, BadJob."""
        return self._job(args, kwargs)

    def put_many(
        self, calls: Iterable[NewJob | tuple[Any, ...] | Mapping[str, Any]], *, connection: object = None
    ) -> list[int]:
        """Store many jobs, all or none, in one transaction; return their ids, in order.

        Each is a tuple of arguments, a mapping of them by name, or what `job` returned, of this task or another.

        Raises:
            BadArguments: the function does not take those of one of them.
            BadJob: one of them is something else.
            JobExists: a key is taken.
            StoreError: the store cannot do it. In each case nothing was stored.
        """
        return self._queue.put_many(self._many(calls), connection=self._within(connection))

    async def aput_many(
        self, calls: Iterable[NewJob | tuple[Any, ...] | Mapping[str, Any]], *, connection: object = None
    ) -> list[int]:
        """`put_many`, for asyncio."""
        return await self._queue.aput_many(self._many(calls), connection=self._within(connection))

    # ---- by key -----------------------------------------------------------------------------------------------------

    def key(self, *args: K.args, **kwargs: K.kwargs) -> str:
        """Return the key of the job that was put with these arguments: those that the key is made of.

        They are converted as those of a put, and what is left out has the function's default.

        Raises:
            BadJob: the task has no keys.
            BadArguments: the key is made of others, or the function does not take them.
        """
        given: str | None = self._options.get("key")
        if given is not None:
            return given
        if self._key is None:
            raise BadJob(f"the jobs of {self.topic} have no keys: give key= to @queue.task, or use what put returned")
        return self._key.of_call(args, kwargs)

    def cancel(self, *args: K.args, **kwargs: K.kwargs) -> bool:
        """Cancel the delayed job with the key of these arguments; return whether there was one. Errors as `key`.

        After True it is never delivered.
        """
        return self._queue.cancel((self.topic, self.key(*args, **kwargs)))

    async def acancel(self, *args: K.args, **kwargs: K.kwargs) -> bool:
        """`cancel`, for asyncio."""
        return await self._queue.acancel((self.topic, self.key(*args, **kwargs)))

    @overload
    def reschedule(self, *args: K.args, **kwargs: K.kwargs) -> bool: ...
    @overload
    def reschedule(self, *args: Any, delay: Duration, **kwargs: Any) -> bool: ...
    @overload
    def reschedule(self, *args: Any, at: datetime, **kwargs: Any) -> bool: ...
    def reschedule(self, *args: Any, **kwargs: Any) -> bool:
        """Give the delayed job with the key of these arguments another due time; return whether there was one.

        `delay` from now, or `at`: that of this call, or else of the task's options. False changes nothing. Errors as
        `key`, and BadJob without either.
        """
        when = self._when(kwargs)
        return self._queue.reschedule((self.topic, self.key(*args, **kwargs)), **when)

    @overload
    async def areschedule(self, *args: K.args, **kwargs: K.kwargs) -> bool: ...
    @overload
    async def areschedule(self, *args: Any, delay: Duration, **kwargs: Any) -> bool: ...
    @overload
    async def areschedule(self, *args: Any, at: datetime, **kwargs: Any) -> bool: ...
    async def areschedule(self, *args: Any, **kwargs: Any) -> bool:
        """`reschedule`, for asyncio."""
        when = self._when(kwargs)
        return await self._queue.areschedule((self.topic, self.key(*args, **kwargs)), **when)

    # ---- the other way ----------------------------------------------------------------------------------------------

    def arguments(self, job: Job | NewJob) -> dict[str, Any]:
        """Return the arguments of a job by name, as the function gets them; those left to a default are not there.

        Raises:
            BadArguments: they do not fit the function.
            BadBody: the body is no JSON.
        """
        return self._signature.asked().arguments.decoded(job.body)

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _new(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[NewJob, object]:
        """Return the job of a put, and the connection that it goes by. Written to be quick.

        Most puts say no options of their own, or a delay.
        """
        if self._form_of != self._providers.count:
            self._form, self._form_of = self._formed(), self._providers.count
        if self._form is None:
            return self._unlike(args, kwargs)
        count, arguments, encoded, due, kept, replace, wait, dedupe_for = self._form
        if args:
            kwargs = arguments.named(args, kwargs)
        if len(kwargs) != count and not self._option_names.isdisjoint(kwargs):
            if self._option_names.intersection(kwargs) != _DELAY or kwargs["delay"] is None:
                return self._unlike((), kwargs)
            due, wait = 0, delay_ms(kwargs.pop("delay"))
        try:
            body, key = (encoded(kwargs), None) if self._key is None else self._keyed(arguments, kwargs)
        except BadArguments:
            if self._option_names.isdisjoint(kwargs):
                raise
            return self._unlike((), kwargs)  # as many as it takes, but not all of them are arguments
        if len(body) > self._queue.max_body:
            raise too_long(body, self._queue.max_body)
        parent = None
        if key is not None:
            parent, key = parent_of(self.topic, key), checked(key, "key")
        fields = (self.topic, body, due, key, *kept, replace, wait, parent, dedupe_for)
        return tuple.__new__(NewJob, fields), None

    def _formed(self) -> tuple[Any, ...] | None:
        """Return what jobs of these options share; None if they differ in more than bodies, keys and delays."""
        if not _DIFFERING.isdisjoint(self._options):
            return None
        arguments = self._signature.asked().arguments
        needed = all(field.required for field in arguments.fields.values())
        count = len(arguments.fields) if needed else -1  # of arguments: if so many are given, none is an option
        key = None if self._key is None else "any"
        job = new_job(self._queue.max_body, self.topic, b"", key=key, **self._options)
        _, *kept = job.kept  # the first field is the key
        return count, arguments, arguments.encoded, job.due, kept, job.replace, job.delay, job.dedupe_for

    def _unlike(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[NewJob, object]:
        """`_new`, of a put that says options."""
        body, options = self._said(args, kwargs)
        connection = options.get("connection")
        if "connection" in options:
            options = {name: value for name, value in options.items() if name != "connection"}
        return new_job(self._queue.max_body, self.topic, body, **options), connection

    def _said(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        """Return the body and the options of a put."""
        options = self._options
        if not self._option_names.isdisjoint(kwargs):
            given = {name: kwargs.pop(name) for name in self._option_names.intersection(kwargs)}
            options = merged(options, given)
        arguments = self._signature.asked().arguments
        if args:
            kwargs = arguments.named(args, kwargs)
        if self._key is not None and options.get("key") is None:
            body, key = self._keyed(arguments, kwargs)
            return body, {**options, "key": key}
        return arguments.encoded(kwargs), options

    def _keyed(self, arguments: Arguments, kwargs: dict[str, Any]) -> tuple[bytes, str | None]:
        """Return the body and the key of a put."""
        assert self._key is not None
        body, read = arguments.read_back(kwargs)
        return body, self._key.of_put(read)

    def _within(self, connection: object) -> object:
        return self._options.get("connection") if connection is None else connection

    def _many(self, calls: Iterable[Any]) -> list[NewJob]:
        if not isinstance(calls, Iterable):
            raise BadJob(f"put_many takes many calls, not {calls!r:.40}")
        one = self if self._within(None) is None else self.options(connection=None)  # which is for all of them
        return [one._called(call) for call in calls]

    def _called(self, call: Any) -> NewJob:
        if isinstance(call, NewJob):
            return call
        args: tuple[Any, ...] = ()
        kwargs: Mapping[str, Any] = {}
        if isinstance(call, tuple):
            args = call
        elif isinstance(call, Mapping):
            kwargs = call
        else:
            wanted = "tuples of arguments, mappings of them by name, or what job() returns"
            raise BadJob(f"put_many takes {wanted}, not {call!r:.40}")
        return self._job(args, dict(kwargs))

    def _job(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NewJob:
        job, connection = self._new(args, kwargs)
        if connection is not None:
            raise BadJob("connection= is for what stores jobs: give it to put_many, for all of them")
        return job

    def _when(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return, and take from the arguments, the due time of a reschedule."""
        names = [name for name in ("delay", "at") if name in kwargs and not self._of_key(name)]
        given = {name: kwargs.pop(name) for name in names} or self._options
        return {name: given[name] for name in ("delay", "at") if name in given}

    def _of_key(self, name: str) -> bool:
        return self._key is not None and name in self._key


def default_topic(function: Callable[..., Any]) -> str:
    """Return the module of a function and its name there: the same if the module is run as a script.

    Raises:
        BadJob: it has no name, as a partial has not.
    """
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module is None or name is None:
        raise BadJob(f"{function!r:.80} has no name: give its task a topic")
    if module in ("__main__", "__mp_main__"):
        names: dict[str, Any] = getattr(function, "__globals__", {})
        spec, file = names.get("__spec__"), names.get("__file__")
        if spec is not None:
            module = spec.name.removesuffix(".__main__")
        elif file is not None:
            module = Path(file).stem
    return f"{module}.{name}"


def merged(options: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options, with others in their place. Of delay and at the one that is given is meant."""
    kept = dict(options)
    if given.get("at") is not None:
        kept.pop("delay", None)
    elif given.get("delay") is not None:
        kept.pop("at", None)
    return {**kept, **given}

"""The way of commands and queries to a queue's store: one by one, together, or from asyncio tasks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast

from .._errors import StoreClosed
from ..events import Events, JobsPut, Tracer
from ..jobs.commands import Command, Put
from ..jobs.keyring import Keyring
from ..stores.contract import Store
from ..stores.encrypted import EncryptedStore
from ..stores.front import close_beside
from ..stores.within import in_thread, is_async
from .async_group_commit import AsyncGroupCommit
from .completion_listener import CompletionListener

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
_PARTS: Final = ("waits", "batches", "store")  # of an open queue, in the order of closing


class _WhenUsed:
    """An attribute whose first use opens the store; from then on the object has an attribute of its own.

    Not a `__getattr__`, which would make every other attribute slower.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, calls: Any, owner: type) -> Any:
        return self if calls is None else vars(calls._ready())[self._name]


class Calls:
    """A queue's store, opened on first use, and the listeners to its events.

    opener      returns the store
    events      the listeners
    keyring     the keys that encrypt bodies, or None
    max_body    the longest body, in bytes
    """

    store: Store
    """The store, encrypting if there is a keyring."""
    batches: AsyncGroupCommit
    waits: CompletionListener
    if not TYPE_CHECKING:
        store = _WhenUsed()
        batches = _WhenUsed()
        waits = _WhenUsed()

    def __init__(self, opener: Callable[[], Store], events: Events, keyring: Keyring | None, max_body: int) -> None:
        self._opener = opener
        self._keyring = keyring
        self.events = events
        self.max_body = max_body

    # ---- the store --------------------------------------------------------------------------------------------------

    @property
    def used(self) -> bool:
        """Whether the store is open."""
        return "store" in vars(self)

    def _ready(self) -> Calls:
        """Open the store. No lock, which a fork could leave locked: of two threads one closes its store again.

        If both have the same store, neither closes it.
        """
        store = self._front(self._opener())
        close_beside(vars(self).setdefault("store", store), store)
        vars(self).setdefault("batches", AsyncGroupCommit(self.store, self.applied))
        vars(self).setdefault("waits", CompletionListener(self.store))
        if self._opener is _closed:  # closed meanwhile
            self._close()
        return self

    def open(self) -> None:
        """Open the store if it is not open. StoreError."""
        if not self.used:
            self._ready()

    def use(self, store: Store) -> None:
        """Close the store, and use another one."""
        store = self._front(store)
        self._close()
        self._work_on(store)

    def use_keys(self, keyring: Keyring) -> None:
        """Encrypt with these keys, unless there is a keyring. No other thread may use the store meanwhile."""
        if self._keyring is None:
            self._keyring = keyring
            if self.used:
                self.waits.close()
                self.batches.close()
                self._work_on(self._front(self.store))

    def _work_on(self, store: Store) -> None:
        self.store, self.batches, self.waits = store, AsyncGroupCommit(store, self.applied), CompletionListener(store)

    def _front(self, store: Store) -> Store:
        return store if self._keyring is None else EncryptedStore(store, self._keyring)

    def close(self) -> None:
        """Close the store. Idempotent; later calls raise StoreClosed."""
        self._opener = _closed
        self._close()

    def let_go(self) -> None:
        """Close the store; the next use opens it anew."""
        self._close()
        for part in _PARTS:
            vars(self).pop(part, None)

    def _close(self) -> None:
        for part in _PARTS:
            if part in vars(self):  # another thread may be about to make it: that one closes it then
                vars(self)[part].close()

    # ---- one command, one outcome -----------------------------------------------------------------------------------

    def apply(self, command: Command[R]) -> R:
        """Apply a command in one commit; return its outcome, or raise it if it is an exception."""
        outcome: Any
        if (tracer := self.events.tracer) is None:
            [outcome] = self.store.apply((command,))
        else:
            with _sending(tracer, command) as call:
                [call.outcome] = self.store.apply((call.command,))
            outcome = call.outcome
        if isinstance(outcome, BaseException):
            raise outcome
        if self.events.listeners:
            self.applied((command,), (outcome,))
        return outcome  # type: ignore[no-any-return]

    def aapply(self, command: Command[R]) -> Awaitable[R]:
        """Return an awaitable of a command's outcome. The command shares a transaction with those of other tasks."""
        tracer = self.events.tracer
        return self.batches.add(command) if tracer is None else self._traced(tracer, command)

    async def _traced(self, tracer: Tracer, command: Command[R]) -> R:
        with _sending(tracer, command) as call:
            call.outcome = await self.batches.add(call.command)
        return cast(R, call.outcome)

    # ---- in the caller's transaction --------------------------------------------------------------------------------

    def apply_within(self, connection: object, command: Command[R]) -> R:
        """Apply a command, in the transaction of the caller's connection if one is given; return its outcome."""
        if connection is None:
            return self.apply(command)
        if (tracer := self.events.tracer) is None:
            return self.store.apply_within(connection, command)
        with _sending(tracer, command) as call:
            call.outcome = self.store.apply_within(connection, call.command)
        return cast(R, call.outcome)

    def aapply_within(self, connection: object, command: Command[R]) -> Awaitable[R]:
        """`apply_within`, for asyncio. A connection of a blocking driver blocks the loop."""
        return self.aapply(command) if connection is None else self._awaited_within(connection, command)

    async def _awaited_within(self, connection: object, command: Command[R]) -> R:
        if is_async(connection):
            return await in_thread(connection, partial(self.apply_within, connection, command))
        return self.apply_within(connection, command)

    def applied(self, commands: Sequence[Command[Any]], outcomes: Sequence[Any]) -> None:
        """Report the jobs that were put. Called after they are durable."""
        if not self.events.listeners:
            return
        puts: Counter[str] = Counter()
        for command, outcome in zip(commands, outcomes, strict=True):
            if isinstance(command, Put) and not isinstance(outcome, BaseException):
                puts.update([job.topic for job in command.jobs])
        for topic, count in puts.items():
            self.events.emit(JobsPut(topic, count))


@contextmanager
def _sending(tracer: Tracer, command: Any) -> Iterator[Any]:
    """Give the call to make, within a span if its command is a put. The caller notes the outcome in it."""
    call = SimpleNamespace(command=command, outcome=None)
    if not isinstance(command, Put):
        yield call
        return
    with tracer.sending(tuple(command.jobs)) as sending:
        if sending.jobs is not command.jobs:
            call.command = replace(command, jobs=sending.jobs)
        yield call
        if isinstance(call.outcome, BaseException):
            raise call.outcome
        sending.ids = call.outcome or ()


class Applies:
    """An object whose methods apply commands to a queue's store."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def _apply(self, command: Command[R], connection: object = None) -> R:
        return self._calls.apply_within(connection, command)


class AsyncApplies:
    """An object with the same methods, awaited: `awaited` and `in_a_thread` make each from its twin."""

    _calls: Calls

    def _apply(self, command: Command[R], connection: object = None) -> Awaitable[R]:
        return self._calls.aapply_within(connection, command)


def awaited(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return the awaited twin of a method that only returns the outcome of `_apply`."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        outcome: Any = method(self, *args, **kwargs)
        return cast(R, await outcome)

    return call


def in_a_thread(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]:
    """Return the awaited twin of any method: it calls the method on the object's `_sync` in a thread."""

    @wraps(method)
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._sync, *args, **kwargs)

    return call


def _closed() -> Store:
    raise StoreClosed("this queue is closed: open another one")

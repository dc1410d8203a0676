"""Changes inside a transaction of the caller's own: a job exists, moves or ends exactly if that transaction commits.

Nothing reports that commit. So a thread looks until the change is there, often at first, and then tells the workers of
it. A job that is due before that look is late by the rest. A program that ends, or closes its store, looks once more.

A connection of an asyncio driver belongs to its loop. The store's own code blocks; it then runs in a thread of its own,
which hands each call of the driver to that loop and waits for it: `in_thread`, `wait`.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from inspect import iscoroutine, iscoroutinefunction, ismethod
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from .._errors import BadJob, JobExists, PywheelError, StoreError
from ..jobs.commands import Put
from ..jobs.job import Job, State
from .checks import held

R = TypeVar("R")

_LOOKS: Final = (0.005, 0.5)  # seconds between looks: the first, the longest
_GROWTH: Final = 1.3
_PATIENCE: Final = 600.0  # seconds: after that the workers' own reading finds the job, within a minute of its due time
_DEPTH: Final = 5
_ASYNC: Final = ("asyncpg", "aiosqlite", "aiomysql", "asyncmy")
_DRIVERS: Final = ("sqlite3", "psycopg", "psycopg2", "pymysql", *_ASYNC)
NO_TRANSACTION: Final = "connection=: there is no transaction, as it commits each statement: begin one"
_AWAITED: Final = (
    "connection=: {} is one of a driver for asyncio: await the call of an AsyncJobQueue, or of queue.aio, on its loop"
)


# ---- connections ----------------------------------------------------------------------------------------------------


def driver_connection(connection: Any, modules: tuple[str, ...]) -> Any:
    """Return the driver's connection behind a connection: SQLAlchemy's, its session, Django's, or the driver's own.

    BadJob if it is of none of these modules, is closed, or cannot be used, or if its driver is for asyncio and the
    caller is not in `in_thread`. StoreError if the database refuses a statement on the way.
    """
    try:
        found = _unwrapped(connection, modules)
        closed = _is_closed(found)
    except PywheelError:
        raise
    except Exception as error:
        kind = StoreError if hasattr(error, "orig") or type(error).__name__ == "OperationalError" else BadJob
        raise kind(f"connection= cannot be used: {str(error).partition(chr(10))[0]}") from error
    if closed:
        raise BadJob("connection= is closed: give one that is open, with the transaction")
    return found


def _is_closed(driver: Any) -> bool:
    """Whether the program closed a driver's connection; those of sqlite3 and aiosqlite then raise."""
    getattr(driver, "in_transaction", None)
    if hasattr(driver, "is_closed"):  # asyncpg's
        return bool(driver.is_closed())
    if hasattr(driver, "closed"):  # psycopg's, and aiomysql's
        return bool(driver.closed) and not getattr(driver, "broken", False)
    return not getattr(driver, "connected", getattr(driver, "open", True))  # asyncmy's, PyMySQL's


def _unwrapped(connection: Any, modules: tuple[str, ...]) -> Any:
    found = connection
    for _ in range(_DEPTH):
        if module_of(found) in modules and hasattr(found, "cursor"):  # neither a pool nor a cursor has one
            if is_async(found):
                _bridge(connection)
            return found
        if hasattr(found, "ensure_connection"):  # Django's connects at its first use
            found.ensure_connection()
        found = _behind(found, connection)
        if found is None:
            break
    raise BadJob(
        f"connection= is no {type(connection).__name__}: give the session or connection whose transaction is open, "
        f"of {' or '.join(modules)}, SQLAlchemy or Django, to the store's own database"
    )


def _behind(found: Any, connection: Any) -> Any:
    """Return the connection inside another one, None if there is none."""
    if is_async(found):
        _bridge(connection)
    if hasattr(found, "get_raw_connection"):  # SQLAlchemy's for asyncio
        wait(found.exec_driver_sql("SELECT 1"))  # begins its transaction: asyncpg begins one with a statement
        return wait(found.get_raw_connection())
    if hasattr(found, "exec_driver_sql") and not found.in_transaction():  # SQLAlchemy commits only what it has begun
        found.begin()
    inner = getattr(found, "driver_connection", None)
    if inner is None:
        inner = getattr(found, "connection", None)
        inner = inner() if ismethod(inner) else inner  # SQLAlchemy's sessions have a method of that name
    return wait(inner) if iscoroutine(inner) else inner


def module_of(connection: object) -> str:
    """Return the driver whose class a connection has or inherits; for any other object the package of its class."""
    packages = [one.__module__.partition(".")[0] for one in connection.__class__.__mro__]
    return next((package for package in packages if package in _DRIVERS), packages[0])


def is_async(connection: object) -> bool:
    """Whether the calls of a connection, or of a session, are awaited."""
    return module_of(connection) in _ASYNC or iscoroutinefunction(getattr(connection, "commit", None))


def taken(put: Put, get: Callable[[tuple[str, str]], Job | None]) -> JobExists | None:
    """Return the refusal of a put if a live job, as `get` finds it, has one of its keys and keeps it."""
    for new in put.jobs:
        holder = None if new.key is None else get((new.topic, new.key))
        if holder is None or not holder.state.live:
            continue
        yields = new.parent == (holder.id, holder.claims) if holder.state is State.RUNNING else new.replace
        if not yields:
            return held(holder.id, new.key)
    return None


# ---- from a thread to a loop ----------------------------------------------------------------------------------------


class _Bridge:
    """The way from a thread to a loop: the thread waits for the result of what it hands over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Future[Any] | None = None
        self._cancelled = False

    def wait(self, awaitable: Awaitable[R]) -> R:
        """Return the result of an awaitable on the loop."""
        answer: Future[R] = Future()
        self._loop.call_soon_threadsafe(self._begin, awaitable, answer)
        return answer.result()

    def _begin(self, awaitable: Awaitable[R], answer: Future[R]) -> None:
        self._task = asyncio.ensure_future(awaitable)
        self._task.add_done_callback(partial(self._end, answer))
        if self._cancelled:
            self.cancel()

    def _end(self, answer: Future[R], task: asyncio.Future[R]) -> None:
        self._task = None
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            answer.set_result(task.result())
        else:
            answer.set_exception(error)

    def cancel(self) -> None:
        """Cancel the call under way, or else the next one; calls that clean up may follow."""
        self._cancelled = self._task is None
        if self._task is not None:
            self._task.cancel()


_here: Final = threading.local()


def _bridge(connection: object) -> _Bridge:
    bridge: _Bridge | None = getattr(_here, "bridge", None)
    if bridge is None:
        raise BadJob(_AWAITED.format(type(connection).__name__))
    return bridge


def wait(awaitable: Awaitable[R]) -> R:
    """Return the result of an awaitable on the loop of `in_thread`'s caller. Call it in the thread of `in_thread`."""
    return _bridge(awaitable).wait(awaitable)


class _Turns:
    """The calls that use one connection, or wait for it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.calls = 0


_turns: Final[dict[int, _Turns]] = {}
"""The turns on each connection in use, by its id: not all of them allow a weak reference."""


async def in_thread(connection: object, work: Callable[[], R]) -> R:
    """Return the result of `work`, which uses a connection, run in a thread of its own, in which `wait` may be called.

    Tasks that use one connection take turns: the savepoint of one would end that of another. A pool would not do: all
    its threads might wait for locks of a transaction that needs one more thread. If the task is cancelled, so is the
    driver's call under way, and the cleanup that `work` then does is awaited.
    """
    turns = _turns.setdefault(id(connection), _Turns())
    turns.calls += 1
    try:
        async with turns.lock:
            return await _in_thread(work)
    finally:
        turns.calls -= 1
        if not turns.calls:
            del _turns[id(connection)]


async def _in_thread(work: Callable[[], R]) -> R:
    bridge, answer = _Bridge(), asyncio.get_running_loop().create_future()
    context = contextvars.copy_context()

    def run() -> None:
        _here.bridge = bridge
        found: tuple[Any, BaseException | None] = None, None
        try:
            found = context.run(work), None
        except BaseException as error:  # noqa: BLE001  (the caller raises it)
            found = None, error
        with suppress(RuntimeError):  # the loop is closed
            answer.get_loop().call_soon_threadsafe(answer.set_result, found)

    threading.Thread(target=run, name="pywheel-within", daemon=True).start()
    cancelled: asyncio.CancelledError | None = None
    while not answer.done():
        try:
            await asyncio.shield(answer)
        except asyncio.CancelledError as error:
            if cancelled is None:
                bridge.cancel()
            cancelled = error
    found, raised = answer.result()
    if cancelled is not None or raised is not None:
        raise cancelled or raised
    return found  # type: ignore[no-any-return]


# ---- news of commits ------------------------------------------------------------------------------------------------


class CommitWatch:
    """Tells of changes once they are committed. Its thread lives while it has something to watch."""

    def __init__(self, dues: Callable[[list[int]], Mapping[int, int]]) -> None:
        self._dues = dues
        self._lock = threading.RLock()  # a signal handler may close the store in the middle of a put
        self._watched: dict[tuple[int, int | None], tuple[float, Callable[[], None]]] = {}
        """The end of the watch, and the function to call, by job and its new due time: None for a new job."""
        self._pause = _LOOKS[0]
        self._news: SimpleQueue[None] = SimpleQueue()  # no Event, whose lock that handler would find taken
        self._running = False
        self.closed = False

    def add(self, id: int, due: int | None, tell: Callable[[], None]) -> None:
        """Call `tell` once a job is there, with this due time if one is given."""
        with self._lock:
            self._watched[id, due] = (time.monotonic() + _PATIENCE, tell)
            self._pause = _LOOKS[0]
            self._news.put(None)
            if not self._running:
                with suppress(RuntimeError):  # the system has no thread now: the next change takes this one along
                    threading.Thread(target=self._run, name="pywheel-commits", daemon=True).start()
                    self._running = True

    def _run(self) -> None:
        while True:
            with self._lock:
                pause = self._pause
                self._pause = min(pause * _GROWTH, _LOOKS[1])
                if not self._watched or self.closed:
                    self._running = False
                    return
                with suppress(Empty):
                    while True:  # this look serves them all
                        self._news.get_nowait()
            with suppress(Empty):
                self._news.get(timeout=pause)
            self._look()

    def _look(self) -> None:
        with self._lock:
            watched = dict(self._watched)
        try:
            dues = self._dues([id for id, _ in watched])
        except StoreError:
            dues = {}
        now = time.monotonic()
        for (id, due), (until, tell) in watched.items():
            there = id in dues and due in (None, dues[id])
            if there or now >= until:
                with self._lock:
                    self._watched.pop((id, due), None)
                if there:
                    tell()

    def flush(self) -> None:
        """Tell of the changes that are there by now. No query if nothing is watched."""
        if self._watched and not self.closed:
            self._look()

    def close(self) -> None:
        """Tell of the changes that are there by now, and stop watching."""
        self.flush()
        self.closed = True
        self._news.put(None)

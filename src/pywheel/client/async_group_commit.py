"""Group commit for asyncio: the commands of tasks within one turn of their loop share one transaction.

Commands that come while a transaction runs share the next one. A thread carries them to the store, so a loop never
waits for the disk.

A command that waits for another program's transaction, such as a put whose key that transaction holds, is tried again
by a second thread. No other command waits for it.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias, TypeVar

from .._errors import OutcomeUnknown, StoreBusy, StoreClosed
from .._forks import renew_after_fork
from ..jobs.commands import Command
from ..stores.contract import Locked, Store, pauses

R = TypeVar("R")
_Wish: TypeAlias = tuple[Command[Any], asyncio.Future[Any]]
_Apply: TypeAlias = Callable[[Sequence[Command[Any]]], list[Any]]


class _Turn:
    """The waiting commands of one loop."""

    __slots__ = ("__weakref__", "busy", "waiting")

    def __init__(self) -> None:
        self.busy = False
        self.waiting: list[_Wish] = []


class _Order(NamedTuple):
    """The commands of one transaction."""

    loop: asyncio.AbstractEventLoop
    turn: _Turn
    wishes: list[_Wish]


class AsyncGroupCommit:
    """The waiting commands of every loop that uses one queue. Loops may run in several threads.

    The method `applied(commands, outcomes)` is called in the thread, after the tasks have their outcomes.
    """

    def __init__(self, store: Store, applied: Callable[[Sequence[Command[Any]], Sequence[Any]], None]) -> None:
        self._store = store
        self._applied = weakref.WeakMethod(applied)  # the queue's own: it is freed when its last user is
        self._closed = False
        self._after_fork()
        renew_after_fork(self)

    def _after_fork(self) -> None:
        """Begin without a thread and with a free lock: at first, and in a forked child."""
        self._mutex = threading.RLock()  # a signal handler may close the queue
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Turn] = weakref.WeakKeyDictionary()
        self._latest: tuple[Callable[[], asyncio.AbstractEventLoop | None], _Turn] = (lambda: None, _Turn())
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._retries: _Retries | None = None
        weakref.finalize(self, self._orders.put, None)  # a queue that was not closed leaves no thread behind

    def add(self, command: Command[R]) -> asyncio.Future[R]:
        """Return a future of the command's outcome, on the running loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        latest, turn = self._latest
        if latest() is not loop:
            turn = self._turn_of(loop)
        turn.waiting.append((command, future))
        if not turn.busy:
            loop.call_soon(self._begin, loop, turn)
            turn.busy = True  # not earlier: a signal handler may raise before the loop has the call
        return future

    def close(self) -> None:
        """End the thread after the commands that it has; later ones get StoreClosed. Idempotent."""
        with self._mutex:
            self._closed = True
            thread, retries = self._thread, self._retries
        # A listener closes the queue: the thread ends after the rest.
        if threading.current_thread() in (thread, retries and retries.thread):
            self._orders.put(None)
            return
        if thread is not None:
            self._orders.put(None)
            thread.join()
        self._refuse_left()

    def _turn_of(self, loop: asyncio.AbstractEventLoop) -> _Turn:
        with self._mutex:
            turn = self._loops.setdefault(loop, _Turn())
            self._latest = (weakref.ref(loop), turn)
        return turn

    def _begin(self, loop: asyncio.AbstractEventLoop, turn: _Turn) -> None:
        wishes, turn.waiting = turn.waiting, []
        if not wishes:
            turn.busy = False
            return
        order = _Order(loop, turn, wishes)
        try:
            with self._mutex:
                self._send(order)
        except Exception as error:  # noqa: BLE001  (it goes to those who asked)
            self._end(order, error)
        except BaseException as error:  # a signal handler's, maybe after the sending: the loop may go on
            self._end(order, OutcomeUnknown(f"interrupted by {type(error).__name__}: check before a repeat"))
            raise
        if self._closed:  # meanwhile, by a signal handler: no thread would take the order
            self._refuse_left()

    def _send(self, order: _Order) -> None:
        if self._closed:
            raise _closed()
        if self._thread is None or not self._thread.is_alive():
            retries = _Retries(weakref.ref(self), self._store)
            work = (weakref.ref(self), self._store, self._orders, retries)
            thread = threading.Thread(target=_work, args=work, name="pywheel-batches", daemon=True)
            thread.start()
            self._thread, self._retries = thread, retries
        self._orders.put(order)

    def _refuse_left(self) -> None:
        """Give StoreClosed to the commands that no thread takes any more."""
        if self._thread is not None and self._thread.is_alive():
            return
        with suppress(Empty):
            while True:
                order = self._orders.get_nowait()
                if order is not None:
                    _answer(self._end, order, _closed())

    def _end(self, order: _Order, outcomes: list[Any] | BaseException) -> None:
        if isinstance(outcomes, BaseException):
            outcomes = [outcomes] * len(order.wishes)
        for (_, future), outcome in zip(order.wishes, outcomes, strict=True):
            _fulfil(future, outcome)
        # After the tasks that resume now, so that their commands join the next transaction.
        order.loop.call_soon(self._begin, order.loop, order.turn)


def _work(
    of: weakref.ref[AsyncGroupCommit], store: Store, orders: SimpleQueue[_Order | None], retries: _Retries
) -> None:
    """Carry orders to the store. Between orders the thread keeps no queue and no loop alive."""
    while (order := orders.get()) is not None:
        outcomes = _outcomes(store.apply_each, [command for command, _ in order.wishes])
        order, outcomes = retries.without_locked(order, outcomes)
        batches = of()
        if batches is not None:  # otherwise no task waits: waiting tasks are in a method of the queue
            _answer(batches._end, order, outcomes)
            _tell(batches, order.wishes, outcomes)
        del batches, order, outcomes
    retries.close()


def _outcomes(apply: _Apply, commands: Sequence[Command[Any]]) -> list[Any]:
    """Return each command's outcome: the error, if the store fails."""
    try:
        return apply(commands)
    except BaseException as error:  # noqa: BLE001  (it goes to those who asked)
        return [error] * len(commands)


def _tell(batches: AsyncGroupCommit, wishes: Sequence[_Wish], outcomes: Sequence[Any]) -> None:
    """Report the applied commands to the queue."""
    applied = batches._applied()
    if applied is not None:
        applied([command for command, _ in wishes], outcomes)


class _Retry(NamedTuple):
    """A command that waits for another program's transaction, and until when."""

    loop: asyncio.AbstractEventLoop
    wish: _Wish
    until: float


class _Retries:
    """Tries Locked commands again, in a thread of its own."""

    def __init__(self, of: weakref.ref[AsyncGroupCommit], store: Store) -> None:
        self._of = of
        self._store = store
        self._new: SimpleQueue[_Retry | None] = SimpleQueue()
        self._closed = False
        self.thread: threading.Thread | None = None

    def without_locked(self, order: _Order, outcomes: list[Any]) -> tuple[_Order, list[Any]]:
        """Take the locked commands out of an order; return the rest, with its outcomes."""
        if not any(isinstance(outcome, Locked) for outcome in outcomes):
            return order, outcomes
        if self.thread is None:
            thread = threading.Thread(target=self._work, name="pywheel-retries", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has none now
                return order, [StoreBusy(str(one)) if isinstance(one, Locked) else one for one in outcomes]
            self.thread = thread
        rest: list[_Wish] = []
        for wish, outcome in zip(order.wishes, outcomes, strict=True):
            if isinstance(outcome, Locked):
                self._new.put(_Retry(order.loop, wish, time.monotonic() + outcome.seconds))
            else:
                rest.append(wish)
        return order._replace(wishes=rest), [one for one in outcomes if not isinstance(one, Locked)]

    def close(self) -> None:
        """End the thread once all its commands are done, or their time is over."""
        if self.thread is not None:
            self._new.put(None)
            self.thread.join()

    def _work(self) -> None:
        pending: list[_Retry] = []
        tries = pauses()
        while not self._closed or pending:
            if self._take(pending):
                tries = pauses()
            if pending:
                time.sleep(next(tries))
                pending = self._try(pending)

    def _take(self, pending: list[_Retry]) -> bool:
        """Take new commands in; wait for one if none is pending. Return whether any came."""
        before = len(pending)
        with suppress(Empty):
            while (retry := self._new.get(block=not pending)) is not None:
                pending.append(retry)
            self._closed = True
        return len(pending) > before

    def _try(self, pending: list[_Retry]) -> list[_Retry]:
        """Try all commands; return those that still wait."""
        commands: list[Any] = [retry.wish[0] for retry in pending]
        found = _outcomes(partial(self._store.apply_each, again=True), commands)
        left = []
        for retry, outcome in zip(pending, found, strict=True):
            if isinstance(outcome, Locked) and time.monotonic() < retry.until:
                left.append(retry)
                continue
            end = StoreBusy(str(outcome)) if isinstance(outcome, Locked) else outcome
            with suppress(RuntimeError):  # the loop was closed meanwhile
                retry.loop.call_soon_threadsafe(_fulfil, retry.wish[1], end)
            batches = self._of()
            if batches is not None:
                _tell(batches, [retry.wish], [end])
            del batches
        return left


def _fulfil(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.done():  # cancelled meanwhile; the change was made all the same
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _answer(end: Callable[[_Order, list[Any] | BaseException], None], order: _Order, outcomes: Any) -> None:
    with suppress(RuntimeError):  # the loop was closed meanwhile
        order.loop.call_soon_threadsafe(end, order, outcomes)


def _closed() -> StoreClosed:
    return StoreClosed("this queue is closed: open another one")

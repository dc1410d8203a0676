"""Group commit for asyncio: what tasks ask for within one turn of their loop shares one transaction.

So does what they ask for while that runs. A thread carries it to the store, so a loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from .._errors import StoreError
from ..jobs.commands import Op
from ..observe.metrics import Metrics
from ..stores.contract import Store
from .plans import Learn

__all__ = ["AsyncBatches"]

_T = TypeVar("_T")
_LoopRef = Callable[[], asyncio.AbstractEventLoop | None]
_CLOSED: Final = "this queue is closed: open another one"
_Wish = tuple[Op, Learn[Any], Metrics, asyncio.Future[Any]]


class _Turn:
    """What the tasks of one loop wait for."""

    __slots__ = ("__weakref__", "busy", "waiting")

    def __init__(self) -> None:
        self.busy = False
        self.waiting: list[_Wish] = []


class _Order(NamedTuple):
    """What goes to the store in one transaction."""

    loop: asyncio.AbstractEventLoop
    turn: _Turn
    wishes: list[_Wish]


class AsyncBatches:
    """The turns of every loop that uses one queue. Loops may run in several threads."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mutex = threading.Lock()
        self._loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Turn] = weakref.WeakKeyDictionary()
        self._latest: tuple[_LoopRef, _Turn] = (lambda: None, _Turn())
        self._thread: threading.Thread | None = None
        self._closed = False

    def add(self, metrics: Metrics, op: Op, learn: Learn[_T]) -> asyncio.Future[_T]:
        """Return a future of what `learn` makes of the command's outcome, on the running loop."""
        loop = asyncio.get_running_loop()
        latest, turn = self._latest
        if latest() is not loop:
            turn = self._turn_of(loop)
        future: asyncio.Future[_T] = loop.create_future()
        turn.waiting.append((op, learn, metrics, future))
        if not turn.busy:
            turn.busy = True
            loop.call_soon(self._begin, loop, turn)
        return future

    def close(self) -> None:
        """End the thread, once it has done what it was asked to. Idempotent."""
        with self._mutex:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._orders.put(None)
            thread.join()

    def _turn_of(self, loop: asyncio.AbstractEventLoop) -> _Turn:
        with self._mutex:
            if self._closed:
                raise StoreError(_CLOSED)
            turn = self._loops.setdefault(loop, _Turn())
            self._latest = (weakref.ref(loop), turn)
        return turn

    def _begin(self, loop: asyncio.AbstractEventLoop, turn: _Turn) -> None:
        wishes, turn.waiting = turn.waiting, []
        if not wishes:
            turn.busy = False
            return
        order = _Order(loop, turn, wishes)
        with self._mutex:
            if self._closed:
                self._end(order, StoreError(_CLOSED))
                return
            if self._thread is None or not self._thread.is_alive():  # not begun yet, or left behind by a fork
                self._orders: SimpleQueue[_Order | None] = SimpleQueue()
                self._thread = threading.Thread(
                    target=self._work, args=(self._orders,), name="pywheel-batches", daemon=True
                )
                self._thread.start()
            self._orders.put(order)

    def _work(self, orders: SimpleQueue[_Order | None]) -> None:
        """Carry orders to the store."""
        while (order := orders.get()) is not None:
            outcomes: list[Any] | BaseException
            try:
                outcomes = self._store.apply([op for op, _, _, _ in order.wishes])
            except BaseException as error:  # noqa: BLE001  (it goes to those who asked)
                outcomes = error
            with suppress(RuntimeError):  # the loop was closed meanwhile
                order.loop.call_soon_threadsafe(self._end, order, outcomes)
            del order, outcomes  # while this thread waits, it keeps nobody's loop alive

    def _end(self, order: _Order, outcomes: list[Any] | BaseException) -> None:
        if isinstance(outcomes, BaseException):
            outcomes = [outcomes] * len(order.wishes)
        for (op, learn, metrics, future), outcome in zip(order.wishes, outcomes, strict=True):
            if future.done():  # cancelled meanwhile; the change has happened all the same
                continue
            if isinstance(outcome, BaseException):
                future.set_exception(outcome)
                continue
            try:
                future.set_result(learn(metrics, op, outcome))
            except BaseException as error:  # noqa: BLE001  (whatever it is, the others go on)
                future.set_exception(error)
        # After the tasks that go on now: what they ask for goes along.
        order.loop.call_soon(self._begin, order.loop, order.turn)

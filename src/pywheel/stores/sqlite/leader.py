"""Group commit without a writer thread: the caller who finds nobody committing commits for all who wait.

While it does, more callers arrive and wait; the first of them leads next, for all of them. The callers that were served wake
each other in a chain, so that the leader is not held up by waking them all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..ops import Op

__all__ = ["Leader"]


class _Call:
    """What one caller wants, and how it ended."""

    __slots__ = ("error", "gate", "next", "ops", "outcomes")

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.outcomes: list[Any] | None = None
        self.error: BaseException | None = None
        self.gate: threading.Lock | None = None
        self.next: _Call | None = None

    @property
    def settled(self) -> bool:
        return self.outcomes is not None or self.error is not None


class Leader:
    """Runs `transact(ops) -> outcomes` for many threads, one at a time, with the commands of all who wait.

    `separate` says of an error whether it may be due to one caller's commands alone: then each call runs by itself.
    """

    def __init__(
        self, transact: Callable[[Sequence[Op]], list[Any]], separate: Callable[[BaseException], bool]
    ) -> None:
        self._transact = transact
        self._separate = separate
        self._mutex = threading.Lock()
        self._busy = False
        self._waiting: list[_Call] = []

    def apply(self, ops: Sequence[Op]) -> list[Any]:
        """Return the outcomes of the commands, once a transaction with them is durable."""
        call = _Call(ops)
        with self._mutex:
            if lead := not self._busy:
                self._busy = True
            else:
                call.gate = threading.Lock()
                call.gate.acquire()
                self._waiting.append(call)
        if lead:
            self._lead(call)
        else:
            self._follow(call)
        if call.error is not None:
            raise call.error
        assert call.outcomes is not None
        return call.outcomes

    def _follow(self, call: _Call) -> None:
        """Wait to be served, or to lead."""
        assert call.gate is not None
        interrupt: BaseException | None = None
        while True:
            try:
                call.gate.acquire()
                break
            except BaseException as signal:  # noqa: BLE001, PERF203  (the call is under way: it ends first)
                interrupt = signal
        if not call.settled:
            self._lead(call)
        elif call.next is not None and call.next.gate is not None:
            call.next.gate.release()
        if interrupt is not None:
            raise interrupt

    def _lead(self, call: _Call) -> None:
        """Serve this call and all that wait, then hand on."""
        with self._mutex:
            calls = [call, *(other for other in self._waiting if other is not call)]
            self._waiting = []
        try:
            self._serve(calls)
        finally:
            for other in calls:
                if not other.settled:
                    other.error = RuntimeError("the commit was interrupted: whether it happened is not known")
            with self._mutex:
                heir = self._waiting[0] if self._waiting else None
                self._busy = heir is not None
            if heir is not None and heir.gate is not None:
                heir.gate.release()
            followers = calls[1:]
            for one, after in zip(followers, followers[1:], strict=False):
                one.next = after
            if followers and followers[0].gate is not None:
                followers[0].gate.release()

    def _serve(self, calls: list[_Call]) -> None:
        try:
            if len(calls) == 1:
                calls[0].outcomes = self._transact(calls[0].ops)
                return
            outcomes = self._transact([op for call in calls for op in call.ops])
        except BaseException as error:
            if len(calls) > 1 and self._separate(error):
                for call in calls:
                    self._serve([call])
                return
            for call in calls:
                call.error = error
            if not isinstance(error, Exception):
                raise
            return
        at = 0
        for call in calls:
            call.outcomes = outcomes[at : at + len(call.ops)]
            at += len(call.ops)

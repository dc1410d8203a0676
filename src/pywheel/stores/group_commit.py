"""Group commit without a writer thread: the caller who finds nobody committing commits for all who wait.

While it does, more callers arrive and wait; the first of them leads next, for all of them. The callers that were
served wake each other in a chain, so that the leader is not held up by waking them all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from ..jobs.commands import Command

__all__ = ["GroupCommit"]


class _Call:
    """What one caller wants, and how it ended."""

    __slots__ = ("error", "gate", "next", "ops", "outcomes")

    def __init__(self, ops: Sequence[Command[Any]]) -> None:
        self.ops = ops
        self.outcomes: list[Any] | None = None
        self.error: BaseException | None = None
        self.gate = threading.Lock()
        self.next: _Call | None = None

    @property
    def settled(self) -> bool:
        return self.outcomes is not None or self.error is not None


class GroupCommit:
    """Runs `transact(ops) -> outcomes` for many threads, one at a time, with the commands of all who wait.

    `separate` says of an error whether it may be due to one caller's commands alone: then each call runs by itself.
    """

    def __init__(
        self, transact: Callable[[Sequence[Command[Any]]], list[Any]], separate: Callable[[BaseException], bool]
    ) -> None:
        self._transact = transact
        self._separate = separate
        self._mutex = threading.Lock()
        self._token = threading.Lock()  # held by the caller who commits, handed on while callers wait
        self._waiting: list[_Call] = []
        self._crowd = 1  # callers in the latest commit

    def apply(self, ops: Sequence[Command[Any]]) -> list[Any]:
        """Return the outcomes of the commands, once a transaction with them is durable."""
        if self._crowd == 1 and self._token.acquire(blocking=False):
            try:
                return self._transact(ops)
            finally:
                self._wake_heir()
        call = _Call(ops)
        with self._mutex:
            lead = self._token.acquire(blocking=False)
            if not lead:
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
        interrupt: BaseException | None = None
        while True:
            try:
                call.gate.acquire()
                break
            except BaseException as signal:  # noqa: BLE001  (the call is under way: it ends first)
                interrupt = signal
        if not call.settled:
            self._lead(call)
        elif call.next is not None:
            call.next.gate.release()
        if interrupt is not None:
            raise interrupt

    def _lead(self, call: _Call) -> None:
        """Serve this call and all that wait, then hand on."""
        with self._mutex:
            calls = [call, *(other for other in self._waiting if other is not call)]
            self._waiting = []
        self._crowd = len(calls)
        try:
            self._serve(calls)
        finally:
            self._hand_on(calls)

    def _hand_on(self, calls: list[_Call]) -> None:
        """Let the next caller lead, and those that were served go."""
        for call in calls:
            if not call.settled:
                call.error = RuntimeError("the commit was interrupted: whether it happened is not known")
        self._wake_heir()
        if len(calls) > 1:
            for one, after in pairwise(calls):
                one.next = after
            calls[1].gate.release()

    def _wake_heir(self) -> None:
        with self._mutex:
            heir = self._waiting[0] if self._waiting else None
            if heir is None:
                self._token.release()
        if heir is not None:
            heir.gate.release()

    def _serve(self, calls: list[_Call]) -> None:
        """Run all calls in one transaction; each in its own if one of them may be the reason that this fails."""
        try:
            outcomes = self._transact([op for call in calls for op in call.ops] if len(calls) > 1 else calls[0].ops)
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

"""Group commit without a writer thread: a caller that finds nobody committing commits for all that wait.

Meanwhile more callers arrive and wait; the first of them leads next, for all of them. Served callers wake each other in
a chain, so that the leader need not wake them all.

Callers that put again and again come back one by one. If a commit is long enough to wait for them, the leader does so
for a part of the last commit's time, until as many have come as were there then.

Nobody waits for ever: each caller has a time limit, and a waiting caller looks now and then whether it may lead.

A signal handler that raises can end the main thread's code between any two of its steps, even in a `finally`. So the
token is taken within the `try` that gives it back. The method that gives it back may be called again, and is called in
two nested `finally`, as one signal ends only one of them. If several signals meet, a token may be left that no code
will ever give back. Its own thread finds that at its next entry; other threads find it by looking at stacks. The
waiting callers then learn how the commit ended.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final, TypeVar

from .._errors import StoreBusy, StoreError, StoreFull
from ..jobs.commands import Command

_R = TypeVar("_R")

_LOOK: Final = 0.05  # seconds between looks: the delay of a wake-up that an interrupt prevented
_LONGEST: Final = 0.002  # seconds for which a leader waits for others
_UNKNOWN: Final = "the commit was interrupted: whether it happened is not known"
_OWNER: Final = re.compile(r"owner=(\d+)")


class Commit:
    """One transaction for several callers, and how it ended."""

    __slots__ = ("calls", "error", "outcomes", "over", "stored", "until")

    def __init__(self) -> None:
        self.until = float("inf")
        """The monotonic time at which to give up waiting."""
        self.calls: list[_Call] = []
        self.outcomes: list[Any] | None = None
        """The outcomes of all commands. A store sets it before it commits."""
        self.stored: bool | None = False
        """Whether all has happened, or nothing; None if that is not known, which a store sets before it commits."""
        self.error: BaseException | None = None
        self.over = False  # nothing above will change any more


class _Call:
    """One caller's request. It is in `_waiting` until a leader takes it, or the caller gives up."""

    __slots__ = ("alone", "at", "commit", "gate", "ops", "start", "until")

    def __init__(self, ops: Sequence[Command[Any]], until: float) -> None:
        self.ops = ops
        self.until = until
        self.alone = False  # a shared commit failed, maybe because of this call: it gets a commit of its own
        self.commit: Commit | None = None
        self.at = 0  # its place among the commit's calls
        self.start = 0  # the place of its first command
        self.gate = threading.Lock()
        self.gate.acquire()

    def wake(self) -> None:
        """Let the caller look at its commit."""
        try:  # noqa: SIM105  (runs at each put of many callers: `suppress` costs ten times as much)
            self.gate.release()
        except RuntimeError:  # it is awake already
            pass


class GroupCommit:
    """Runs `transact(ops, until, commit)` for many threads, one at a time, with the commands of all that wait.

    It returns the outcomes. `commit` is None for a single caller; else `transact` notes in it how the commit ended, in
    case of an interrupt. `separate` returns whether an error may be due to one caller's commands: then each call runs
    by itself, as after StoreFull. `limit` is the time in seconds after which a caller gives up. `gather` is the time
    for which a leader waits for the callers of the last commit, as a part of that commit's time.
    """

    def __init__(
        self,
        transact: Callable[[Sequence[Command[Any]], float, Commit | None], list[Any]],
        separate: Callable[[BaseException], bool],
        limit: float,
        gather: float = 0.0,
    ) -> None:
        self._transact = transact
        self._separate = separate
        self._limit = limit
        self._gather = gather
        self._entry = object()  # a new one at each entry, before the token is taken
        self.renew()

    def renew(self) -> None:
        """Begin anew, in a forked child: the other threads, and their calls, are the parent's."""
        self._token = threading.RLock()  # the leader holds it; it knows its owner, and so can be given back twice
        self._taking_over = threading.Lock()  # never held by the main thread, so no signal can leave it locked
        self._waiting: dict[_Call, None] = {}  # in order of arrival; a call belongs to the thread that pops it
        self._heir: _Call | None = None  # it was woken to lead: others let it go first, unless it does not come
        self._crowd = 1  # callers of the last commit, and those that waited at its end
        self._took = 0.0  # seconds of the last commit
        self._gathers: _Call | None = None  # the leader's call while it waits for `_crowd` callers
        self.paused = False
        """Whether a thread that forks has the token, or waits for it."""

    def apply(self, ops: Sequence[Command[Any]]) -> list[Any]:
        """Return the outcomes of the commands, once a transaction with them is durable. StoreBusy after the limit."""
        self._entry = object()
        token = self._token
        if token._is_owned():  # type: ignore[attr-defined]
            self._refuse_within_itself()
        until = time.monotonic() + self._limit
        # Twice: a signal handler that raises may end the first one at any point, even before its first step.
        try:
            try:
                if self._crowd == 1 and not self._waiting and token.acquire(blocking=False) and token is self._token:
                    outcomes = self._transact(ops, until, None)
                    if self._gather:
                        self._ended(1, until - self._limit)
                    return outcomes
                return self._share(_Call(ops, until))
            finally:
                self._give()
        finally:
            if self._token._is_owned():  # type: ignore[attr-defined]
                self._give()

    def alone(self, action: Callable[..., _R], *args: Any) -> _R:
        """Return the result of `action`, run while nothing is committed. StoreBusy after the limit."""
        self._entry = object()
        self._refuse_within_itself()
        until = time.monotonic() + self._limit
        try:
            try:
                while not self._take_token(_LOOK) and not self._take_over():
                    if time.monotonic() >= until:
                        raise self._busy()
                return action(*args)
            finally:
                self._give()
        finally:
            self._give()

    def pause(self) -> bool:
        """Let no commit begin until `resume`; return whether that was possible within the limit. For forks."""
        if self._token._is_owned():  # type: ignore[attr-defined]
            return False
        self.paused = True
        self._entry = object()  # only now: who sees this entry also sees the pause, and does not take over
        until = time.monotonic() + self._limit
        while not self._take_token(_LOOK):
            if time.monotonic() >= until:
                self.paused = False
                return False
        return True

    def resume(self) -> None:
        """Let commits begin again, after this thread paused them."""
        self._give()
        self.paused = False

    def leads(self) -> bool:
        """Whether this thread is committing."""
        return bool(self._token._is_owned())  # type: ignore[attr-defined]

    def _refuse_within_itself(self) -> None:
        """Raise StoreBusy if this thread commits or forks already, and was interrupted by a signal handler.

        If the interrupt came while it gave back the token, give it back.
        """
        if self._token._is_owned():  # type: ignore[attr-defined]
            if self.paused or self._is_entered(sys._getframe(1).f_back):
                raise StoreBusy("this thread is writing to the store already: a signal handler cannot write too")
            self._give()

    def _take_token(self, seconds: float) -> bool:
        token = self._token
        return token.acquire(timeout=seconds) and token is self._token

    def _give(self) -> None:
        """Give the token back, and let the next one lead. Does nothing without it; may be interrupted, and repeated."""
        token = self._token
        if token._is_owned():  # type: ignore[attr-defined]
            while token._is_owned():  # type: ignore[attr-defined]
                token.release()
            for heir in list(self._waiting)[:1] if self._waiting else ():
                self._heir = heir
                heir.wake()

    def _take_over(self) -> bool:
        """Replace the token by one that this thread holds, if no code will give the old one back. O(stack)."""
        if threading.current_thread() is threading.main_thread() or not self._taking_over.acquire(blocking=False):
            return False
        try:
            token, entry = self._token, self._entry
            owner = _owner(token)
            if self.paused or not owner or self._is_entered(sys._current_frames().get(owner)) or _owner(token) != owner:
                return False
            new = threading.RLock()
            new.acquire()
            self._token = new
            # Nobody has entered since before the owner was seen outside: so the owner has the token by accident.
            if self._entry is entry:
                return True
            self._token = token
            new.release()
            return False
        finally:
            self._taking_over.release()

    def _is_entered(self, frame: FrameType | None) -> bool:
        """Whether the stack below a frame has a call that takes the token."""
        codes = (GroupCommit.apply.__code__, GroupCommit.alone.__code__)
        while frame is not None:
            if frame.f_code in codes and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    # ---- many callers ---------------------------------------------------------------------------------------------

    def _share(self, call: _Call) -> list[Any]:
        """Wait to be served, or serve all that wait."""
        patient = True
        try:
            self._waiting[call] = None
            gathers = self._gathers
            if gathers is not None and len(self._waiting) >= self._crowd:
                gathers.wake()
            while True:
                commit = call.commit
                if commit is not None and commit.over:
                    if self._decided(call, commit):
                        assert commit.outcomes is not None
                        return commit.outcomes[call.start : call.start + len(call.ops)]
                    call.commit = None
                    self._waiting[call] = None
                if patient:
                    heir = self._heir
                    leads = (heir is None or heir is call) and self._take_token(0)
                else:
                    leads = self._take_token(0) or self._take_over()
                if leads:
                    self._lead(call)
                    continue
                patient = call.gate.acquire(timeout=_LOOK)
                if not patient and time.monotonic() >= call.until:
                    self._give_up(call)
        finally:
            self._waiting.pop(call, None)

    def _give_up(self, call: _Call) -> None:
        """Raise StoreBusy if no leader has taken the call; else wait longer for its outcome."""
        if self._waiting.pop(call, call) is None:
            raise self._busy()
        if time.monotonic() >= call.until + 2 * self._limit:
            raise StoreError(_UNKNOWN)

    def _busy(self) -> StoreBusy:
        return StoreBusy(f"others kept the store busy for {self._limit:g} s: try again")

    def _decided(self, call: _Call, commit: Commit) -> bool:
        """Whether a commit that is over has a call's outcomes. False if the call is to go again; raises its error."""
        calls, at = commit.calls, call.at
        if at + 1 < len(calls):
            calls[at + 1].wake()
        if at >= len(calls) or calls[at] is not call:
            return False  # the leader was interrupted before it counted this call in
        if commit.error is not None:
            if isinstance(commit.error, StoreBusy) and time.monotonic() < call.until:
                return False
            raise commit.error
        if commit.stored is None:
            raise StoreError(_UNKNOWN)
        return commit.stored

    def _lead(self, call: _Call) -> None:
        """Serve this call and all that wait. With the token."""
        self._heir = None
        if call.commit is not None:
            call.commit.over = True  # its leader has gone without marking it
            self._give()
            return
        commit = Commit()
        try:
            try:
                if self._crowd > len(self._waiting) and not call.alone:
                    self._wait_for_others(call)
                self._take(commit, call)
                began = time.monotonic()
                self._serve(commit)
                if self._gather:
                    self._ended(len(commit.calls), began)
            finally:
                self._end(commit)
        finally:
            self._end(commit)

    def _wait_for_others(self, call: _Call) -> None:
        """Wait until as many have come as were there at the last commit, for a part of that commit's time."""
        until = time.monotonic() + min(self._gather * self._took, _LONGEST)
        self._gathers = call
        while len(self._waiting) < self._crowd and (left := until - time.monotonic()) > 0:
            call.gate.acquire(timeout=left)
        self._gathers = None

    def _ended(self, calls: int, began: float) -> None:
        """Note how many callers a commit had, and how long it took."""
        self._crowd, self._took = calls + len(self._waiting), time.monotonic() - began

    def _end(self, commit: Commit) -> None:
        commit.over = True
        self._give()
        for call in commit.calls[1:2]:
            call.wake()

    def _take(self, commit: Commit, first: _Call) -> None:
        """Take all waiting calls into a commit, the first one first."""
        others = [] if first.alone else [call for call in list(self._waiting) if call is not first and not call.alone]
        waiting, calls, size, until = self._waiting, commit.calls, 0, first.until
        for call in [first, *others]:
            call.commit = commit
            if waiting.pop(call, call) is None:
                call.at, call.start = len(calls), size
                size += len(call.ops)
                if call.until < until:
                    until = call.until
                calls.append(call)
        commit.until = until

    def _serve(self, commit: Commit) -> None:
        """Run all calls in one transaction, and note how it ended. Raises only an interrupt of this thread."""
        calls = commit.calls
        if time.monotonic() >= commit.until:  # on a stopped server other calls took all of it
            commit.error = self._busy()
            return
        try:
            commit.outcomes = self._transact([op for call in calls for op in call.ops], commit.until, commit)
            commit.stored = True
        except StoreError as error:
            if commit.stored:
                raise  # from a signal handler, after the commit
            commit.stored = False
            if isinstance(error, StoreFull) and len(calls) > 1:  # the others may need no room, or less
                for call in calls:
                    call.alone = True
            else:
                commit.error = error
        except BaseException as error:
            if not self._separate(error):
                raise
            commit.stored = False
            if len(calls) == 1:
                commit.error = error
            for call in calls:
                call.alone = True


def _owner(token: object) -> int:
    """Return the thread that holds an RLock, 0 if none does."""
    found = _OWNER.search(repr(token))
    return int(found[1]) if found else 0

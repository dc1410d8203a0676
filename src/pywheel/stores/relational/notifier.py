"""The ear of one worker on a server's store."""

from __future__ import annotations

import os
import select
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Final

from ..._errors import StoreAway, StoreClosed, StoreError
from ...jobs.job import Due, slice_of
from ..notifier import OVERLOOKED, Hints, Member, Notifier, Spare
from ..ownership import owners
from .connections import CLOSED
from .presence import SILENT, Presence

__all__ = ["RelationalNotifier"]

_BEAT: Final = 1.2  # seconds between beats that are written: the fifth look, as there are four a second beside others
_ALONE: Final = 0.95  # the same if there is nobody else: each look
_NEWS: Final = 0.2  # the same if a worker is behind, or no longer, and while jobs are claimed: see `Presence.busy`
_KEPT: Final = 10_000  # hints
_FURTHER: Final = 30_000  # ms that a horizon is written further out than it is: then it need not be written so often
# Who puts a job looks at the horizons as its statement begins. So a worker that reads within one which was published
# long before misses nothing. If it had none so far, it reads once more, after any such statement has ended.
_AHEAD: Final = 10_000  # ms
_AGAIN: Final = 1.0  # seconds
_NEVER: Final = float("inf")
_CLEAR: Final = 20  # beats between looks for workers that are gone


class RelationalNotifier(Notifier):
    """A row in the table of workers, and whatever the database has that wakes a client."""

    silent = SILENT

    def __init__(self, presence: Presence, name: str) -> None:
        self.worker = f"{name}@{token_hex(4)}"
        self._presence = presence
        self._clock = presence.clock
        self._horizon = -1
        self._written = -1  # the horizon that others see
        self._noted: dict[int, int] = {}  # job: when it is due
        self._reload = False
        self._rung = False
        self._read = 0  # the last pause that `hints` has told of
        self._beat_at = self._clock.time()
        self._behind: int | None = None
        self._spare: Collection[str] = ()  # topics of which is asked what is due first
        self._first: int | None = None  # when that is, as a beat was told
        self._overlooked_at: float = _NEVER  # the wall clock at which to see whether it is still there, in ms
        self._look_again_at = _NEVER
        self._beats = 0
        self._closed = False
        self._ears, self._bell = os.pipe()
        os.set_blocking(self._ears, False)
        os.set_blocking(self._bell, False)

    # ---- what a database does ---------------------------------------------------------------------------------------

    @abstractmethod
    def _write(self, *, beat: int | None = None, horizon: int | None = None, stopped: int | None = None) -> bool:
        """Write what is given into this worker's row; with a beat read the roster, and the first due time of `_spare`,
        too. Whether the row was there."""  # noqa: D205, D209

    @abstractmethod
    def _enter(self) -> int:
        """Make this worker's row, and listen; return the number of the last pause."""

    @abstractmethod
    def _leave(self) -> None:
        """Delete the row, and stop listening. Raises nothing."""

    @abstractmethod
    def _due_now(self, ids: Sequence[int]) -> Iterable[tuple[int, int, str, int]]:
        """Return due time, id and topic of those jobs that are delayed, in the order of the ids."""

    @abstractmethod
    def _stirred(self) -> int:
        """Return the number of the last pause or resumption."""

    @abstractmethod
    def _listen(self, seconds: float) -> None:
        """Wait for so long, or until `_ears` or the database has something; take in what that is (`heard`)."""

    # ---- for the presence -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Be there, from now on."""
        try:
            self._read = self._enter()
        except StoreAway:  # an idle connection had been closed, or this one was in the middle
            self._read = self._enter()
        self._reload = self._rung = False  # there is nothing before the beginning
        with self._presence.lock:
            self._presence.local[self.worker] = self

    def note(self, dues: Mapping[int, int]) -> None:
        """Note jobs that are, or were until now, due then."""
        horizon, noted = self._horizon, self._noted
        for id, due in dues.items():
            if due <= horizon:
                noted[id] = due
        if len(noted) > _KEPT:
            self._noted = {}
            self._reload = True

    def looks_as_far_as(self, due: int) -> bool:
        """Whether it wants to be told of a job that is due then."""
        return due <= self._horizon

    def rung(self, *, reload: bool) -> None:
        """Let it look."""
        self._reload |= reload
        self._presence.stale |= not reload
        self._rung = True
        self.wake()

    def heard(self, ids: Iterable[int] | None) -> None:
        """Take in what another process says: jobs, None to read all again, none to look who is there."""
        self._rung = True
        if ids is None:
            self._reload = True
            return
        some = False
        for id in ids:
            self._noted[id] = -1
            some = True
        self._presence.stale |= not some

    # ---- for the worker ---------------------------------------------------------------------------------------------

    def publish(self, horizon: int) -> None:
        """Set the horizon. Others see one that is further out, so that it need not be written each time."""
        self._horizon = horizon
        if self._over:
            return
        if not horizon <= self._written <= horizon + 4 * _FURTHER:
            if self._written < self._clock.wall() + _AHEAD:
                self._look_again_at = self._clock.time() + _AGAIN
            self._present(horizon=horizon + _FURTHER)
            self._written = horizon + _FURTHER

    def beat(self, behind: int, spare: Spare = tuple) -> int | None:
        """Write the time, about once a second, and see who else is there, and whether anybody overlooks a job."""
        if self._over:
            return None
        now = self._clock.time()
        since = now - self._beat_at
        changed = (behind > 0) is not ((self._behind or 0) > 0) or (behind < 0) is not ((self._behind or 0) < 0)
        soon = changed or self._presence.busy or self._clock.wall() >= self._overlooked_at
        rest = _NEWS if soon else _BEAT if len(self._presence.known) > 1 else _ALONE
        if since < rest and self._behind is not None:
            return None
        self._behind, self._beat_at = behind, now
        self._spare = spare()
        self._present(beat=behind)
        first = self._first
        overlooked = _NEVER if first is None else first + OVERLOOKED
        self._overlooked_at = overlooked if overlooked > self._clock.wall() else _NEVER
        self._presence.tell_of_the_dead()
        if since > self.silent:
            self._reload = True  # others have owned its shards
        if now >= self._look_again_at:
            self._look_again_at = _NEVER
            self._reload = self._rung = True
        self._beats += 1
        if self._beats % _CLEAR == 0:
            self._presence.clear_away()
        return first

    def _present(self, **values: int) -> None:
        """Write into the row; make it anew if others have deleted it, or the connection broke."""
        if not self._write(**values):
            self._enter()
            self._written = -1
            self._reload = True
            self._write(**values)

    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics, by name."""
        self._open()
        return self._presence.members()

    def hints(self) -> Hints:
        """Return what changed since the last call."""
        self._open()
        reload, self._reload = self._reload, False
        noted, self._noted = self._noted, {}
        try:
            if reload:
                self._read = self._stirred()
            jobs = self._due_now(list(noted)) if noted else ()
        except BaseException:
            self._reload = True
            raise
        tables: dict[str, tuple[str, ...]] = {}
        mine = []
        for due, id, topic, priority in jobs:
            if topic not in tables:
                tables[topic] = owners(topic, self._presence.handling(topic))
            if tables[topic] and tables[topic][slice_of(due)] == self.worker:
                mine.append(Due(due, id, topic, priority))
        return Hints(mine, reload)

    def wait(self, seconds: float) -> bool:
        """Return when rung or woken."""
        if self._over:
            return False
        if not self._rung:
            self._listen(max(seconds, 0))
        with suppress(BlockingIOError):
            while len(os.read(self._ears, 4096)) == 4096:
                pass
        rung, self._rung = self._rung, False
        return rung

    def _select(self, seconds: float, *others: int) -> list[int]:
        """Wait until one of some files can be read, or this is woken; return those that can."""
        ready, _, _ = select.select([self._ears, *others], [], [], min(seconds, 3600))
        return [file for file in ready if file != self._ears]

    def wake(self) -> None:
        """End a wait."""
        with suppress(BlockingIOError, OSError):
            os.write(self._bell, b"!")

    def ring(self, worker: str) -> None:
        """Wake another worker."""
        with suppress(StoreError):
            self._presence.ring(worker)

    def quiet(self) -> None:
        """Say that nothing starts here any more of what was paused when `hints` said so."""
        if not self._over:
            self._present(stopped=self._read)

    def close(self) -> None:
        """Stop listening, and be gone for the others. They have been told all by then: the process may end."""
        if not self._closed:
            self.end()
            self._presence.flush()

    def end(self) -> None:
        """Stop listening, and be gone for the others, who are told soon."""
        if self._closed:
            return
        self._closed = True
        with self._presence.lock:
            self._presence.local.pop(self.worker, None)
        if not self._presence.closed:
            self._leave()
            self._presence.came_or_went(self.worker)
        self.wake()

    def abandoned(self) -> None:
        """Be over, in a forked child: the row is the parent's."""
        self._closed = True

    def __del__(self) -> None:
        for file in (self.__dict__.get("_ears"), self.__dict__.get("_bell")):
            if file is not None:
                os.close(file)

    @property
    def _over(self) -> bool:
        return self._closed or self._presence.closed

    def _open(self) -> None:
        if self._over:
            raise StoreClosed(CLOSED)

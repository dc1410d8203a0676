"""The workers on a server's store, as one process sees them, and the common part of its own workers' notifiers.

A beat is a query there, and comes about once a second.
"""

from __future__ import annotations

import selectors
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any, Final, NamedTuple

from .._errors import StoreClosed
from ..clock import Clock
from ..jobs.queries import Member
from .contract import CLOSED, pauses
from .notifier import OVERLOOKED, Notifier, Spare

SILENT: Final = 3.4
"""Seconds without a beat after which a worker owns nothing."""
GONE: Final = 60.0
"""The silence, in seconds, of a worker whose process has ended."""
_HELD: Final = 5.0  # seconds of silence after which a worker cannot start held jobs any more
_BUSY: Final = 2.0  # seconds after a claim for which a process counts as busy
_BEAT: Final = 1.2  # seconds between beats: the fifth look, as there are four a second beside other workers
_ALONE: Final = 0.95  # the same without other workers: each look
_NEWS: Final = 0.2  # the same beside others if a worker has fallen behind, or caught up, and while jobs are claimed
_NEVER: Final = inf
_LONGEST: Final = 3_600.0  # seconds of one wait
_FINE: Final = 0.001  # seconds: a selector waits for whole ms
_Selector: Final[Any] = getattr(selectors, "PollSelector", selectors.SelectSelector)  # registers without system calls


def until_quiet(seconds: float, look: Callable[[], bool | None], longest: float = 0.05) -> bool:
    """Return True once `look` returns True, False once it returns None, or after `seconds`. It pauses between looks."""
    until = time.monotonic() + seconds
    for pause in pauses(0.002, longest):
        found = look()
        left = until - time.monotonic()
        if found or found is None or left <= 0:
            return bool(found)
        time.sleep(min(pause, left))
    raise AssertionError


# ---- who is there ---------------------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """A worker, as the server described it."""

    worker: str
    topics: frozenset[str]  # without any it has announced none
    beat: int  # the time of its last beat, by the server's clock in ms
    behind: int
    stopped: int  # nothing starts there any more of topics paused up to this number
    horizon: int = -1
    gone: bool = False  # its session has ended


@dataclass(slots=True)
class Roster:
    """All workers, as of one answer."""

    clock: Clock
    workers: Mapping[str, Seen]
    """By name, in this order."""
    version: bytes = b""

    def silent(self, seen: Seen) -> float:
        """Return the seconds since a worker's last beat; GONE if its process has ended.

        A beat in the future came before the server's clock was set back: a live worker beats again within a second.
        """
        return GONE if seen.gone else abs(self.clock.wall() - seen.beat) / 1_000

    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics."""
        there = [seen for seen in self.workers.values() if seen.topics]
        return tuple(Member(seen.worker, seen.topics, self.silent(seen), seen.behind) for seen in there)

    def handling(self, topic: str) -> list[str]:
        """Return the workers that share the shards of a topic: those that are not silent, or all if all are."""
        there = [seen for seen in self.workers.values() if topic in seen.topics]
        return [seen.worker for seen in there if self.silent(seen) <= SILENT] or [seen.worker for seen in there]


class ServerPresence(ABC):
    """The workers of an opened store, and the common state of its notifiers. Any thread may use it."""

    def __init__(self, clock: Clock) -> None:
        self.closed = False
        self.begin(clock)

    def begin(self, clock: Clock) -> None:
        """Begin without knowledge of any worker."""
        self.clock = clock
        self.local: dict[str, Any] = {}
        """The notifiers of this process, by worker."""
        self.known = Roster(clock, {})
        """All workers as they were last read."""
        self.stale = True
        """Whether a worker has come or gone since."""
        self._busy_until = 0.0  # by the monotonic clock

    @abstractmethod
    def look(self) -> Roster:
        """Read all workers; return them."""

    @abstractmethod
    def pause_of(self, topic: str) -> int | None:
        """Return the number of a topic's present pause, None if it is not paused."""

    def roster(self) -> Roster:
        """Return all workers. No query unless one came or went."""
        if not self.stale:
            return self.known
        self.stale = False
        try:
            return self.look()
        except BaseException:
            self.stale = True
            raise

    def claimed(self) -> None:
        """Note that jobs are claimed here."""
        self._busy_until = self.clock.time() + _BUSY

    @property
    def busy(self) -> bool:
        """Whether jobs were claimed here lately. Others then have jobs as well: deaths are looked for more often."""
        return self.clock.time() < self._busy_until

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return True once no job claimed before the pause can start, False after `seconds` or if resumed."""
        there: Collection[str] | None = None

        def look() -> bool | None:
            nonlocal there
            if self.closed:
                raise StoreClosed(CLOSED)
            pause = self.pause_of(topic)
            if pause is None:
                return None
            roster = self.look()
            handling = [seen for seen in roster.workers.values() if topic in seen.topics]
            if there is None:  # a worker that comes later has read that the topic is paused
                there = {seen.worker for seen in handling}
            left = [seen for seen in handling if seen.worker in there and seen.stopped < pause]
            return all(roster.silent(seen) > _HELD for seen in left)

        return until_quiet(seconds, look)


# ---- the ear of one of them -----------------------------------------------------------------------------------------


class ServerNotifier(Notifier):
    """Used by one thread, the worker's; `wake`, `ring` and `close` may come from any."""

    silent = SILENT
    _ends: tuple[socket.socket, ...] = ()

    def __init__(self, worker: str, presence: Any) -> None:
        self.worker = worker
        self._presence = presence
        self._clock: Clock = presence.clock
        self._ends = self._ears, self._bell = socket.socketpair()
        for end in self._ends:
            end.setblocking(False)
        self._closed = False
        self._horizon = -1
        self._reload = self._rung = False
        self._read = 0  # the last pause that `hints` has reported
        self._behind: int | None = None  # as of the last beat; None: the next one is due
        self._beat_at = 0.0
        self._beaten = self._clock.wall()  # the last beat, by the server's clock
        self._overlooked_at = _NEVER  # the wall clock, in ms, at which to look whether the first job is still unclaimed

    @abstractmethod
    def _say(self, behind: int, topics: Collection[str]) -> int | None:
        """Write a beat, and take in the other workers; return the first due time of some topics."""

    @abstractmethod
    def _listen(self, seconds: float) -> None:
        """Wait for `seconds`, or until woken or told; take in the news."""

    def beat(self, behind: int, spare: Spare = tuple) -> int | None:
        """Show that this worker works, and look for other workers and overlooked jobs: a query a second."""
        if self._over:
            return None
        presence, clock, said = self._presence, self._clock, self._behind
        now = clock.time()
        if said is not None:
            beside = len(presence.known.workers) > 1
            news = beside and (presence.busy or (behind > 0) - (behind < 0) != (said > 0) - (said < 0))
            soon = news or clock.wall() >= self._overlooked_at
            if now - self._beat_at < (_NEWS if soon else _BEAT if beside else _ALONE):
                return None
        self._behind, self._beat_at = behind, now
        try:
            first = self._say(behind, spare())
        except BaseException:
            self._behind = None
            raise
        mine = presence.known.workers.get(self.worker)
        if mine is not None:
            if abs(mine.beat - self._beaten) > self.silent * 1_000:
                self._read_all()  # others have owned its shards
            self._beaten = mine.beat
        overlooked = _NEVER if first is None else first + OVERLOOKED
        self._overlooked_at = overlooked if overlooked > clock.wall() else _NEVER
        return first

    def _read_all(self) -> None:
        self._reload = self._rung = True

    def members(self) -> tuple[Member, ...]:
        self._open()
        members: tuple[Member, ...] = self._presence.roster().members()
        return members

    def wait(self, seconds: float) -> bool:
        if self._over:
            return False
        self._listen(0.0 if self._rung else max(seconds, 0.0))
        with suppress(OSError):
            while len(self._ears.recv(4_096)) == 4_096:
                pass
        rung, self._rung = self._rung, False
        return rung

    def _select(self, seconds: float, *others: Any) -> list[Any]:
        """Wait until some file can be read, or this is woken; return the readable files, `_ears` among them."""
        until = time.monotonic() + min(seconds, _LONGEST)
        with _Selector() as selector:
            for file in (self._ears, *others):
                selector.register(file, selectors.EVENT_READ)
            ready = selector.select(max(min(seconds, _LONGEST) - _FINE, 0))
        if not ready and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _FINE))
        return [key.fileobj for key, _ in ready]

    def wake(self) -> None:
        with suppress(OSError):  # the buffer is full, so it is awake; or it is closed
            self._bell.send(b"\0")

    @property
    def _over(self) -> bool:
        return bool(self._closed or self._presence.closed)

    def _open(self) -> None:
        if self._over:
            raise StoreClosed("the store was closed, or its worker has stopped: open another one")

    def __del__(self) -> None:
        for end in self._ends:
            end.close()

"""The ear of one worker: a connection that listens to its bell, and what it tells the others, once a second.

The functions find in the store whom a change concerns: each worker keeps there which slices it owns, as far as it knows
who is there, and up to which due time it wants hints. It says so before it reads, so what it does not read it is told.
It may be told more than it wants, as it is slow to say that it wants less: what is too much is left out here.

Hints are published. Before `hints` returns, the worker publishes a token to itself and reads up to that: what was told
before has come then. A connection that broke may have lost some, and then the worker reads all again.

Of several stores the first alone knows who is there and what is paused. Hints come from each, by one ear: what is
published on a node of a cluster is heard on all. A worker that is gone from the first is taken from the others by
whoever sees it.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from itertools import groupby, islice
from operator import itemgetter
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from ..._errors import StoreAway, StoreClosed, StoreError
from ...jobs.commands import Announce
from ...jobs.job import Due, slice_of
from ...jobs.queries import GetNextDues, ListTopics
from ..notifier import OVERLOOKED, Hints, Member, Notifier, Spare
from ..partitions import Ids
from .presence import SILENT, Roster, topics_of
from .records import from_id, score

if TYPE_CHECKING:
    from .connection import Connection
    from .store import RedisStore

__all__ = ["RedisNotifier"]

_BEAT: Final = 1.2  # seconds between beats: the fifth look, as there are four a second beside others
_ALONE: Final = 0.95  # the same if there is nobody else: each look
_NEWS: Final = 0.24  # the same if a worker has fallen behind, or caught up, and while jobs are claimed
_AHEAD: Final = 30_000  # ms by which more is heard than was asked for: then the horizon need not be told each time
_WASTED: Final = 100  # hints that nobody wanted, after which the horizon is told as it is
_TRIES: Final = 5
_QUIET: Final = 0.5  # seconds without a beat after which a worker's jobs may be overlooked
_NEVER: Final = float("inf")
_LOOKS: Final = 5  # beats after which the other stores are looked at too: a hint may have been lost between nodes
_SOME: Final = 500  # jobs whose due times are asked for at once
_HINT: Final = struct.Struct(">6sd")
"""Of a job: its id, and when it was due until then, if that was sooner."""


class _Waker:
    """Two ends of a connection to itself: a byte in it is readable beside other sockets."""

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair()
        self._in.setblocking(False)
        self._out.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that is readable after `wake`."""
        return self._out.fileno()

    def wake(self) -> None:
        """Make it readable. From any thread, and from signal handlers."""
        with suppress(OSError):  # full, so readable; or closed
            self._in.send(b"\0")

    def drain(self) -> None:
        """Forget that somebody woke it."""
        with suppress(OSError):
            while len(self._out.recv(64)) == 64:
                pass

    def close(self) -> None:
        """Close both ends. Idempotent."""
        self._in.close()
        self._out.close()

    __del__ = close


class RedisNotifier(Notifier):
    """One thread uses it, the worker's; `wake`, `ring` and `close` may come from any."""

    silent = SILENT

    def __init__(self, stores: Sequence[RedisStore], name: str) -> None:
        self.worker = f"{name}@{token_hex(6)}"
        self._name = self.worker.encode()
        self._bells = [stores[0].server.prefix + b":bell"]
        self._bells += [store.server.prefix + b":bell:" + self._name for store in stores]
        self._stores = stores
        self._ids = Ids(len(stores))
        self._store = stores[0]
        self._presence = stores[0].presence
        self._swept: bytes | None = None  # the version of the roster by which the other stores were swept
        self._beats = 0
        self._closed = False
        self._horizon = -1
        self._told: tuple[int, dict[str, int], bytes] | None = None  # horizon, masks, version of the roster
        self._reload = False
        self._rung = False
        self._hints: list[tuple[int, bytes]] = []  # as they were heard: the place of the store, and the message
        self._awaited: list[bytes] = []
        self._pauses = 0  # the number of the last pause that was heard of
        self._wasted = 0
        self._beat_at = -_BEAT
        self._behind = 0
        self._overlooked_at: float = _NEVER  # wall clock at which to see whether the first job is there yet, in ms
        self._waker = _Waker()
        self._ear: Connection | None = None
        self._moved = False
        try:
            self._listen()
            self._read, self._reload, self._rung = self._pauses, False, False
            self._stopped = self._pauses
        except BaseException:
            self.close()
            raise
        with self._presence.lock:
            self._presence.listening.add(self)

    def _over(self) -> bool:
        return self._closed or self._presence.closed

    # ---- what it says -----------------------------------------------------------------------------------------------

    def publish(self, horizon: int) -> None:
        """Set the horizon. No query as long as more is heard anyway, and not much of it in vain."""
        self._horizon = horizon
        if not self._over():
            self._tell(self._roster())

    def _tell(self, roster: Roster) -> None:
        """Let the store know what is to be heard here."""
        for _ in range(_TRIES):
            if self.worker not in roster.topics:
                self._told = None
                return
            self._sweep(roster)
            masks = roster.masks(self.worker)
            if self._told is not None:
                horizon, said, version = self._told
                enough = self._horizon <= horizon and (self._wasted < _WASTED or horizon - self._horizon < _AHEAD)
                if enough and said == masks and version == roster.version:
                    return
            far = self._horizon if self._wasted >= _WASTED or self._horizon < 0 else self._horizon + _AHEAD
            self._wasted = 0
            for store in reversed(self._stores):
                version = store.run("hear", worker=self.worker, horizon=far, masks=masks)[1]
            self._told = (far, masks, roster.version)
            if version == roster.version:
                return
            roster = self._store.roster()

    def _sweep(self, roster: Roster) -> None:
        """Take from the other stores who is gone from the first. Whoever comes is in the first before the others.

        A store that has lost this worker, as a replica that was behind took over, is told again.
        """
        if len(self._stores) == 1 or self._swept == roster.version:
            return
        there = [topics_of(store.run("roster")[-1]).keys() for store in self._stores[1:]]
        roster = self._store.roster()
        for store, workers in zip(self._stores[1:], there, strict=True):
            for worker in workers - roster.topics.keys():
                store.run("leave", worker=worker)
            if self.worker in roster.topics.keys() - workers:
                store.apply([Announce(self.worker, tuple(sorted(roster.topics[self.worker])))])
        self._swept = roster.version

    def beat(self, behind: int, spare: Spare = tuple) -> int | None:
        """Show that this worker works, and see who else does, and whether anybody overlooks a job: a query a second."""
        if self._over():
            return None
        if self._ear is None or self._moved:
            self._listen()
        now = self._presence.clock.time()
        passed, changed = now - self._beat_at, (behind > 0) - (behind < 0) != (self._behind > 0) - (self._behind < 0)
        roster = self._presence.roster
        soon = changed or self._presence.busy or self._presence.clock.wall() >= self._overlooked_at
        rest = _NEWS if soon else _BEAT if roster is not None and len(roster.topics) > 1 else _ALONE
        if passed < rest:
            return None
        first = self._say(behind, now, spare())
        overlooked = _NEVER if first is None else first + OVERLOOKED
        self._overlooked_at = overlooked if overlooked > self._presence.clock.wall() else _NEVER
        return first

    def _say(self, behind: int, now: float, spare: Collection[str] = ()) -> int | None:
        roster = self._presence.roster
        known = roster.version.decode() if roster is not None else None
        answer = self._store.run(
            "beat", worker=self.worker, behind=behind, obeyed=self._stopped, known=known, topics=list(spare)
        )
        _, before, first, _, version, self._pauses, wall, beats, members = answer
        self._beat_at, self._behind = now, behind
        roster = self._presence.learn(version, wall, beats, members)
        if before is not None and abs(wall - before) > SILENT * 1000:
            self._read_all()  # others have owned its shards
        dues = [] if first is None else [score(first)]
        self._beats += 1
        silence = any(silent > _QUIET for silent in map(roster.silent, roster.topics))
        if len(self._stores) > 1 and (silence or self._beats % _LOOKS == 0):
            dues += self._first_of_others(spare)
        if self._pauses != self._read:
            self._rung = True  # the bell may have been lost
        self._tell(roster)
        return min(dues, default=None)

    def _first_of_others(self, topics: Collection[str]) -> list[int]:
        """Return when the first jobs of topics are due in the other stores: a query each, while somebody is silent."""
        paused = {topic.name for topic in self._store.ask(ListTopics()) if topic.paused}
        asked = [topic for topic in topics if topic not in paused]
        return [due for store in self._stores[1:] for due in store.ask(GetNextDues(asked)).values()]

    def ring(self, worker: str) -> None:
        """Wake another worker."""
        if not self._over():
            with suppress(StoreError):
                self._store.call(b"PUBLISH", self._store.server.prefix + b":bell:" + worker.encode(), b"r")

    def quiet(self) -> None:
        """Say that nothing starts here any more of what was paused when `hints` said so."""
        self._stopped = self._read
        if not self._over():
            self._say(self._behind, self._presence.clock.time())

    # ---- what it hears ----------------------------------------------------------------------------------------------

    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics, by name."""
        self._open()
        return self._roster().members()

    def _roster(self) -> Roster:
        roster = self._presence.roster
        return self._store.roster() if roster is None or self._presence.stale else roster

    def hints(self) -> Hints:
        """Return what changed since the last call."""
        self._open()
        self._catch_up()
        roster = self._roster()
        told, self._hints = self._hints, []
        reload, self._reload = self._reload or self._pauses != self._read, True  # if the store is away now
        due = self._mine(told, roster)
        self._read, self._reload = self._pauses, False
        return Hints(due, reload)

    def _catch_up(self) -> None:
        """Read all that was told until now: a token that is published after it comes behind it, on each node's way."""
        ear, token = self._ear, b"t" + token_hex(4).encode()
        if ear is None:
            return
        place = self._store.server.place
        ways = len(self._stores) if place.nodes else 1  # what is published on one server comes in its order
        until, self._awaited = time.monotonic() + place.timeout, [token] * ways
        for store, bell in zip(self._stores[:ways], self._bells[1:], strict=False):
            store.call(b"PUBLISH", bell, token)
        try:
            while self._awaited and (left := until - time.monotonic()) > 0:
                self._take_in(ear.heard(left))
        except StoreAway:
            self._deaf()
        if self._awaited:
            self._deaf()

    def _take_in(self, messages: Sequence[tuple[bytes, bytes]]) -> None:
        for bell, message in messages:
            kind = message[:1]
            if kind == b"m":
                self._presence.stale = True
            elif kind == b"p":
                self._pauses = int(message[1:])
            elif kind == b"h":
                self._hints.append((self._bells.index(bell) - 1, message))
            elif message in self._awaited:
                self._awaited.remove(message)

    def _mine(self, told: Sequence[tuple[int, bytes]], roster: Roster) -> list[Due]:
        """Return the jobs that were told, as they are now, as far as they are this worker's and it looks so far."""
        mine: list[Due] = []
        wanted: dict[int, dict[bytes, str]] = {}  # by store, the topics of ids
        for place, message in told:
            behind = 5 + int.from_bytes(message[1:5], "big")
            topic = message[5:behind].decode()
            near = {packed: topic for packed, was in _HINT.iter_unpack(message[behind:]) if was <= self._horizon}
            self._wasted += (len(message) - behind) // _HINT.size - len(near)
            wanted.setdefault(place, {}).update(near)
        for place, topics in wanted.items():
            for packed, when, priority in self._dues(self._stores[place], topics):
                topic, due = topics[packed], score(when)
                table = roster.owners(topic)
                if table and table[slice_of(due)] == self.worker:
                    mine.append(Due(due, self._ids.outer(place, from_id(packed)), topic, priority))
                else:
                    self._wasted += 1
        return mine

    @staticmethod
    def _dues(store: RedisStore, topics: dict[bytes, str]) -> Iterator[Any]:
        """Yield the ids, due times and priorities of those jobs that wait, some hundreds by each call."""
        jobs = iter(sorted(topics.items(), key=itemgetter(1)))
        while some := list(islice(jobs, _SOME)):
            asked = {topic: [from_id(id) for id, _ in same] for topic, same in groupby(some, itemgetter(1))}
            yield from store.run("dues", topics=asked)[1]

    def wait(self, seconds: float) -> bool:
        """Return when rung or woken, or after so many seconds."""
        if self._over():
            return False
        rung = self._hear(0 if self._rung else max(seconds, 0))
        self._waker.drain()
        rung |= self._rung
        self._rung = False
        return rung

    def _hear(self, seconds: float) -> bool:
        """Return whether the bell was rung within so many seconds."""
        ear = self._ear
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._waker, selectors.EVENT_READ)
                if ear is not None:
                    selector.register(ear, selectors.EVENT_READ)
                selector.select(seconds)
            messages = ear.heard() if ear is not None else []
        except (StoreAway, ValueError, OSError):
            self._deaf()
            return True
        self._take_in(messages)
        return bool(messages)

    def _deaf(self) -> None:
        """The connection broke: some bells were not heard."""
        if self._ear is not None:
            self._ear.close()
        self._ear = None
        self._read_all()

    def _listen(self) -> None:
        """Connect, and listen to this worker's bells and to that for all."""
        ear = self._store.server.fresh()
        try:
            ear.subscribe(*self._bells)
            messages = ear.heard()  # what came along with the answer a selector does not see
        except BaseException:
            ear.close()
            raise
        if self._ear is not None:
            self._ear.close()
        self._ear, self._moved = ear, False
        self._read_all()  # what was told meanwhile was not heard
        self._take_in(messages)
        self._pauses = self._store.run("roster")[3]
        self._presence.stale = True

    def renew(self) -> None:
        """Read all again, and say all again: the server is another one, or has lost something. From any thread."""
        self._told = self._swept = None
        self._moved = True
        self._beat_at = -_BEAT
        self._read_all()
        self.wake()

    def _read_all(self) -> None:
        self._reload = True
        self._rung = True

    def wake(self) -> None:
        """End a wait."""
        self._waker.wake()

    # ---- life -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._over():
            raise StoreClosed("the store was closed, or its worker has stopped: open another one")

    def close(self) -> None:
        """Stop listening, and be gone for the others."""
        if self._closed:
            return
        self._closed = True
        self._presence.listening.discard(self)
        if self._ear is not None:
            self._ear.close()
        if not self._presence.closed:
            with suppress(StoreError):  # the first that is away ends it: nobody waits for each
                for store in self._stores:
                    store.run("leave", worker=self.worker)
            self._presence.stale = True
        self._waker.close()

    def after_fork(self) -> None:
        """Let go of everything in a forked child: it is the parent's."""
        self._closed = True
        if self._ear is not None:
            self._ear.close()
        self._waker.close()

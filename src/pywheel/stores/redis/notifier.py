"""The notifier of one worker: a connection that listens to its bell, and the worker's own news, once a second.

The functions find in the store the workers that a change concerns. Each worker keeps there the slices that it owns, as
far as it knows the other workers, and the due time up to which it wants hints. It writes them before it reads, so it is
told of changes that it does not read. It may be told more than it wants, as it is slow to take back wishes: superfluous
hints are dropped here.

Hints are published. Before `hints` returns, the worker publishes a token to itself and reads up to it: all earlier
hints have come then. A connection that broke may have lost some; then the worker reads all again.

Of several stores, only the first has the workers and the pauses. Hints come from each store, on one connection: a
cluster's nodes pass on messages to all nodes. A worker that is gone from the first store is removed from the others by
any worker that notices.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from ..._errors import StoreAway, StoreError
from ...jobs.commands import Announce
from ...jobs.job import Due, State, slice_of
from ...jobs.queries import GetNextDues, GetStates, ListTopics
from ..notifier import Hints
from ..ownership import owners, shards_of
from ..partitions import Ids
from ..presence import Roster, Seen, ServerNotifier, ServerPresence
from .records import from_id, pairs, score

if TYPE_CHECKING:
    from .connection import Connection
    from .store import RedisStore

_AHEAD: Final = 30_000  # ms added to the horizon, so that it need not be sent each time
_WASTED: Final = 100  # unwanted hints after which the exact horizon is sent
_TRIES: Final = 5
_QUIET: Final = 0.5  # seconds without a beat after which a worker's jobs may be overlooked
_LOOKS: Final = 5  # beats between looks at the other stores as well: a hint may have been lost between nodes
_HINT: Final = struct.Struct(">6sdb")
"""A job in a hint: its id, due time and priority."""


# ---- who is there ---------------------------------------------------------------------------------------------------


def _topics_of(members: Sequence[bytes]) -> dict[str, frozenset[str]]:
    """Return the topics of each worker, from an answer."""
    return {worker.decode(): frozenset(json.loads(topics)) for worker, topics in pairs(members)}


class Presence(ServerPresence):
    """The workers of a store. Of several stores the first is asked."""

    def __init__(self, store: RedisStore) -> None:
        super().__init__(store.clock)
        self._store = store

    def look(self) -> Roster:
        return self.learn(self._store.run("roster")[2:])

    def pause_of(self, topic: str) -> int | None:
        known = self._store.call(b"HGET", self._store.server.prefix + b":t", topic.encode()) or b""
        pause = known.partition(b" ")[0]
        return int(pause) if pause else None

    def learn(self, answer: Sequence[Any]) -> Roster:
        """Take in an answer; its topics are None if nobody has come or gone since the known roster."""
        version, _, beats, members = answer
        now, known = self.clock.wall(), self.known.workers
        topics = {name: seen.topics for name, seen in known.items()} if members is None else _topics_of(members)
        beaten = {worker.decode(): map(int, beat.split()) for worker, beat in pairs(beats)}
        workers = {name: Seen(name, topics[name], *beaten.get(name, (now, 0, -1))) for name in sorted(topics)}
        self.known = Roster(self.clock, workers, version)
        return self.known

    def renewed(self) -> None:
        """Have everybody read all again: the server is another one, or has lost something."""
        self.known, self.stale = Roster(self.clock, {}), True
        for notifier in list(self.local.values()):
            notifier.renew()

    def after_fork(self) -> None:
        """Begin anew in a forked child: the listening connections are the parent's. Each of several stores calls it."""
        for notifier in self.local.values():
            notifier.let_go()
        self.begin(self._store.clock)

    def close(self) -> None:
        """Let all waits return."""
        self.closed = True
        for notifier in list(self.local.values()):
            notifier.wake()


# ---- the ear --------------------------------------------------------------------------------------------------------


class RedisNotifier(ServerNotifier):
    """A connection that listens to this worker's bells."""

    def __init__(self, stores: Sequence[RedisStore], name: str) -> None:
        super().__init__(f"{name}@{token_hex(6)}", stores[0].presence)
        self._stores, self._store = stores, stores[0]
        self._bells = [self._store.server.prefix + b":bell", *(store.bell_of(self.worker) for store in stores)]
        self._ids = Ids(len(stores))
        self._swept: bytes | None = None  # the version of the roster at the last sweep of the other stores
        self._beats = 0
        self._told: tuple[int, dict[str, int], bytes] | None = None  # horizon, masks, version of the roster
        self._hints: list[tuple[int, bytes]] = []  # as heard: the place of the store, and the message
        self._awaited: list[bytes] = []
        self._pauses = 0  # the number of the last pause, as the store says
        self._paused = False  # whether there may be a later one
        self._wasted = 0
        self._ear: Connection | None = None
        self._moved = False
        try:
            self._connect()
        except BaseException:
            self.let_go()
            raise
        self._read = self._stopped = self._pauses
        self._reload = self._rung = False
        self._presence.local[self.worker] = self

    # ---- what it says -----------------------------------------------------------------------------------------------

    def publish(self, horizon: int) -> None:
        """Set the horizon. No query while the store's wider horizon holds, and few of its hints are unwanted."""
        self._horizon = horizon
        if not self._over:
            self._tell(self._presence.roster())

    def _tell(self, roster: Roster) -> None:
        """Write to the store which changes this worker wants to hear of."""
        for _ in range(_TRIES):
            me = roster.workers.get(self.worker)
            if me is None:
                self._told = None
                return
            self._sweep(roster)
            masks = {topic: shards_of(self.worker, topic, roster.handling(topic)) for topic in me.topics}
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
            roster = self._presence.look()

    def _sweep(self, roster: Roster) -> None:
        """Remove workers from the other stores that are gone from the first. A new worker enters the first one first.

        A store that has lost this worker, because a replica that was behind took over, is told again.
        """
        if len(self._stores) == 1 or self._swept == roster.version:
            return
        there = [_topics_of(store.run("roster")[-1]).keys() for store in self._stores[1:]]
        roster = self._presence.look()
        for store, workers in zip(self._stores[1:], there, strict=True):
            for worker in workers - roster.workers.keys():
                store.run("leave", worker=worker)
            if self.worker in roster.workers.keys() - workers:
                store.apply([Announce(self.worker, tuple(sorted(roster.workers[self.worker].topics)))])
        self._swept = roster.version

    def _say(self, behind: int, topics: Collection[str]) -> int | None:
        if self._ear is None or self._moved:
            self._connect()
        said = {"worker": self.worker, "behind": behind, "obeyed": self._stopped}
        known = self._presence.known.version.decode()
        _, firsts, _, *answer = self._store.run("beat", **said, known=known, topics=list(topics))
        roster, self._pauses = self._presence.learn(answer), answer[1]
        dues = [score(due) for due in firsts if due is not None]
        self._beats += 1
        silence = any(roster.silent(seen) > _QUIET for seen in roster.workers.values())
        if len(self._stores) > 1 and (silence or self._beats % _LOOKS == 0):  # a query to each of the others
            paused = {topic.name for topic in self._store.ask(ListTopics()) if topic.paused}
            asked = GetNextDues([topic for topic in topics if topic not in paused])
            dues += [due for store in self._stores[1:] for due in store.ask(asked).values()]
        if self._pauses != self._read:
            self._rung = True  # the bell may have been lost
        self._tell(roster)
        return min(dues, default=None)

    def ring(self, worker: str) -> None:
        if not self._over:
            with suppress(StoreError):
                self._store.call(b"PUBLISH", self._store.bell_of(worker), b"r")

    def quiet(self) -> None:
        self._stopped = self._read
        if not self._over:
            self._say(self._behind or 0, ())

    # ---- what it hears ----------------------------------------------------------------------------------------------

    def hints(self) -> Hints:
        self._open()
        self._catch_up()
        if self._paused:
            self._pauses = int(self._store.call(b"GET", self._store.server.prefix + b":y") or 0)
            self._paused = False
        roster = self._presence.roster()
        told, self._hints = self._hints, []
        reload, self._reload = self._reload or self._pauses != self._read, True  # stays True if the store is away now
        mine = self._mine(told, roster)
        self._read, self._reload = self._pauses, False
        return Hints(mine, reload)

    def _catch_up(self) -> None:
        """Read all messages sent until now: a token that is published now comes behind them, from each node."""
        ear, token = self._ear, b"t" + token_hex(4).encode()
        if ear is None:
            return
        place = self._store.server.place
        ways = len(self._stores) if place.nodes else 1  # one server keeps the order of its messages
        until, self._awaited = time.monotonic() + place.timeout, [token] * ways
        for store, bell in zip(self._stores[:ways], self._bells[1:], strict=False):
            store.call(b"PUBLISH", bell, token)
        with suppress(StoreAway):
            while self._awaited and not self._moved and (left := until - time.monotonic()) > 0:
                self._take_in(ear.heard(left))
        if self._awaited:
            self._listen_by(None)

    def _take_in(self, messages: Sequence[tuple[bytes, bytes]]) -> None:
        for bell, message in messages:
            kind = message[:1]
            if kind == b"m":
                self._presence.stale = True
            elif kind == b"p":
                self._paused = True  # maybe in another database: channels have none
            elif kind == b"h":
                self._hints.append((self._bells.index(bell) - 1, message))
            elif message in self._awaited:
                self._awaited.remove(message)

    def _mine(self, told: Sequence[tuple[int, bytes]], roster: Roster) -> list[Due]:
        """Return the jobs of the latest hints that wait, are this worker's, and lie within its horizon."""
        tables: dict[str, tuple[str, ...]] = {}
        latest: dict[tuple[int, bytes], tuple[str, int, int]] = {}
        for place, message in told:
            with suppress(ValueError, OverflowError, struct.error):  # others may publish as well
                behind = 5 + int.from_bytes(message[1:5], "big")
                topic = message[5:behind].decode()
                tables[topic] = owners(topic, roster.handling(topic))
                for packed, when, priority in _HINT.iter_unpack(message[behind:]):
                    latest[place, packed] = topic, int(when), priority
        mine: list[dict[int, Due]] = [{} for _ in self._stores]
        for (place, packed), (topic, due, priority) in latest.items():
            if due <= self._horizon and tables[topic] and tables[topic][slice_of(due)] == self.worker:
                id = from_id(packed)
                mine[place][id] = Due(due, self._ids.outer(place, id), topic, priority)
            else:
                self._wasted += 1
        found = []
        for store, dues in zip(self._stores, mine, strict=True):
            states = store.ask(GetStates(list(dues)))
            found += [due for due, state in zip(dues.values(), states, strict=True) if state is State.DELAYED]
        return found

    def _listen(self, seconds: float) -> None:
        ear = self._ear
        messages: list[tuple[bytes, bytes]] = []
        try:
            self._select(seconds, *(() if ear is None else (ear,)))
            messages = ear.heard() if ear is not None else []
        except (StoreAway, ValueError, OSError):
            self._listen_by(None)
        self._take_in(messages)
        self._rung |= bool(messages)

    def _listen_by(self, ear: Connection | None) -> None:
        """Listen on another connection, or on none as it broke. Messages sent meanwhile are lost."""
        if self._ear is not None:
            self._ear.close()
        self._ear = ear
        self._behind = None
        self._read_all()

    def _connect(self) -> None:
        """Connect, and listen to this worker's bells and to the common one."""
        ear = self._store.server.fresh()
        try:
            ear.subscribe(*self._bells)
            messages = ear.heard()  # a selector does not see messages that came with the answer
        except BaseException:
            ear.close()
            raise
        self._listen_by(ear)
        self._moved = False
        self._take_in(messages)
        self._pauses, self._stopped = self._store.run("roster")[3], -1  # another server counts pauses anew
        self._presence.stale = True

    def renew(self) -> None:
        """Read and write all again: the server is another one, or has lost something. From any thread."""
        self._told = self._swept = None
        self._moved = True
        self._behind = None
        self._read_all()
        self.wake()

    # ---- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        if self._closed:
            return
        self._presence.local.pop(self.worker, None)
        self.let_go()
        if not self._presence.closed:
            with suppress(StoreError):  # the first store that is away ends it: nobody waits for each
                for store in self._stores:
                    store.run("leave", worker=self.worker)
            self._presence.stale = True

    def let_go(self) -> None:
        """Close the connection: in a forked child it is the parent's."""
        self._closed = True
        if self._ear is not None:
            self._ear.close()
        self.__del__()

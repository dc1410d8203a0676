"""The store on a Redis or Valkey server, for any number of processes on any number of hosts."""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from secrets import token_hex
from typing import Any, Final

from ..._errors import NotAStore, StoreAway, StoreBusy, StoreClosed, StoreError
from ...clock import Clock
from ...jobs import commands as c
from ...jobs.queries import GetNextLease, ListWorkers
from ..checks import sound
from ..contract import Durability, intact
from ..group_commit import Commit, GroupCommit
from ..notifier import Member, Notifier, workers
from ..schema import Schema
from ..server import ServerClock
from ..verify import Finding
from .commands import Request
from .connection import Connection, as_json, encoded
from .notifier import RedisNotifier
from .pieces import by_pieces
from .place import Place
from .presence import SILENT, Presence, Roster
from .queries import PIECE, Queries
from .server import CLOSED, Server
from .verify import verify

__all__ = ["FORMAT", "SEVERAL", "RedisStore"]

FORMAT: Final = re.compile(rb"pywheel ([0-9]+) ?([0-9]*)")
SEVERAL: Final = b"pywheel 1 in "
_SCHEMA: Final = Schema(1, 1)
_LEASES: Final = {"roster": 1, "lease": 1, "beat": 3}
"""Where the answers of functions say when the first lease is over."""
_PIECES: Final = 40  # of leases, ended before a reserve
_MUCH: Final = 100  # jobs that a call of its own is for
_KNOWN: Final = 1.5  # seconds for which the first lease is known, after an answer that said so
_AGAIN: Final = 0.05  # seconds between tries to learn what became of a request
_LOOK: Final = (0.005, 0.05)  # seconds between looks at who is quiet: the first, the longest
_REMEMBERED: Final = 300.0  # seconds for which the server surely knows what this client asked last


class RedisStore(Queries):
    """Jobs on a server. Each step is one function: all of it happens, or nothing, and others see it so.

    What is durable when `apply` returns says the server's configuration: `durability`.
    """

    durability: Durability = "memory"

    def __init__(
        self, place: Place, *, clock: Clock | None = None, create: bool = True, presence: Presence | None = None
    ) -> None:
        """`presence` is that of the first of several stores, for the others."""
        self.url, self.address = place.address.shown, place.address
        self._given = clock
        self._heard = ServerClock()
        self.clock = clock or self._heard
        self._create = create
        self._limit = place.timeout
        self._forked = False
        self._renewing = threading.RLock()
        self._begin()
        self.presence = presence or Presence(self.clock)
        self._lease: tuple[float, int | None] = (-_KNOWN, None)  # when it was asked, and when the first lease is over
        self._grouped: set[str] = set()  # topics with limits by key whose groups are known to be whole
        self._group_commit = GroupCommit(self._transact, _separate, 2 * place.timeout)
        self.server = Server(place, self._met)
        try:
            self.server.give(self.server.fresh())
        except BaseException:
            self.server.close()
            raise
        _STORES.add(self)

    def __repr__(self) -> str:
        return f"<RedisStore {self.url}>"

    def _begin(self) -> None:
        """Begin to ask, in this process."""
        self._client = token_hex(8).encode()
        self._numbers = count(1)
        self._asked: tuple[float, int] = (-_REMEMBERED, 0)  # when the last request was answered, and its number

    def _met(self, connection: Connection, run_id: str) -> None:
        """Open the store on a server that was not met before, or that was started anew."""
        self.durability = self.server.durability(connection)
        asked = {"version": _SCHEMA.version, "least": _SCHEMA.least, "create": self._create, "run_id": run_id}
        found = connection.run("open", self.server.prefix, 2, encoded((b"", as_json(asked))))[1]
        server = self.server.place.server
        if not found:
            raise NotAStore(f"there is no store at {server}: put a job first, or give the right address")
        if found.startswith(SEVERAL):
            several = found[len(SEVERAL) :].decode()
            raise NotAStore(f"the jobs at {server} are in {several} stores: write ?stores={several}")
        parts = FORMAT.fullmatch(found)
        if parts is None:
            raise NotAStore(f"{server} has other data under this prefix: give another one, ?prefix=name")
        Schema(int(parts[1]), int(parts[2] or parts[1])).refuse(_SCHEMA.version, f"the store at {server}")
        self._create = True  # should all be lost, it begins anew
        self._asked = (-_REMEMBERED, 0)
        self._lease = (-_KNOWN, None)
        self._grouped.clear()
        self.presence.renewed()

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _now(self) -> bytes:
        """Return the time that functions go by; empty for the server's."""
        return b"" if self._given is None else b"%d" % self._given.wall()

    def run(self, function: str, *binary: bytes, **asked: Any) -> Any:
        """Return what a function answers: one that may be called twice."""
        self._open()
        sent = time.monotonic()
        answer = self.server.run(function, (self._now(), as_json(asked), *binary))
        self._heard.heard(answer[0] / 1e6, sent, time.monotonic())
        if function in _LEASES:
            self._learn_lease(sent, answer[_LEASES[function]])
        return answer

    def call(self, *parts: bytes) -> Any:
        """Return what the server answers to a plain command."""
        self._open()
        connection, _ = self.server.take()
        try:
            return connection.call(*parts)
        finally:
            self.server.give(connection)

    def _learn_lease(self, sent: float, first: int | None) -> None:
        if sent >= self._lease[0]:
            self._lease = (sent, first)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract. Threads that come meanwhile share one call."""
        self._open()
        return sound(commands, self._by_pieces) if commands else []

    def _by_pieces(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        for command in commands:
            if isinstance(command, c.Reserve | c.Claim):
                limits = command.policy.limits
                if limits is not None and limits.per is not None and command.topic not in self._grouped:
                    self._put_into_groups(command.topic)
        if any(type(command) is c.Reserve for command in commands):
            self._end_lost()
        return by_pieces(self._apply_piece, commands)

    def _apply_piece(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands by one call: beside those of others, unless they alone are much."""
        if len(commands) < _MUCH and all(getattr(command, "limit", 0) < _MUCH for command in commands):
            return self._group_commit.apply(commands)
        until = time.monotonic() + self._limit
        return self._group_commit.alone(self._transact, commands, until, None)

    def _put_into_groups(self, topic: str) -> None:
        """Have what runs of a topic stand in its groups, by which a limit by key counts, piece by piece."""
        while self.run("group", topic=topic)[1] != b"0":
            pass
        self._grouped.add(topic)

    def _end_lost(self) -> None:
        """End leases that are over, piece by piece: what was lost is reserved in its order, among all that is due."""
        for _ in range(_PIECES):
            lease = self.ask(GetNextLease())
            if lease is None or lease > self.clock.wall():
                return
            [expired] = intact(self._group_commit.apply([c.Expire(PIECE)]))
            if expired.ended < PIECE:
                return

    def _transact(self, commands: Sequence[c.Command[Any]], until: float, commit: Commit | None) -> list[Any]:
        """Apply the commands of one or more callers."""
        self._open()
        request = Request(commands)
        if not request.count:  # every outcome is known
            return request.outcomes(())
        number = next(self._numbers)
        head = encoded((self._now(), self._client, b"%d" % number))
        asked = request.function, self.server.prefix, 3 + request.count, head + b"".join(request.arguments)
        try:
            if commit is None:
                return request.outcomes(self._ask(number, asked, until))
            return self._for_several(commit, lambda: request.outcomes(self._ask(number, asked, until)))
        finally:
            if request.announces:
                self.presence.stale = True
            if type(commands[-1]) is c.Claim:  # the last of a worker's step
                self.presence.claimed()

    def _for_several(self, commit: Commit, ask: Callable[[], list[Any]]) -> list[Any]:
        """Ask for several callers, and note for them what came of it."""
        commit.stored = None
        try:
            outcomes = ask()
        except StoreError:
            commit.stored = False
            raise
        except BaseException:  # an interrupt: the others are to learn what happened
            with suppress(StoreError):
                commit.outcomes = ask()
                commit.stored = True
            raise
        commit.outcomes, commit.stored = outcomes, True
        return outcomes

    def _ask(self, number: int, asked: tuple[str, bytes, int, bytes], until: float) -> Any:
        """Return the answer to a request, which happens once, however often it must be sent.

        StoreAway if nothing was sent, or if it is not known by the time limit what became of it.
        """
        limit = min(time.monotonic() + self._limit, until)
        in_doubt = False
        while True:
            try:
                connection, kept = self.server.take()
            except (StoreAway, StoreBusy) as error:
                if not in_doubt:
                    raise
                self._wait_in_doubt(error, limit)
                continue
            sent = time.monotonic()
            try:
                answer = connection.run(*asked)
            except StoreAway as error:
                in_doubt = True
                if not kept or sent >= limit:
                    self._wait_in_doubt(error, limit)
                continue
            finally:
                self.server.give(connection)
            self._take_in(answer, sent, number)
            return answer[2]

    def _wait_in_doubt(self, error: StoreAway | StoreBusy, limit: float) -> None:
        if time.monotonic() + _AGAIN >= limit:
            unknown = StoreAway(f"{error}; whether what was asked last has happened is not known")
            unknown.seconds = error.seconds if isinstance(error, StoreAway) else 0.0
            raise unknown from None
        time.sleep(_AGAIN)

    def _take_in(self, answer: Any, sent: float, number: int) -> None:
        """Take in what an answer says beside the outcomes: the time, the first lease, and what the server remembers."""
        now = time.monotonic()
        self._heard.heard(answer[0] / 1e6, sent, now)
        if len(answer) > 3:
            self._learn_lease(sent, answer[3] if answer[3] >= 0 else None)
        when, last = self._asked
        if answer[1] < last and now - when < _REMEMBERED:
            self.presence.renewed()  # it has forgotten what it answered: it lost the end of what was written
        self._asked = (now, number)

    def nonce(self, nonce: str, kept: Sequence[int | str] | None = None) -> list[Any] | None:
        """Return what is kept of the put that had a nonce, or None; then note this, if it is given."""
        answer: list[Any] = self.run("nonce", nonce=nonce, kept=kept)
        return answer[1] if len(answer) > 1 else None

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _next_lease(self, _: GetNextLease) -> int | None:
        """Return when some lease may be over. No query within a second and a half of an answer that said so."""
        self._open()
        if time.monotonic() - self._lease[0] >= _KNOWN:
            self.run("lease")
        return self._lease[1]

    # ---- workers ----------------------------------------------------------------------------------------------------

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        self._open()
        return RedisNotifier((self,), name)

    def roster(self) -> Roster:
        """Return who is there, as of now."""
        _, _, version, _, now, beats, members = self.run("roster")
        return self.presence.learn(version, now, beats, members)

    def _workers(self, _: ListWorkers) -> list[Member]:
        """Return all workers that have announced topics, by name."""
        return workers(self.roster().members())

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return once nothing starts any more that was claimed before the pause; False after so long, or if resumed."""
        limit = time.monotonic() + seconds
        pause, longest = _LOOK
        while True:
            quiet = self.run("quiet", topic=topic, silence=int(SILENT * 1000))[1]
            left = limit - time.monotonic()
            if quiet or left <= 0:
                return bool(quiet > 0)
            time.sleep(min(pause, left))
            pause = min(2 * pause, longest)

    # ---- life -------------------------------------------------------------------------------------------------------

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with what is stored. Hundreds of jobs a call: others get their turn in between.

        NotAStore: the server is no longer told to keep all it has.
        """
        self._open()
        self.server.look()
        return verify(self, repair=repair)

    def close(self) -> None:
        """Close the connections, after what is under way. Idempotent; all else raises StoreClosed then."""
        if self.server.over:
            return
        self.server.over = True
        with suppress(StoreError):  # busy: then what is under way closes its connection when it ends
            self._group_commit.alone(self.server.close)
        self.server.close()
        self.presence.close()

    def _open(self) -> None:
        """Raise StoreClosed if it is; in a forked child, begin anew."""
        if self.server.over:
            raise StoreClosed(CLOSED)
        if self._forked:
            with self._renewing:
                if self._forked:
                    self._begin()
                    self._forked = False

    def _after_fork(self) -> None:
        self._forked = True
        self._renewing = threading.RLock()
        self._group_commit.renew()
        self._heard = ServerClock()
        self.clock = self._given or self._heard
        self.server.after_fork()
        self.presence.after_fork(self.clock)


_STORES: Final[weakref.WeakSet[RedisStore]] = weakref.WeakSet()


def _separate(error: BaseException) -> bool:
    """Whether one caller's commands may be the reason: a value that cannot be sent."""
    return isinstance(error, ValueError | TypeError | OverflowError) and not isinstance(error, StoreError)


def _after_fork() -> None:
    for store in list(_STORES):
        store._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

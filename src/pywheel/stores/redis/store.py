"""The store on a Redis or Valkey server, for any number of processes on any number of hosts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import count
from secrets import token_hex
from typing import Any, Final, TypeVar

from ..._errors import (
    NotAStore,
    OutcomeUnknown,
    StoreAway,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreTooNew,
)
from ..._forks import renew_after_fork
from ...clock import Clock
from ...jobs import commands as c
from ...jobs.queries import GetNextLease, Query
from ..address import Address
from ..checks import sound
from ..contract import CLOSED, Durability, Store, intact
from ..group_commit import Commit, GroupCommit
from ..notifier import Notifier
from ..partitions import Inner, SeveralStore
from ..schema import Schema
from ..server import ServerClock
from ..verify import Finding
from .commands import PIECE, Request, by_pieces
from .connection import Connection, Emptied, as_json, encoded, given
from .notifier import Presence, RedisNotifier
from .place import Place, place
from .queries import ANSWERS
from .server import Server, durability
from .verify import verify

R = TypeVar("R")
_FORMAT: Final = re.compile(rb"pywheel ([0-9]+) ?([0-9]*)")
_SEVERAL: Final = b"pywheel 1 in "
_SCHEMA: Final = Schema(1, 1)
_LEASES: Final = {"roster": 1, "lease": 1, "beat": 2}
"""The place of the end of the first lease in the answers of functions."""
_PIECES: Final = 40  # of leases, ended before a reserve
_MUCH: Final = 100  # jobs for which commands get a call of their own
_KNOWN: Final = 1.5  # seconds for which an answer's first lease is used
_AGAIN: Final = 0.05  # seconds between tries to learn the fate of a request
_REMEMBERED: Final = 300.0  # seconds for which the server is sure to remember this client's last request


class RedisStore(Inner):
    """Jobs on a server. Each step is one function: all of it happens, or nothing, and others see it so.

    The server's configuration decides how durable a change is when `apply` returns: `durability`.
    """

    durability: Durability = "memory"

    def __init__(
        self,
        place: Place,
        *,
        clock: Clock | None = None,
        create: bool = True,
        presence: Presence | None = None,
        renew: Callable[[], None] | None = None,
    ) -> None:
        """`presence` is that of the first of several stores, for the others.

        `renew` is called when the store is met on another server, or on one that was started anew.
        """
        self.url, self.address = place.address.shown, place.address
        self._given = clock
        self._heard = ServerClock()
        self.clock = clock or self._heard
        self._create = create
        self._known = False  # whether the store was met before
        self._renew = renew
        self._limit = place.timeout
        self._begin()
        self.presence = presence or Presence(self)
        self._lease: tuple[float, int | None] = (-_KNOWN, None)  # when it was asked, and the end of the first lease
        self._group_commit = GroupCommit(self._transact, _separate, 2 * place.timeout)
        self.server = Server(place, self._met)
        try:
            self.server.give(self.server.fresh())
        except BaseException:
            self.server.close()
            raise
        renew_after_fork(self)

    def _begin(self) -> None:
        """Take a new identity as a client, in this process."""
        self._client = token_hex(8).encode()
        self._numbers = count(1)
        self._asked: tuple[float, int] = (-_REMEMBERED, 0)  # when the last request was answered, and its number

    def _met(self, connection: Connection, run_id: str) -> None:
        """Open the store on a server that is new, or was started anew."""
        self.durability = durability(connection)
        asked = {"version": _SCHEMA.version, "least": _SCHEMA.least, "create": self._create, "run_id": run_id}
        asked["known"] = self._known
        found = connection.run("open", self.server.prefix, 2, encoded((b"", as_json(asked))))[1]
        server = self.server.place.server
        parts = _FORMAT.fullmatch(found)
        if parts is None:
            raise _not_so(server, found, 1)
        Schema(int(parts[1]), int(parts[2] or parts[1])).refuse(_SCHEMA.version, f"the store at {server}")
        self._create = True  # if the server loses everything, the store begins anew
        if self._known and self._renew is not None:
            self._renew()
        self._known = True
        self._asked = (-_REMEMBERED, 0)
        self._lease = (-_KNOWN, None)
        self.presence.renewed()

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _now(self) -> bytes:
        """Return the time for the functions; empty for the server's."""
        return b"" if self._given is None else b"%d" % self._given.wall()

    def run(self, function: str, *binary: bytes, **asked: Any) -> Any:
        """Return a function's answer. The function may be called twice."""
        self._open()
        sent = time.monotonic()
        arguments = encoded((self._now(), as_json(given(**asked)), *binary))
        call = function, self.server.prefix, 2 + len(binary), arguments
        answer = self.server.ask(lambda connection: connection.run(*call))
        self._heard.heard(answer[0] / 1e6, sent, time.monotonic())
        if function in _LEASES:
            self._learn_lease(sent, answer[_LEASES[function]])
        return answer

    def call(self, *parts: bytes) -> Any:
        """Return the server's answer to a plain command. The command may be sent twice."""
        self._open()
        return self.server.ask(lambda connection: connection.call(*parts))

    def _learn_lease(self, sent: float, first: int | None) -> None:
        if sent >= self._lease[0]:
            self._lease = (sent, first)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order; see the contract. Threads that call meanwhile share one call."""
        self._open()
        return sound(commands, self._by_pieces) if commands else []

    def _by_pieces(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        if len(commands) == 1 and type(commands[0]) is c.Put:  # the usual put takes the short way
            return self._group_commit.apply(commands)
        if any(type(command) is c.Reserve for command in commands):
            self._end_lost()
        return by_pieces(self._apply_piece, commands)

    def _apply_piece(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands by one call: together with those of others, unless they are many."""
        if len(commands) < _MUCH and all(getattr(command, "limit", 0) < _MUCH for command in commands):
            return self._group_commit.apply(commands)
        until = time.monotonic() + self._limit
        return self._group_commit.alone(self._transact, commands, until, None)

    def _end_lost(self) -> None:
        """End lapsed leases, piece by piece: a reserve then finds their jobs in order, among all due ones."""
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
        number = next(self._numbers)
        head = encoded((self._now(), self._client, b"%d" % number))
        asked = request.function, self.server.prefix, 3 + request.count, head + b"".join(request.arguments)

        def ask() -> list[Any]:
            outcomes = request.outcomes(self._ask(number, asked, until))
            if commit is not None:
                commit.outcomes, commit.stored = outcomes, True
            return outcomes

        try:
            if commit is not None:
                commit.stored = None
            return ask()
        except BaseException as error:
            if commit is not None and not isinstance(error, StoreError):  # an interrupt: the others still need outcomes
                with suppress(StoreError):
                    ask()
            raise
        finally:
            if request.announces:
                self.presence.stale = True
            if type(commands[-1]) is c.Claim:  # the last command of a worker's step
                self.presence.claimed()

    def _ask(self, number: int, asked: tuple[str, bytes, int, bytes], until: float) -> Any:
        """Return the answer to a request, which happens once, however often it must be sent.

        StoreAway if nothing was sent, or if the fate of the request is unknown at the time limit. No other error says
        anything of what was sent before: the server may refuse all by now.
        """
        limit = min(time.monotonic() + self._limit, until)
        in_doubt = False
        while True:
            try:
                connection, kept = self.server.take()
            except StoreError as error:
                if not in_doubt:
                    raise
                self._wait_in_doubt(error, 0 if isinstance(error, StoreClosed) else limit)
                continue
            sent = time.monotonic()
            try:
                answer = connection.run(*asked)
            except Emptied as error:
                self.server.renew()
                connection.close()  # the next one opens the store
                self._wait_in_doubt(error, limit)
                continue
            except StoreError as error:
                away = isinstance(error, StoreAway)
                if not (in_doubt or away):
                    raise
                in_doubt = True
                if not (kept and away) or time.monotonic() >= limit:
                    self._wait_in_doubt(error, limit)
                continue
            finally:
                self.server.give(connection)
            self._take_in(answer, sent, number)
            return answer[2]

    def _wait_in_doubt(self, error: StoreError, limit: float) -> None:
        if time.monotonic() + _AGAIN >= limit:
            unknown = OutcomeUnknown(f"{error}; whether what was asked last has happened is not known")
            unknown.seconds = error.seconds if isinstance(error, StoreAway) else 0.0
            raise unknown from None
        time.sleep(_AGAIN)

    def _take_in(self, answer: Any, sent: float, number: int) -> None:
        """Take in the rest of an answer: the time, the first lease, and the last request that the server remembers."""
        now = time.monotonic()
        self._heard.heard(answer[0] / 1e6, sent, now)
        if len(answer) > 3:
            self._learn_lease(sent, answer[3] if answer[3] >= 0 else None)
        when, last = self._asked
        if answer[1] < last and now - when < _REMEMBERED:
            self.presence.renewed()  # the server has forgotten an answer: it lost its latest writes, or was emptied
            self.server.renew()
        self._asked = (now, number)

    def nonce(self, nonce: str, kept: Sequence[int | str] | None = None) -> list[Any] | None:
        """Return the record of the put that had a nonce, or None; in that case store `kept`, if given."""
        answer: list[Any] = self.run("nonce", nonce=nonce, kept=kept)
        return answer[1] if len(answer) > 1 else None

    def forget(self, nonce: str) -> None:
        """Delete the record of the put that had a nonce."""
        self.run("nonce", nonce=nonce, forget=True)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def ask(self, query: Query[R]) -> R:
        """Return the answer to a query; see the contract."""
        if type(query) not in ANSWERS:
            raise TypeError(f"a store takes queries here, not {type(query).__name__}")
        self._open()
        return ANSWERS[type(query)](self, query)  # type: ignore[no-any-return]  # what the class of the query says

    def next_lease(self) -> int | None:
        """Return the earliest end of a lease. No query within a second and a half of an answer that had it."""
        if time.monotonic() - self._lease[0] >= _KNOWN:
            self.run("lease")
        return self._lease[1]

    # ---- workers ----------------------------------------------------------------------------------------------------

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier."""
        self._open()
        return RedisNotifier((self,), name)

    def bell_of(self, worker: str) -> bytes:
        """Return the channel that a worker listens to."""
        return self.server.prefix + b":bell:" + worker.encode()

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return True once no job claimed before the pause can start, False after `seconds` or if resumed."""
        self._open()
        return self.presence.quiet(topic, seconds)

    # ---- life -------------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return the server's kind and version, and the memory that all its data takes. Learn `durability` anew."""
        connection = self.server.fresh()
        try:
            facts = connection.facts
            self.durability = durability(connection)
        finally:
            self.server.give(connection)
        return {
            "server": facts.get("server_name", "redis"),
            "version": facts.get("valkey_version", facts.get("redis_version")),  # Valkey has both: its own, and Redis's
            "memory_bytes": int(facts.get("used_memory", 0)),
            "maxmemory_bytes": int(facts.get("maxmemory", 0)),
            "prefix": self.server.place.prefix,
        }

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return the faults of the stored data. Hundreds of jobs a call: others get their turn in between.

        NotAStore: the server may now throw data away.
        """
        self._open()
        self.server.give(self.server.fresh())  # a new connection checks the server
        return verify(self, repair=repair)

    def close(self) -> None:
        """Close the connections, after the calls under way. Idempotent; all else then raises StoreClosed."""
        if self.server.over:
            return
        self.server.over = True
        with suppress(StoreError):  # busy: then the call under way closes its connection at its end
            self._group_commit.alone(self.server.close)
        self.server.close()
        self.presence.close()

    def _open(self) -> None:
        if self.server.over:
            raise StoreClosed(CLOSED)

    def _after_fork(self) -> None:
        self._begin()
        self._group_commit.renew()
        self._heard = ServerClock()
        self.clock = self._given or self._heard
        self.server.forget()
        self.presence.after_fork()


def _separate(error: BaseException) -> bool:
    """Whether one caller's commands may have caused an error: a value that cannot be sent."""
    return isinstance(error, ValueError | TypeError | OverflowError) and not isinstance(error, StoreError)


# ---- several stores -------------------------------------------------------------------------------------------------


class RedisStores(SeveralStore):
    """Stores with prefixes of their own, in a cluster on any of its masters. Their common prefix has their number."""

    def __init__(self, place: Place, *, clock: Clock | None = None, create: bool = True) -> None:
        self.url, self.address, self._prefix = place.address.shown, place.address, place.prefix
        _note_number(place, create=create)
        stores: list[RedisStore] = []
        with ExitStack() as opened:
            for number in range(place.stores):
                presence = stores[0].presence if stores else None
                store = RedisStore(place.part(number), clock=clock, presence=presence, renew=partial(_renew, place))
                stores.append(opened.enter_context(store))
            opened.pop_all()
        super().__init__(stores)
        self._stores = stores
        renew_after_fork(self)

    def about(self) -> dict[str, Any]:
        """Return facts about the server of the first store, and the number of stores. All learn `durability` anew."""
        [found] = intact(self._together([store.about for store in self.stores])[:1])
        return {**found, "stores": len(self.stores), "prefix": self._prefix}

    def notifier(self, name: str) -> Notifier:
        """Return a new notifier: one connection hears all stores."""
        return RedisNotifier(self._stores, name)


def _note_number(place: Place, *, create: bool) -> None:
    """Note the number of several stores under their common prefix. StoreError if it is another one."""
    server = Server(place, lambda _, __: None)
    key, noted = server.prefix + b":store", _SEVERAL + b"%d" % place.stores
    with closing(server.fresh()) as connection:
        found = connection.call(b"GET", key)  # a server without memory takes no SET, though it changes nothing
        if create and found is None:
            found = connection.call(b"SET", key, noted, b"NX", b"GET")
    if found != noted and not (create and found is None):
        raise _not_so(place.server, found, place.stores)


def _renew(place: Place) -> None:
    """Note the number again, as a server may have lost it: if it is there."""
    with suppress(StoreAway, StoreBusy, StoreFull):
        _note_number(place, create=True)


def _not_so(server: str, found: bytes | None, asked: int) -> StoreError:
    """Return the reason why `asked` stores cannot be opened where another format, or none, was found."""
    if not found:
        return NotAStore(f"there is no store at {server}: put a job first, or give the right address")
    single = _FORMAT.fullmatch(found)
    if single or found.startswith(_SEVERAL):
        number = "1" if single else found[len(_SEVERAL) :].decode()
        return NotAStore(
            f"the number of stores at {server} is {number}, not {asked}: write ?stores={number}, or move the jobs by "
            "pywheel copy, to another prefix"
        )
    if found.startswith(b"pywheel "):
        return StoreTooNew(f"the stores at {server} are of a newer version of pywheel: upgrade pywheel")
    return NotAStore(f"{server} has other data under this prefix: give another one, ?prefix=name")


def open_redis(address: Address, *, clock: Clock | None = None, create: bool = True) -> Store:
    """Open the store, or the stores, at an address."""
    found = place(address)
    kind = RedisStore if found.stores == 1 else RedisStores
    return kind(found, clock=clock, create=create)

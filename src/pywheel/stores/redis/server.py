"""The server behind a store: connections to it, and whether it is still the one that it was."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ..._errors import NotAStore, StoreAway, StoreClosed, StoreReadOnly
from ..contract import Durability
from .cluster import Cluster
from .connection import Connection, encoded
from .place import Place

__all__ = ["CLOSED", "Server"]

CLOSED: Final = "this store is closed: open another one"
_IDLE: Final = 8  # connections that are kept open
_OLDEST: Final = (7, 0)


class Server:
    """Connections, each for one call at a time. From any thread.

    `met(connection, run id)` is called with a new connection to a server that is not the one met last: it was started
    anew, or is another one; before anybody else uses it.
    """

    def __init__(self, place: Place, met: Callable[[Connection, str], None]) -> None:
        self.place = place
        self.prefix = b"{%b}" % place.prefix.encode()
        self.over = False
        self._met = met
        self._run_id = ""
        self._idle: deque[Connection] = deque()
        self._cluster = Cluster(place) if place.nodes else None

    def run(self, function: str, arguments: Sequence[bytes]) -> Any:
        """Return what a function answers. It is asked again, once, where a connection that was kept open had broken."""
        asked = len(arguments), encoded(arguments)
        connection, kept = self.take()
        try:
            return connection.run(function, self.prefix, *asked)
        except StoreAway:
            if not kept:
                raise
        finally:
            self.give(connection)
        connection = self.fresh()
        try:
            return connection.run(function, self.prefix, *asked)
        finally:
            self.give(connection)

    def take(self) -> tuple[Connection, bool]:
        """Return a connection, and whether it was kept open. StoreAway if there is none to be had."""
        if self.over:
            raise StoreClosed(CLOSED)
        try:
            return self._idle.pop(), True
        except IndexError:
            return self.fresh(), False

    def give(self, connection: Connection) -> None:
        """Keep a connection for others, if it is good."""
        if connection.over:
            return
        if self.over or connection.midway or len(self._idle) >= _IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def fresh(self) -> Connection:
        """Return a new connection to a server that can be written to. StoreAway says for how long there was none."""
        if self.over:
            raise StoreClosed(CLOSED)
        cluster = self._cluster
        connection = cluster.connect(self.prefix) if cluster else Connection(self.place)
        self._look(connection)
        self.place.outage.over()
        return connection

    def _look(self, connection: Connection) -> None:
        """See which server it is, and that it may be used."""
        try:
            facts = connection.facts = _facts(connection.call(b"INFO"))
            self._refuse(facts)
            run_id = facts.get("run_id", "")
            if run_id != self._run_id:
                self.forget()
                self._met(connection, run_id)
                self._run_id = run_id
        except BaseException:
            connection.close()
            raise

    def _refuse(self, facts: Mapping[str, str]) -> None:
        if facts.get("role") == "slave":
            if self._cluster:
                raise self.place.outage.away("its node has just become a replica", "wait for the new master")
            raise StoreReadOnly(
                f"{self.place.server} is a replica, and cannot be written to: give the address of its master"
            )
        version = facts.get("redis_version", "0")
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST:
            raise NotAStore(f"{self.place.server} is Redis {version}: pywheel needs 7.0 or later, or Valkey")
        policy = facts.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise NotAStore(
                f"{self.place.server} throws data away when its memory is full (maxmemory-policy {policy}): "
                "set maxmemory-policy to noeviction"
            )

    def look(self) -> None:
        """See anew whether the server may be used: by a new connection. NotAStore: it may throw jobs away."""
        self.give(self.fresh())

    def forget(self) -> None:
        """Drop the connections that were kept open."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Close all connections that nobody uses; the others when they are given back."""
        self.over = True
        self.forget()

    def after_fork(self) -> None:
        """Let go of the connections in a forked child: they are the parent's."""
        self.forget()

    # ---- what it promises -------------------------------------------------------------------------------------------

    def durability(self, connection: Connection) -> Durability:
        """Return what the server promises of what it has answered."""
        if connection.facts.get("aof_enabled") != "1":
            return "memory"
        try:
            answer = connection.call(b"CONFIG", b"GET", b"appendfsync")
        except NotAStore:  # no right to ask: then nothing is promised
            return "memory"
        how = answer[1] if len(answer) > 1 else b""
        return "fsync" if how == b"always" else "everysec" if how == b"everysec" else "memory"


def _facts(text: bytes) -> dict[str, str]:
    """Return what INFO says."""
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}

"""The server behind a store: connections to it, and a check that it is still the same server."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from redis.crc import key_slot

from ..._errors import NotAStore, StoreAway, StoreClosed, StoreError, StoreReadOnly
from ..address import Host
from ..contract import CLOSED, Durability
from .connection import REPLICA, Connection
from .place import Place
from .records import pairs

_IDLE: Final = 8  # connections that are kept open
_OLDEST: Final = (7, 0)
_DURABLE: Final[dict[bytes, Durability]] = {b"always": "fsync", b"everysec": "everysec"}


class Server:
    """Connections, each for one call at a time. Any thread may use it.

    `met(connection, run id)` is called with a new connection if its server was started anew, or is another one than the
    last. Nobody else uses the connection before.
    """

    def __init__(self, place: Place, met: Callable[[Connection, str], None]) -> None:
        self.place = place
        self.prefix = b"{%b}" % place.prefix.encode()
        self.over = False
        self._met = met
        self._run_id = ""
        self._idle: deque[Connection] = deque()
        self._cluster = _Cluster(place) if place.nodes else None

    def ask(self, question: Callable[[Connection], Any]) -> Any:
        """Return the answer on a connection. It is asked again if kept connections turn out to be broken in time."""
        until = time.monotonic() + self.place.timeout
        while True:
            connection, kept = self.take()
            try:
                if kept and connection.demoted():
                    connection.close()  # the address may lead to another server
                    continue
                return question(connection)
            except StoreAway:
                if not kept or time.monotonic() >= until:
                    raise
            finally:
                self.give(connection)

    def take(self) -> tuple[Connection, bool]:
        """Return a connection, and whether it was kept open. StoreAway if none can be had."""
        if self.over:
            raise StoreClosed(CLOSED)
        try:
            return self._idle.pop(), True
        except IndexError:
            return self.fresh(), False

    def give(self, connection: Connection) -> None:
        """Keep a connection for others, if it is good."""
        if connection.over:
            self.forget()  # the other kept connections have broken as well, or lead to a server that is no master now
            return
        self.place.outage.over()
        left = connection.facts.get("run_id", "") != self._run_id  # another server was met meanwhile
        if self.over or left or connection.midway or len(self._idle) >= _IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def fresh(self) -> Connection:
        """Return a new connection to a server that can be written to. StoreAway says how long there was none."""
        if self.over:
            raise StoreClosed(CLOSED)
        cluster = self._cluster
        connection = cluster.connect(self.prefix) if cluster else Connection(self.place)
        try:
            lines = (line.partition(":") for line in connection.call(b"INFO").decode("utf-8", "replace").splitlines())
            facts = connection.facts = {name: value for name, colon, value in lines if colon}
            self._refuse(facts)
            run_id = facts.get("run_id", "")
            if run_id != self._run_id:
                self.forget()
                self._met(connection, run_id)
                self._run_id = run_id
        except BaseException:
            connection.close()
            raise
        self.place.outage.over()
        return connection

    def _refuse(self, facts: Mapping[str, str]) -> None:
        """Raise the reason why the server may not be used, if there is one."""
        if facts.get("role") == "slave":
            if self._cluster:
                raise self.place.outage.away("its node has just become a replica", "wait for the new master")
            raise StoreReadOnly(f"{self.place.server} {REPLICA}")
        version = facts.get("redis_version", "0")
        if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST:
            raise NotAStore(f"{self.place.server} is Redis {version}: pywheel needs 7.0 or later, or Valkey")
        policy = facts.get("maxmemory_policy", "noeviction")
        if policy != "noeviction":
            raise NotAStore(
                f"{self.place.server} throws data away when its memory is full (maxmemory-policy {policy}): "
                "set maxmemory-policy to noeviction"
            )

    def forget(self) -> None:
        """Drop the connections that were kept open: also in a forked child, as they are the parent's."""
        while self._idle:
            self._idle.pop().close()

    def renew(self) -> None:
        """Meet the server anew by the next call: it has lost something."""
        self._run_id = ""
        self.forget()

    def close(self) -> None:
        """Close all idle connections; the others when they are given back."""
        self.over = True
        self.forget()


def durability(connection: Connection) -> Durability:
    """Return how durable a server's answered writes are."""
    if connection.facts.get("aof_enabled") != "1":
        return "memory"
    try:
        answer = connection.call(b"CONFIG", b"GET", b"appendfsync", b"no-appendfsync-on-rewrite")
    except StoreAway:
        raise
    except StoreError:  # no right to ask, or the command has another name: assume the least
        return "memory"
    found: dict[bytes, bytes] = dict(pairs(answer))
    if found.get(b"no-appendfsync-on-rewrite") == b"yes":  # a rewrite or a snapshot may last for minutes
        return "memory"
    return _DURABLE.get(found.get(b"appendfsync", b""), "memory")


class _Cluster:
    """The known nodes, the last ones to answer first. Any thread may use it: the tuple is replaced at once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._nodes = place.nodes

    def connect(self, key: bytes) -> Connection:
        """Return a new connection to the master that has a key. StoreAway if there is none, or no node answers."""
        failed: list[Host] = []
        for node in self._nodes:
            try:
                connection = Connection(self._place.at(node))
            except StoreAway as error:
                failed.append(node)
                away = error
                continue
            try:
                return self._from(connection, node, key, failed)
            except StoreAway:  # the master does not answer: next time another node may know a new one
                self._nodes = (*(other for other in self._nodes if other != node), node)
                raise
        raise away

    def _from(self, connection: Connection, node: Host, key: bytes, failed: list[Host]) -> Connection:
        """Ask a node for the key's master, and note the nodes; keep the connection if the node is the master."""
        try:
            slots = connection.call(b"CLUSTER", b"SLOTS")
        except BaseException:
            connection.close()
            raise
        found: dict[Host, None] = {node: None}
        master: Host | None = None
        for first, last, *servers in slots:
            hosts = [Host(name.decode() if name and name != b"?" else node.name, port) for name, port, *_ in servers]
            found.update(dict.fromkeys(hosts))
            if first <= key_slot(key) <= last:
                master = hosts[0]
        found.update(dict.fromkeys(self._place.nodes))
        self._nodes = tuple(sorted(found, key=failed.__contains__))
        if master == node:
            return connection
        connection.close()
        if master is None:
            raise self._place.outage.away("no node of the cluster has its slot", "see CLUSTER INFO")
        return Connection(self._place.at(master))

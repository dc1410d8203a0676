"""Which node of a cluster has a store, as any node that answers says."""

from __future__ import annotations

from typing import Any

from redis.crc import key_slot

from ..._errors import StoreAway
from ..address import Host
from .connection import Connection
from .place import Place

__all__ = ["Cluster"]


class Cluster:
    """The nodes that are known, those that answered last first. From any thread: what is known is replaced at once."""

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
            except StoreAway:  # the master does not answer: perhaps another node knows a new one, the next time
                self._nodes = (*(other for other in self._nodes if other != node), node)
                raise
        raise away

    def _from(self, connection: Connection, node: Host, key: bytes, failed: list[Host]) -> Connection:
        """Ask a node who has the key; keep the connection if it is that one."""
        try:
            slots = connection.call(b"CLUSTER", b"SLOTS")
            master = self._learn(slots, node, key_slot(key), failed)
        except BaseException:
            connection.close()
            raise
        if master == node:
            return connection
        connection.close()
        return Connection(self._place.at(master))

    def _learn(self, slots: Any, node: Host, slot: int, failed: list[Host]) -> Host:
        """Note which nodes there are; return the master that has a slot."""
        found: dict[Host, None] = {node: None}
        master = None
        for first, last, *servers in slots:
            hosts = [Host(name.decode() if name and name != b"?" else node.name, port) for name, port, *_ in servers]
            found.update(dict.fromkeys(hosts))
            if first <= slot <= last:
                master = hosts[0]
        found.update(dict.fromkeys(self._place.nodes))
        there = [host for host in found if host not in failed]
        self._nodes = (*there, *(host for host in found if host in failed))
        if master is None:
            raise self._place.outage.away("no node of the cluster has its slot", "see CLUSTER INFO")
        return master

"""A cluster of Redis: three masters that share the slots, and on request a replica of each."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from urllib.parse import urlencode

from redis.crc import key_slot

from tests.jobs.waiting import until
from tests.ports import reserved_ports
from tests.stores.server import Missing, find
from tests.stores.servers import Redis

__all__ = ["Cluster"]

MASTERS = 3
SILENCE = 5_000  # ms after which a node with a replica is taken for dead
NEVER = 3_600_000
PATIENCE = 60.0  # seconds


class Cluster:
    """Nodes, each a server of the tests; made by `with`."""

    def __init__(self, *, replicas=0, fsync=False):
        try:
            self.client_program = find("redis-cli", "redis-tools")
        except Missing:
            self.client_program = find("valkey-cli", "valkey-tools")
        self.replicas = replicas
        self.nodes = []
        self._fsync = fsync
        self._numbers = itertools.count(1)

    def __enter__(self):
        try:
            ports = iter(reserved_ports(2 * MASTERS * (1 + self.replicas)))
            for port, bus in zip(ports, ports, strict=True):
                self.nodes.append(self._node(port, bus))
            self._cli("create", *map(self._place, self.nodes), "--cluster-replicas", self.replicas, "--cluster-yes")
            until(lambda: all(self._sound(node) for node in self.nodes))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for node in self.nodes:
            node.close()

    def _node(self, port, bus):
        settings = {
            "port": port,
            "bind": "127.0.0.1",
            "cluster-enabled": "yes",
            "cluster-port": bus,
            "cluster-node-timeout": SILENCE if self.replicas else NEVER,
            "cluster-replica-validity-factor": 0,
        }
        node = Redis(fsync=self._fsync, settings=settings)
        try:
            return node.start()
        except BaseException:
            node.close()
            raise

    @staticmethod
    def _place(node):
        return f"127.0.0.1:{node.settings['port']}"

    def _cli(self, *arguments):
        command = [self.client_program, "--cluster", *map(str, arguments)]
        made = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
        if made.returncode:
            raise RuntimeError(f"{command}:\n{made.stdout}{made.stderr}")

    def _sound(self, node):
        """Whether a node knows all slots, and all the others; and replicas have caught up."""
        with node.connect() as client:
            info = client.execute_command("CLUSTER INFO")
            info = info if isinstance(info, dict) else dict(line.split(":") for line in info.decode().split())
            replication = client.info("replication")
            linked = replication["role"] == "master" or replication["master_link_status"] == "up"
            whole = replication["role"] == "slave" or replication["connected_slaves"] == self.replicas
        known = int(info["cluster_known_nodes"]) == len(self.nodes)
        return info["cluster_state"] == "ok" and known and linked and whole

    # ---- stores -----------------------------------------------------------------------------------------------------

    def url(self, **options):
        """Return the address of stores that are empty."""
        options = {"prefix": f"p{next(self._numbers)}", **options}
        hosts = ",".join(self._place(node) for node in self.nodes if node.running)
        return f"redis+cluster://{hosts}/?{urlencode(options)}"

    def master(self, prefix):
        """Return the node that has a store."""
        slot = key_slot(b"{%b}" % prefix.encode())
        with self._any().connect() as client:
            slots = client.execute_command("CLUSTER SLOTS")
        for node in self.nodes:
            if (slots_of(slots, slot)) == node.settings["port"]:
                return node
        raise LookupError(prefix)

    def _any(self):
        return next(node for node in self.nodes if node.running)

    def replica_of(self, master):
        """Return the node that follows another."""
        with master.connect() as client:
            port = client.info("replication")["slave0"]["port"]
        return next(node for node in self.nodes if node.settings["port"] == port)

    @contextlib.contextmanager
    def moving(self, prefix, to):
        """Move the slot of a store to another master, key by key, as an administrator does: within it is half done."""
        slot = key_slot(b"{%b}" % prefix.encode())
        source = self.master(prefix)
        ids = {node: node_id(node) for node in (source, to)}
        with to.connect() as there, source.connect() as here:
            there.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
            here.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[to])
            self._migrate(here, slot, to, 2)
            yield
            while self._migrate(here, slot, to, 100):
                pass
            for client in (there, here):
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[to])

    @staticmethod
    def _migrate(here, slot, to, some):
        keys = here.execute_command("CLUSTER GETKEYSINSLOT", slot, some)
        if keys:
            here.execute_command("MIGRATE", "127.0.0.1", to.settings["port"], "", 0, 5000, "KEYS", *keys)
        return keys


def replicated(master):
    """Return once a replica has all that its master has said."""
    with master.connect() as client:
        target = client.info("replication")["master_repl_offset"]

        def has_all():
            client.execute_command("WAIT", 1, 1000)  # asks the replica for an answer now
            return client.info("replication").get("slave0", {}).get("offset", -1) >= target

        until(has_all)


def node_id(node):
    with node.connect() as client:
        found = client.execute_command("CLUSTER MYID")
    return found.decode() if isinstance(found, bytes) else found


def slots_of(slots, slot):
    """Return the port of the master that has a slot."""
    if isinstance(slots, dict):  # as redis-py reads it
        return next(found["primary"][1] for (first, last), found in slots.items() if first <= slot <= last)
    return next(servers[0][1] for first, last, *servers in slots if first <= slot <= last)

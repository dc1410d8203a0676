"""A server and its replica, which takes over when the server is killed, and an address that leads to the primary.

None of them waits for its disk: processes die here, and no power fails. Between the two is a proxy: while it holds the
replication, a death of the primary loses its confirmed commits.
"""

from __future__ import annotations

import contextlib
import subprocess
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

from tests.jobs.waiting import until
from tests.ports import reserved_ports
from tests.stores.network import Proxy
from tests.stores.server import Server, environment, nobody
from tests.stores.servers import MariaDB, Postgres, Redis

__all__ = ["MariaDBPair", "Pair", "PostgresPair", "SentinelPair"]


class Pair(ABC):
    """Both of them; made by `with`."""

    kind: ClassVar[type[Server]]

    def __init__(self, *, synchronous):
        self.synchronous = synchronous
        self._open = contextlib.ExitStack()
        self.primary = self.replica = self._replication = None

    def __enter__(self):
        try:
            self._begin()
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(self, *_):
        self._open.close()

    @abstractmethod
    def _begin(self):
        """Start both, and return once the replica has what the primary has."""

    @abstractmethod
    def url(self, **options):
        """Return the address of an empty store, at the current primary."""

    @abstractmethod
    def promote(self):
        """Make the replica the primary; return once it is."""

    def fail_over(self):
        """Kill the primary and promote the replica."""
        self.primary.kill()
        self.promote()

    def hold(self):
        """Let nothing go from the primary to the replica any more."""
        self._replication.stall()

    def lose(self):
        """Let what was held never come, and keep the two apart."""
        self._replication.cut()

    def _enter(self, what):
        return self._open.enter_context(what)

    def _closing(self, what):
        return self._open.enter_context(contextlib.closing(what))


class Standby(Postgres):
    """A hot standby, made by a base backup by way of a proxy."""

    def __init__(self, place, **options):
        self._place = place
        super().__init__(**options)

    def initialise(self):
        self.socket = self.folder / f".s.PGSQL.{self.port}"
        place = ["-h", self._place["host"], "-p", str(self._place["port"]), "-U", "pywheel"]
        self._call("pg_basebackup", *place, "-D", self.data, "-R", "-c", "fast", "--no-sync")

    def promote(self):
        self._call("pg_ctl", "promote", "-w", "-D", self.data)

    def _call(self, program, *arguments):
        command = [self.beside(program), *map(str, arguments)]
        subprocess.run(
            command, check=True, cwd=self.folder, env=environment(), timeout=60, stdout=subprocess.DEVNULL, **nobody()
        )


class PostgresPair(Pair):
    """A primary whose commits wait for its standby, or do not; the address lists both hosts."""

    kind = Postgres

    def _begin(self):
        self.primary = self._closing(Postgres())
        access = self.primary.data / "pg_hba.conf"
        access.write_text(f"local replication pywheel trust\n{access.read_text()}")
        self.primary.start()
        self._replication = self._enter(Proxy(self.primary, tcp=True))
        self.replica = self._closing(Standby(self._replication.postgres_place()))
        self.replica.start()
        until(lambda: self.primary.run("SELECT 1 FROM pg_stat_replication"))
        if self.synchronous:
            self.primary.alter("synchronous_standby_names", "*")
            self._see_a_commit_wait()

    def _see_a_commit_wait(self):
        """Return once commits wait: they do when the checkpointer has read the setting, which no view shows."""

        def waits():
            commit = threads.submit(self.primary.run, "SELECT pg_logical_emit_message(true, 'tests', '')")
            until(lambda: commit.done() or self.waiting())
            return not commit.done()

        with ThreadPoolExecutor(1) as threads:
            self.hold()
            try:
                until(waits)
            finally:
                self._replication.heal()

    def url(self, **options):
        places = [(str(server.folder), str(server.port)) for server in (self.primary, self.replica)]
        hosts, ports = map(",".join, zip(*places, strict=True))
        return self.primary.url(host=hosts, port=ports, target_session_attrs="read-write", **options)

    def waiting(self):
        """Return the sessions whose commit waits for the standby."""
        return [pid for [pid] in self.primary.run("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'")]

    def end_session(self, session):
        self.primary.run(f"SELECT pg_terminate_backend({session})")

    def promote(self):
        self.replica.promote()  # it had no name of a standby to wait for


class Led(Pair):
    """One address that always leads to the primary, as a virtual IP does."""

    def _lead(self):
        self._way = self._enter(Proxy(self.primary))

    def url(self, **options):
        return self.primary.url(via=self._way, **options)

    def _switch(self):
        self._way.lead_to(self.replica)


class MariaDBPair(Led):
    """A primary whose commits wait until the replica has them, or do not."""

    kind = MariaDB

    def _begin(self):
        self.primary = self._server(1, "master")
        self._replication = self._enter(Proxy(self.primary, tcp=True))
        self.replica = self._server(2, "slave", **{"read-only": "ON"})
        host, port = self._replication.address.split(":")
        self.replica.run(
            f"CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_PORT = {port}, MASTER_USER = 'root', "
            "MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1",
            "START SLAVE",
        )
        until(lambda: self._status()["Slave_IO_Running"] == "Yes")
        if self.synchronous:
            until(lambda: self.primary.run("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'")[0][1] == "1")
        self._lead()

    def _server(self, number, role, **settings):
        settings |= {"server-id": number, "log-bin": f"bin{number}", "sync-binlog": 1, "log-slave-updates": "ON"}
        if self.synchronous:
            settings |= {f"rpl-semi-sync-{role}-enabled": "ON"}
        if self.synchronous and role == "master":  # else commits no longer wait after ten seconds
            settings |= {"rpl-semi-sync-master-timeout": 10**9, "rpl-semi-sync-master-wait-point": "AFTER_SYNC"}
        return self._closing(MariaDB(settings=settings)).start()

    def waiting(self):
        """Return the sessions whose commit waits for the replica."""
        sessions = self.primary.run("SELECT id, state FROM information_schema.processlist")
        return [id for id, state in sessions if "Waiting for semi-sync ACK" in (state or "")]

    def end_session(self, session):
        self.primary.run(f"KILL CONNECTION {session}")

    def promote(self):
        def applied():
            status = self._status()
            return status["Gtid_IO_Pos"] in ("", self.replica.run("SELECT @@gtid_slave_pos")[0][0])

        until(applied)
        self.replica.run("STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF")
        self._switch()

    def _status(self):
        with contextlib.closing(self.replica.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW SLAVE STATUS")
            return dict(zip((column[0] for column in cursor.description), cursor.fetchone(), strict=True))


class Sentinel(Redis):
    """One that watches a master and promotes its replica."""

    def __init__(self, master_port, port):
        self._master_port = master_port
        super().__init__(settings={"port": port})

    def command(self):
        file = self.folder / "sentinel.conf"
        if not file.exists():
            lines = [
                f"port {self.settings['port']}",
                "bind 127.0.0.1",
                f"unixsocket {self.socket}",
                "unixsocketperm 777",
                f"dir {self.data}",
                f"sentinel monitor pywheel 127.0.0.1 {self._master_port} 2",
                "sentinel down-after-milliseconds pywheel 1000",
                "sentinel failover-timeout pywheel 10000",
            ]
            file.write_text("\n".join([*lines, ""]))
            self._give(file)
        return [self.path, str(file), "--sentinel"]

    def master_port(self):
        with self.connect(decode_responses=True) as client:
            _, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "pywheel")
        return int(port)

    def knows(self):
        """Return how many replicas and other sentinels it has found."""
        with self.connect(decode_responses=True) as client:
            found = client.sentinel_master("pywheel")
        return found["num-slaves"], found["num-other-sentinels"]


class SentinelPair(Led):
    """A Redis and its replica, which three sentinels promote. Its commits never wait for the replica.

    Replica and sentinels reach the master by way of the proxy: held, it cuts the master off with its clients.
    """

    kind = Redis
    SENTINELS = 3

    def _begin(self):
        port, *others = reserved_ports(1 + self.SENTINELS)
        self.primary = self._closing(Redis()).start()
        self._replication = self._enter(Proxy(self.primary, tcp=True))
        _, master_port = self._replication.address.split(":")
        announced = {"port": port, "bind": "127.0.0.1", "replica-announce-ip": "127.0.0.1"}
        self.replica = self._closing(Redis(settings=announced)).start()
        with self.replica.connect() as client:
            client.replicaof("127.0.0.1", master_port)
        self.sentinels = [self._closing(Sentinel(master_port, port)).start() for port in others]
        found = (1, self.SENTINELS - 1)
        until(lambda: all(sentinel.knows() == found for sentinel in self.sentinels))
        self._lead()

    def promote(self):
        """Wait for the sentinels, and follow them."""
        port = self.replica.settings["port"]
        until(lambda: all(sentinel.master_port() == port for sentinel in self.sentinels))
        self._switch()

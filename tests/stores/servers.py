"""The servers of the stores' tests. Their fixtures are in tests/conftest.py."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from pathlib import Path
from urllib.parse import quote, urlencode

from tests.jobs.waiting import until
from tests.stores.server import Missing, Server, find

__all__ = ["KINDS", "STORES", "MariaDB", "Missing", "PgBouncer", "Postgres", "Redis", "Server", "started"]

STORES = ["postgres", "redis", "mariadb"]
"""The servers for which there is a store: what is said of stores on servers is tested on each of these."""


class Postgres(Server):
    """PostgreSQL, that of the machine or whose program a variable names, with initdb beside it.

    It has the user pywheel, who may do all, and the database pywheel; a store is a schema.

    Whatever other roles a test makes must give their passwords.
    """

    program, package, driver, variable = "postgres", "postgresql", "psycopg", "PYWHEEL_POSTGRES"
    ending = "SIGINT"
    quick = "SIGQUIT"  # killed, it would leave shared memory behind
    port = 5432

    def initialise(self):
        self.socket = self.folder / f".s.PGSQL.{self.port}"
        access = self.data / "pg_hba.conf"
        initdb = [self.beside("initdb"), "-D", "{data}", "-U", "pywheel", "--auth=trust", "--no-sync"]
        database = ["{program}", "--single", "-D", "{data}", "-c", "fsync=off", "postgres"]
        self._from_template(
            ([*initdb, "-E", "UTF8", "--locale=C.UTF-8", "--wal-segsize=1"], None),
            (database, "CREATE DATABASE pywheel"),
        )
        ways = ["local all {}", "host all {} 127.0.0.1/32"]
        who = [("pywheel", "trust"), ("all", "scram-sha-256")]
        access.write_text("".join(f"{way.format(user)} {how}\n" for user, how in who for way in ways))

    def command(self):
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.folder,
            "fsync": "on" if self.fsync else "off",
            "full_page_writes": "on" if self.fsync else "off",
            # Once a minute it would go through all the tables that tests have made.
            "autovacuum": "off",
            "shared_buffers": "32MB",
            "max_connections": 200,
            **self._tls_settings(),
            **self.settings,
        }
        return [
            self.path,
            "-D",
            self.data,
            *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
        ]

    def beside(self, program):
        """Return the path of another program of the same version."""
        return str(Path(self.path).resolve().with_name(program))

    def _tls_settings(self):
        if not self.tls:
            return {}
        files = {"ssl_cert_file": self.certificate, "ssl_key_file": self.key}
        return {"listen_addresses": "127.0.0.1", "port": self.port, "ssl": "on", **files}

    def connect(self, **options):
        """Return a connection of psycopg that commits each statement."""
        import psycopg

        place = {"host": str(self.folder), "port": self.port, "user": "pywheel", "dbname": "pywheel"}
        return psycopg.connect(**{**place, "autocommit": True, "connect_timeout": 10, **options})

    def alter(self, name, value):
        """Set a setting; return once all sessions follow it from their next statement on.

        The server only signals itself to read its settings: a session that shows the new value came after all signals.
        """
        self.run(f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")
        until(lambda: self.run(f"SHOW {name}") == [(value,)])

    def url(self, via=None, *, tls=False, **options):
        user = options.pop("user", "pywheel")
        place = via.postgres_place() if via else {"host": str(self.folder), "port": self.port}
        options = {**({} if tls else place), "schema": f"s{next(self._numbers)}", **options}
        host = f"localhost:{self.port}" if tls else ""
        return f"postgresql://{quote(user, safe=':')}@{host}/pywheel?{urlencode(options, safe='/', quote_via=quote)}"


class MariaDB(Server):
    """MariaDB, or the MySQL or MariaDB whose program a variable names: the user root, without a password.

    A store is a database.
    """

    program, package, driver, variable = "mariadbd", "mariadb-server", "pymysql", "PYWHEEL_MYSQLD"

    @functools.cached_property
    def is_mysql(self):
        return "MariaDB" not in self.version()

    def initialise(self):
        self.socket = self.folder / "m.sock"
        if self.is_mysql:
            data = ["--innodb-redo-log-capacity=8M", "--datadir={data}"]
            self._from_template((["{program}", "--no-defaults", "--initialize-insecure", *data], None))
            return
        options = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        install = [find("mariadb-install-db", self.package), *options, "--innodb-log-file-size=8M"]
        self._from_template(([*install, "--datadir={data}"], None))

    def command(self):
        settings = {
            "datadir": self.data,
            "socket": self.socket,
            "pid-file": self.folder / "m.pid",
            "innodb-buffer-pool-size": "32M",
            "innodb-log-file-size": "8M",
            # Tests make hundreds of stores: a file for each of their tables takes time and room.
            "innodb-file-per-table": "OFF",
            "innodb-autoextend-increment": 8,
            # Not 0: what was committed survives a killed server all the same.
            "innodb-flush-log-at-trx-commit": 1 if self.fsync else 2,
            "max-connections": 200,
            **self.settings,
        }
        if self.is_mysql:
            settings["innodb-redo-log-capacity"] = settings.pop("innodb-log-file-size")
            settings["mysqlx"] = "OFF"  # another protocol, on a port of its own
            settings["secure-file-priv"] = "NULL"  # a distribution's folder, which it would look for
        if self.tls:
            network = {"bind-address": "127.0.0.1", "port": self.port}
            settings |= {**network, "ssl-cert": self.certificate, "ssl-key": self.key, "ssl-ca": self.ca}
        flags = ["--skip-log-bin", *([] if self.tls else ["--skip-networking"])]
        return [self.path, "--no-defaults", *flags, *(f"--{name}={value}" for name, value in settings.items())]

    def connect(self, **options):
        """Return a connection of PyMySQL that commits each statement, without TLS: that takes it long to prepare."""
        import pymysql

        place = {"unix_socket": str(self.socket), "user": "root", "charset": "utf8mb4", "ssl_disabled": True}
        return pymysql.connect(**{**place, "autocommit": True, "connect_timeout": 10, **options})

    def alter(self, name, value):
        """Set a setting, at once for all sessions if it is not one of each."""
        self.run(f"SET GLOBAL {name} = {value}")

    def url(self, via=None, *, tls=False, **options):
        user = options.pop("user", "root")
        database = f"db{next(self._numbers)}"
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        place = f"localhost:{self.port}" if tls else via.address if via else self.socket
        host, options = (place, options) if isinstance(place, str) else ("", {"unix_socket": str(place), **options})
        query = f"?{urlencode(options, safe='/', quote_via=quote)}" if options else ""
        return f"mysql://{quote(user, safe=':')}@{host}/{database}{query}"


class Redis(Server):
    """Redis or Valkey; a store is a prefix. With fsync its appendfsync is always, else no.

    It is the program that a variable names, or else redis-server, or else valkey-server.
    """

    program, package, driver, variable = "redis-server", "redis-server", "redis", "PYWHEEL_REDIS_SERVER"

    @classmethod
    def located(cls):
        try:
            return super().located()
        except Missing:
            with contextlib.suppress(Missing):
                return find("valkey-server", "valkey-server")
            raise

    def initialise(self):
        self.socket = self.folder / "r.sock"
        self.data.mkdir(mode=0o700)
        self._give(self.data)

    def command(self):
        settings = {
            "port": 0,
            "unixsocket": self.socket,
            "unixsocketperm": 777,
            "dir": self.data,
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always" if self.fsync else "no",
            "daemonize": "no",
        }
        if self.tls:
            files = {"tls-cert-file": self.certificate, "tls-key-file": self.key, "tls-ca-cert-file": self.ca}
            settings |= {"tls-port": self.port, "tls-auth-clients": "no", **files}
        settings |= self.settings
        return [
            self.path,
            *(str(part) for name, value in settings.items() for part in (f"--{name}", value)),
        ]

    def connect(self, **options):
        """Return a client of redis-py."""
        import redis

        client = redis.Redis(**{"unix_socket_path": str(self.socket), **options})
        try:
            client.ping()
        except BaseException:
            client.close()
            raise
        return client

    def url(self, via=None, *, tls=False, **options):
        user = f"{quote(options.pop('user'), safe=':')}@" if "user" in options else ""
        options = {"prefix": f"p{next(self._numbers)}", **options}
        if tls:
            return f"rediss://{user}localhost:{self.port}/0?{urlencode(options, safe='/', quote_via=quote)}"
        place = via.address if via else self.socket
        scheme = f"redis://{user}{place}/0" if isinstance(place, str) else f"redis+unix://{user}{quote(str(place))}"
        return f"{scheme}?{urlencode(options, safe='/', quote_via=quote)}"


class PgBouncer(Server):
    """pgbouncer in transaction mode, in front of a PostgreSQL that runs; its stores are that server's."""

    program, package, driver = "pgbouncer", "pgbouncer", "psycopg"
    port = 6432

    def __init__(self, behind, **options):
        self.behind = behind
        super().__init__(**options)

    def initialise(self):
        self.socket = self.folder / f".s.PGSQL.{self.port}"

    def command(self):
        settings = {
            "listen_addr": "",
            "listen_port": self.port,
            "unix_socket_dir": self.folder,
            "auth_type": "any",
            "pool_mode": "transaction",
            "default_pool_size": 10,
            "max_client_conn": 500,
            **self.settings,
        }
        lines = [
            "[databases]",
            f"pywheel = host={self.behind.folder} port={self.behind.port} user=pywheel",
            "[pgbouncer]",
        ]
        file = self.folder / "pgbouncer.ini"
        file.write_text("\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items()), ""]))
        return [self.path, file]

    connect = functools.partialmethod(Postgres.connect, prepare_threshold=None)

    def url(self, via=None, **options):
        place = via.postgres_place() if via else {"host": str(self.folder), "port": self.port}
        return self.behind.url(**place, **options)


KINDS = {"postgres": Postgres, "mariadb": MariaDB, "redis": Redis}


def started(kind, *arguments, **options):
    """Yield a running server. Where it is not installed, skip the test; fail it with PYWHEEL_REQUIRE_SERVERS=1."""
    import pytest

    try:
        with kind(*arguments, **options) as server:
            yield server
    except Missing as missing:
        if os.environ.get("PYWHEEL_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


if __name__ == "__main__":  # which packages are to be installed
    from tests.deploy.tools import TOOLS
    from tests.outlets.brokers import BROKERS

    for kind in [Postgres, MariaDB, Redis, PgBouncer, *BROKERS, *TOOLS]:
        try:
            kind.located()
        except Missing:
            print(kind.package)
    if not (os.environ.get("PYWHEEL_CHROMIUM") or shutil.which("chromium")):
        print("chromium")

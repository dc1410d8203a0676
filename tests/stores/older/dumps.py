"""A store of jobs as text, and back: what lies in the file or on the server, and no word of how it is read."""

import contextlib
import sqlite3
from urllib.parse import parse_qs, urlsplit

from pywheel.stores.mysql import statements as mysql
from pywheel.stores.postgres import statements as postgres

__all__ = ["DUMPS"]


class Sqlite:
    """Statements that make the file."""

    def __init__(self, server, url):
        self._path = urlsplit(url).path[1:]

    def take(self):
        with contextlib.closing(sqlite3.connect(self._path)) as file:
            numbers = [f"PRAGMA {name} = {file.execute(f'PRAGMA {name}').fetchone()[0]}" for name in self._NUMBERS]
            return [*numbers, *file.iterdump()]

    _NUMBERS = ("auto_vacuum", "user_version", "application_id")

    def give(self, dump):
        with contextlib.closing(sqlite3.connect(self._path, isolation_level=None)) as file:
            # The table of numbers that only SQLite can make, which stays when nothing needs it any more.
            for statement in ("CREATE TABLE one (id INTEGER PRIMARY KEY AUTOINCREMENT)", "DROP TABLE one", *dump):
                file.execute(statement)
            file.execute("PRAGMA journal_mode = WAL")


class Postgres:
    """Rows by table, and how many migrations had made the tables."""

    def __init__(self, server, url):
        self._server = server
        self._schema = parse_qs(urlsplit(url).query)["schema"][0]

    def take(self):
        with self._server.connect() as connection:
            connection.execute(f"SET search_path = {self._schema}")
            [(version,)] = connection.execute("SELECT version FROM pywheel_schema").fetchall()
            names = "SELECT {0} FROM pg_{1}s WHERE schemaname = %s ORDER BY 1"
            tables = connection.execute(names.format("tablename", "table"), [self._schema]).fetchall()
            sequences = connection.execute(names.format("sequencename", "sequence"), [self._schema]).fetchall()
            return {
                "version": version,
                "tables": {
                    table: [row for (row,) in connection.execute(f"SELECT to_jsonb(t) FROM {table} t ORDER BY 1")]
                    for (table,) in tables
                },
                "sequences": {
                    name: connection.execute(f"SELECT last_value, is_called FROM {name}").fetchone()
                    for (name,) in sequences
                },
            }

    def give(self, dump):
        from psycopg.types.json import Jsonb

        with self._server.connect() as connection:
            connection.execute(f"CREATE SCHEMA {self._schema}")
            connection.execute(f"SET search_path = {self._schema}")
            for script in postgres.migrations(None, "pywheel_")[: dump["version"]]:
                connection.execute(script)
            connection.execute("DELETE FROM pywheel_schema")
            if "least" in dump["tables"]["pywheel_schema"][0]:  # it comes with the second
                connection.execute("ALTER TABLE pywheel_schema ADD COLUMN least int")
            for table, rows in dump["tables"].items():
                records = f"jsonb_populate_recordset(NULL::{table}, %s)"
                sql = f"INSERT INTO {table} OVERRIDING SYSTEM VALUE SELECT * FROM {records}"
                connection.execute(sql, [Jsonb(rows)])
            for name, numbers in dump["sequences"].items():
                connection.execute("SELECT setval(%s, %s, %s)", [name, *numbers])


class MariaDB:
    """The same."""

    def __init__(self, server, url):
        self._server = server
        self._database = urlsplit(url).path[1:]

    def _connect(self):
        return contextlib.closing(self._server.connect(database=self._database))

    def take(self):
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT value FROM pywheel_number WHERE name = 'schema'")
            [(version,)] = cursor.fetchall()
            cursor.execute("SHOW TABLES")
            tables = {}
            for (table,) in sorted(cursor.fetchall()):
                cursor.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
                tables[table] = [[column[0] for column in cursor.description], *cursor.fetchall()]
            return {"version": version, "tables": tables}

    def give(self, dump):
        with self._connect() as connection, connection.cursor() as cursor:
            for statements in mysql.migrations("pywheel_")[: dump["version"]]:
                for statement in statements:
                    cursor.execute(statement)
            for table, (names, *rows) in dump["tables"].items():
                cursor.execute(f"DELETE FROM {table}")
                columns = ", ".join(f"`{name}`" for name in names)
                sql = f"INSERT INTO {table} ({columns}) VALUES ({', '.join(['%s'] * len(names))})"
                cursor.executemany(sql, _values(rows))


class Redis:
    """Keys without their prefix, each with its type, and what is in it."""

    def __init__(self, server, url):
        self._server = server
        self._prefix = parse_qs(urlsplit(url).query)["prefix"][0]

    def take(self):
        with self._server.connect() as client:
            start = "{" + self._prefix
            keys = sorted(client.scan_iter(match=f"{start}[.}}]*", count=1_000))
            return [[key[len(start) :], *self._read(client, key)] for key in keys if client.ttl(key) < 0]

    @staticmethod
    def _read(client, key):
        kind = client.type(key).decode()
        if kind == "string":
            return kind, client.get(key)
        if kind == "list":
            return kind, client.lrange(key, 0, -1)
        if kind == "hash":
            return kind, list(client.hgetall(key).items())
        assert kind == "zset"
        return kind, [(member, repr(score)) for member, score in client.zrange(key, 0, -1, withscores=True)]

    def give(self, dump):
        with self._server.connect() as client:
            for rest, kind, value in _values(dump):
                key = b"{" + self._prefix.encode() + rest
                if kind == "string":
                    client.set(key, value)
                elif kind == "list":
                    client.rpush(key, *value)
                elif kind == "hash":
                    client.hset(key, mapping=dict(value))
                else:
                    client.zadd(key, dict(value))


def _values(value):
    """Return what was text in JSON."""
    match value:
        case {"bytes": text}:
            return text.encode("latin-1")
        case list():
            return [_values(part) for part in value]
    return value


DUMPS = {"sqlite": Sqlite, "postgres": Postgres, "mariadb": MariaDB, "redis": Redis}

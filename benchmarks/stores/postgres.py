"""PostgreSQL, and its figures without pywheel."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, ClassVar, Self

from benchmarks.jobs.floor import BODY, Floor
from benchmarks.stores.place import Place, run
from tests.stores.servers import Postgres as Server

TABLE = "CREATE TABLE floor (id bigint GENERATED ALWAYS AS IDENTITY, due bigint, topic int, body bytea)"
INDEX = "CREATE INDEX floor_due ON floor (due)"
ONE = "INSERT INTO floor (due, topic, body) VALUES (%b, 1, %b) RETURNING id"
MANY = "INSERT INTO floor (due, topic, body) SELECT d, 1, b FROM unnest(%b::bigint[], %b::bytea[]) AS t(d, b)"
PGBENCH = (
    "\\set due random(5000, 20000)\nINSERT INTO floor (due, topic, body) VALUES (:due, 1, '" + "x" * len(BODY) + "');\n"
)


class Postgres(Place):
    """PostgreSQL with its own settings, except those that 32 MB of memory would have made worse."""

    kind = Server
    settings: ClassVar[dict[str, Any]] = {
        "shared_buffers": "256MB",
        "max_wal_size": "4GB",
        "shared_preload_libraries": "pg_stat_statements",
    }

    def __enter__(self) -> Self:
        super().__enter__()
        self._count("none")
        return self

    def ask(self) -> None:
        self._connection.execute("SELECT 1").fetchone()

    def floor(self) -> Floor:
        return _Floor(self.server.connect())

    def tool(self, clients: int, count: int) -> float:
        self.floor().close()
        script = self.server.folder / "insert.sql"
        script.write_text(PGBENCH)
        each = max(count // clients, 1)
        place = ["-h", self.server.folder, "-p", self.server.port, "-U", "pywheel"]
        printed = run(
            "pgbench", "postgresql-contrib", *place, "-n", "-c", clients, "-j", 2, "-t", each, "-M", "prepared",
            "-f", script, "pywheel",
        )  # fmt: skip
        return float(re.findall(r"tps = ([0-9.]+)", printed)[-1])

    @contextmanager
    def held(self, _: str) -> Iterator[None]:
        with self.server.connect() as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            connection.execute("SELECT count(*) FROM pg_class").fetchone()
            yield

    def size(self) -> float:
        return float(self._connection.execute("SELECT pg_database_size('pywheel')").fetchone()[0])

    def queries(self) -> float:
        """Return the statements of all sessions; they are counted from the first call on."""
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        self._count("top")
        return float(self._connection.execute("SELECT coalesce(sum(calls), 0) FROM pg_stat_statements").fetchone()[0])

    def settle(self) -> None:
        self._connection.execute("VACUUM ANALYZE")
        self._connection.execute("CHECKPOINT")

    def _count(self, which: str) -> None:
        self._connection.execute(f"ALTER SYSTEM SET pg_stat_statements.track = '{which}'")
        self._connection.execute("SELECT pg_reload_conf()")


class _Floor:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._draw = Random(1)
        connection.execute("DROP TABLE IF EXISTS floor")
        connection.execute(TABLE)
        connection.execute(INDEX)

    def insert(self, count: int) -> None:
        for _ in range(count):
            self._connection.execute(ONE, (self._due(), BODY)).fetchone()

    def insert_many(self, count: int) -> None:
        self._connection.execute(MANY, ([self._due() for _ in range(count)], [BODY] * count))

    def close(self) -> None:
        self._connection.close()

    def _due(self) -> int:
        return time.time_ns() // 1_000_000 + self._draw.randrange(5_000, 20_000)

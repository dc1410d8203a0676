"""MariaDB, and its figures without pywheel."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from random import Random
from typing import Any, ClassVar

from benchmarks.jobs.floor import BODY, Floor
from benchmarks.stores.place import Place, run
from tests.stores.servers import MariaDB as Server

TABLE = (
    "CREATE TABLE floor.floor (id bigint AUTO_INCREMENT PRIMARY KEY, due bigint, topic int, body longblob, KEY (due))"
)
INSERT = "INSERT INTO floor.floor (due, topic, body) VALUES "


class MariaDB(Place):
    """MariaDB with its own settings, except those that 32 MB of memory would have made worse."""

    kind = Server
    settings: ClassVar[dict[str, Any]] = {"innodb-buffer-pool-size": "512M", "innodb-log-file-size": "256M"}

    def ask(self) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()

    def floor(self) -> Floor:
        return _Floor(self.server.connect())

    def tool(self, clients: int, count: int) -> float:
        self.floor().close()
        query = f"{INSERT}(floor(rand() * 20000), 1, repeat('x', {len(BODY)}))"
        printed = run(
            "mariadb-slap", "mariadb-client", "--no-defaults", "--user=root", f"--socket={self.server.socket}",
            f"--concurrency={clients}", f"--number-of-queries={count}", "--create-schema=floor", "--no-drop",
            f"--query={query}",
        )  # fmt: skip
        return count / float(re.findall(r"Average number of seconds to run all queries: ([0-9.]+)", printed)[0])

    @contextmanager
    def held(self, _: str) -> Iterator[None]:
        with closing(self.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            yield

    def size(self) -> float:
        return sum(file.stat().st_size for file in self.server.data.glob("db*/*.ibd"))

    def queries(self) -> float:
        """Return the statements of all clients."""
        with self._connection.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Questions'")
            return float(cursor.fetchone()[1])


class _Floor:
    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._draw = Random(1)
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS floor")
            cursor.execute("DROP TABLE IF EXISTS floor.floor")
            cursor.execute(TABLE)

    def insert(self, count: int) -> None:
        for _ in range(count):
            self._connection.query(f"{INSERT}({self._due()},1,0x{BODY.hex()})")

    def insert_many(self, count: int) -> None:
        """One statement with hexadecimal bodies: `executemany` of PyMySQL takes twice as long."""
        self._connection.query(INSERT + ",".join(f"({self._due()},1,0x{BODY.hex()})" for _ in range(count)))

    def close(self) -> None:
        self._connection.close()

    def _due(self) -> int:
        return time.time_ns() // 1_000_000 + self._draw.randrange(5_000, 20_000)

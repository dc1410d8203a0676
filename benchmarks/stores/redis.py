"""Redis, and its figures without pywheel."""

from __future__ import annotations

import re
import time
from random import Random
from typing import Any, ClassVar

from benchmarks.jobs.floor import BODY, Floor
from benchmarks.stores.place import Place, run
from tests.stores.servers import Redis as Server

SCRIPT = """
for i = 1, #ARGV, 2 do
    local id = redis.call('INCR', KEYS[1])
    redis.call('HSET', KEYS[2] .. id, 'body', ARGV[i + 1])
    redis.call('ZADD', KEYS[3], ARGV[i], id)
end
return redis.call('GET', KEYS[1])
"""


class EverySec(Place):
    """Redis that writes to the disk once a second."""

    kind = Server
    settings: ClassVar[dict[str, Any]] = {"appendfsync": "everysec"}

    def ask(self) -> None:
        self._connection.ping()

    def floor(self) -> Floor:
        return _Floor(self.server.connect())

    def tool(self, clients: int, count: int) -> float:
        arguments = [3, "floor:id", "floor:", "floor:due", "__rand_int__", BODY.decode()]
        printed = run(
            "redis-benchmark", "redis-tools", "-s", self.server.socket, "-c", clients, "-n", count, "-r", 20_000,
            "--precision", 3, "eval", SCRIPT, *arguments,
        )  # fmt: skip
        return float(re.findall(r"throughput summary: ([0-9.]+)", printed)[-1])

    def size(self) -> float:
        return float(self._connection.info("memory")["used_memory"])

    def queries(self) -> float:
        """Return how often clients wrote to it: what scripts call does not count."""
        return float(self._connection.info("stats")["total_reads_processed"])


class Always(EverySec):
    """Redis that writes to the disk before it answers."""

    settings: ClassVar[dict[str, Any]] = {"appendfsync": "always"}


class _Floor:
    def __init__(self, client: Any) -> None:
        self._client = client
        self._script = client.register_script(SCRIPT)
        self._draw = Random(1)

    def insert(self, count: int) -> None:
        for _ in range(count):
            self._insert([self._due(), BODY])

    def insert_many(self, count: int) -> None:
        self._insert([each for _ in range(count) for each in (self._due(), BODY)])

    def close(self) -> None:
        self._client.close()

    def _insert(self, arguments: list[Any]) -> None:
        self._script(keys=["floor:id", "floor:", "floor:due"], args=arguments)

    def _due(self) -> int:
        return time.time_ns() // 1_000_000 + self._draw.randrange(5_000, 20_000)

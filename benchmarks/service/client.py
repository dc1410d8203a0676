"""Puts by HTTP, from a process of its own: as many as possible, or at a rate.

usage: python -m benchmarks.service.client PORT CONNECTIONS SECONDS [RATE [TOKEN] | batch]

It speaks only as much HTTP as it needs, and so costs little. Puts at a rate are sent at their times, or as soon as a
connection is free; the duration counts from the time when the put should have been sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from typing import cast

import uvloop

JOB = b'{"topic":"mail","body":{"order":12345,"to":"somebody@example.com"},"delay":"30m"}'
BATCH = b'{"jobs":[' + b",".join([JOB] * 1_000) + b"]}"


def request(path: str, body: bytes) -> bytes:
    """Return a whole request."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    return head.encode() + b"\r\n" + body


class Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._answer = b""
        self.asked = 0.0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._load.free(self)

    def send(self, since: float) -> None:
        """Ask; what it takes counts from then."""
        self.asked = since
        self.transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) >= length:
            assert head.startswith(b"HTTP/1.1 201"), self._answer
            self._answer = b""
            self._load.took.append(time.perf_counter() - self.asked)
            self._load.free(self)


class Load:
    """The requests of all connections."""

    def __init__(self, content: bytes, rate: float | None) -> None:
        self.request = content
        self.took: list[float] = []
        self._rate = rate
        self._free: deque[Connection] = deque()
        self._due: deque[float] = deque()
        self.ended = False

    def free(self, connection: Connection) -> None:
        """Use a connection for the next request."""
        if self.ended:
            return
        if self._rate is None:
            connection.send(time.perf_counter())
        elif self._due:
            connection.send(self._due.popleft())
        else:
            self._free.append(connection)

    async def pace(self, seconds: float) -> None:
        """Send at the rate, for some seconds."""
        began = time.perf_counter()
        if self._rate is None:
            await asyncio.sleep(seconds)
            return
        sent = 0
        while (now := time.perf_counter()) < began + seconds:
            while began + sent / self._rate <= now:
                due = began + sent / self._rate
                sent += 1
                if self._free:
                    self._free.popleft().send(due)
                else:
                    self._due.append(due)
            await asyncio.sleep(0.0005)


async def measured(port: int, connections: int, seconds: float, rate: float | None, content: bytes) -> dict[str, float]:
    """Return the rate that was reached, and ms at p50 and p99."""
    loop = asyncio.get_running_loop()
    load = Load(content, rate)
    open_connections = [
        (await loop.create_connection(lambda: Connection(load), "127.0.0.1", port))[0] for _ in range(connections)
    ]
    await asyncio.sleep(0.3)
    load.took.clear()
    began = time.perf_counter()
    await load.pace(seconds)
    took, spent = sorted(load.took), time.perf_counter() - began
    load.ended = True
    for transport in open_connections:
        transport.close()
    return {"rate": len(took) / spent, "p50": 1e3 * took[len(took) // 2], "p99": 1e3 * took[len(took) * 99 // 100]}


def main() -> None:
    """Print what was measured, as JSON."""
    port, connections, seconds, *rest = sys.argv[1:]
    batch = rest == ["batch"]
    rate = float(rest[0]) if rest and not batch else None
    content = request("/v1/jobs/batch", BATCH) if batch else request("/v1/jobs", JOB)
    if len(rest) == 2:
        content = content.replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer %s\r\n\r\n" % rest[1].encode(), 1)
    print(json.dumps(uvloop.run(measured(int(port), int(connections), float(seconds), rate, content))))


if __name__ == "__main__":
    main()

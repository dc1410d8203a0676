"""Endpoints on several ports, in a process of their own: they answer at once, and note how late a job came.

usage: python -m benchmarks.outlets.endpoint_process HEALTHY HANGING

It prints its ports as JSON: the healthy ones, then those that take a request and never answer. A body begins with its
due time in ms. GET on a healthy port gives what came so far, as JSON: {port: [lateness in ms, ...]}, and forgets it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Endpoint(asyncio.Protocol):
    """One connection. Written by hand: it is to cost little beside what is measured."""

    late: dict[int, list[float]] = {}  # noqa: RUF012  (of all connections)

    def __init__(self, hangs: bool) -> None:
        self._hangs = hangs
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a connection."""
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._late = Endpoint.late.setdefault(transport.get_extra_info("sockname")[1], [])

    def data_received(self, content: bytes) -> None:
        """Answer every request that is there."""
        self._rest += content
        while (end := self._rest.find(b"\r\n\r\n")) >= 0:
            head = self._rest[:end].lower()
            place = head.find(b"content-length:")
            length = int(head[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
            if len(self._rest) < end + 4 + length:
                return
            body, self._rest = self._rest[end + 4 : end + 4 + length], self._rest[end + 4 + length :]
            if head.startswith(b"get"):
                self._tell()
            elif not self._hangs:
                self._late.append(time.time() * 1000 - int(body[:13]))
                self._transport.write(_ANSWER)

    def _tell(self) -> None:
        text = json.dumps(Endpoint.late).encode()
        for late in Endpoint.late.values():
            late.clear()
        self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)


async def main(healthy: int, hanging: int) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    ports = []
    for hangs in [False] * healthy + [True] * hanging:
        server = await loop.create_server(lambda hangs=hangs: Endpoint(hangs), "127.0.0.1", 0, backlog=1_000)
        ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(*map(int, sys.argv[1:])))

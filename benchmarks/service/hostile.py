"""Clients that nobody wants: ``python -m benchmarks.service.hostile PORT KIND``; says ``ready``, and goes on for ever.

idle        10 000 connections that say nothing, opened again when they are cut
slow        200 connections that send a put, one byte a second
tokens      1 000 wrong tokens a second
large       bodies over the limit, one after the other, on 4 connections
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable

import uvloop

from benchmarks.service.client import JOB, request

_IDLE = 10_000
_SLOW = 200
_RATE = 1_000
_LARGE = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_PART = b"10000\r\n" + b" " * 65_536 + b"\r\n"


async def idle(port: int) -> None:
    """Say nothing."""

    async def one() -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=("127.0.0.1", 0))
            await reader.read()
            writer.close()

    tasks = []
    for number in range(_IDLE):
        tasks.append(asyncio.create_task(one()))
        if number % 100 == 0:
            await asyncio.sleep(0.02)
    print("ready", flush=True)
    await asyncio.gather(*tasks)


async def slow(port: int) -> None:
    """Send a byte a second."""

    async def one() -> None:
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                for byte in request("/v1/jobs", JOB):
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(1)
            except OSError:
                writer.close()

    print("ready", flush=True)
    await asyncio.gather(*(one() for _ in range(_SLOW)))


async def tokens(port: int) -> None:
    """Try tokens."""
    wrong = request("/v1/jobs", JOB).replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer pw_x_y\r\n\r\n")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def answers() -> None:
        while await reader.read(1 << 20):
            pass

    task = asyncio.create_task(answers())
    print("ready", flush=True)
    while not task.done():
        writer.write(wrong * (_RATE // 100))
        await asyncio.sleep(0.01)


async def large(port: int) -> None:
    """Send more than may be sent."""

    async def one() -> None:
        while True:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(_LARGE)
                while True:
                    writer.write(_PART)
                    await writer.drain()
            except OSError:
                writer.close()

    print("ready", flush=True)
    await asyncio.gather(*(one() for _ in range(4)))


KINDS: dict[str, Callable[[int], Awaitable[None]]] = {"idle": idle, "slow": slow, "tokens": tokens, "large": large}


def main() -> None:
    """Be a nuisance."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(KINDS[sys.argv[2]](int(sys.argv[1])))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()

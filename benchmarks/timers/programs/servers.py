"""Servers that close a connection on which nothing came for a while: an echo server, and an HTTP server of aiohttp.

python -m benchmarks.timers.programs.servers echo uvloop AsyncTimers

prints its port and serves until its standard input ends. Each message starts the timeout anew, in the way people write
it: where there is only the loop, cancel and `call_later`; with AsyncTimers, `reset`.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import threading
from typing import Any

import pywheel


class EchoByLoop(asyncio.Protocol):
    """Echoes; its timeout is a handle of the loop, a new one for each message."""

    def __init__(self, idle: float) -> None:
        self.seconds = idle
        self.call_later = asyncio.get_running_loop().call_later

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.idle = self.call_later(self.seconds, transport.close)

    def data_received(self, data: bytes) -> None:
        self.idle.cancel()
        self.idle = self.call_later(self.seconds, self.transport.close)
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.idle.cancel()


class EchoByTimers(asyncio.Protocol):
    """Echoes; its timeout is one timer, which each message resets."""

    def __init__(self, timers: pywheel.AsyncTimers, idle: float) -> None:
        self.timers = timers
        self.seconds = idle

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.idle = self.timers.call_later(self.seconds, transport.close)

    def data_received(self, data: bytes) -> None:
        self.idle.reset()
        self.transport.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.idle.cancel()


async def echo(timers: pywheel.AsyncTimers | None, idle: float) -> asyncio.Server:
    """Listen with protocols, as those do who look at the time: streams cost a task and two wake-ups a message more."""

    def connection() -> asyncio.Protocol:
        return EchoByLoop(idle) if timers is None else EchoByTimers(timers, idle)

    return await asyncio.get_running_loop().create_server(connection, "127.0.0.1", 0, backlog=4096)


async def http(timers: pywheel.AsyncTimers | None, idle: float) -> asyncio.Server:
    """Listen with aiohttp: one path, and a middleware that knows when each connection was heard from."""
    from aiohttp import web

    call_later = asyncio.get_running_loop().call_later
    handles: dict[asyncio.Transport, Any] = {}

    def close(transport: asyncio.Transport) -> None:
        del handles[transport]
        transport.close()

    @web.middleware
    async def by_loop(request: web.Request, handler: Any) -> web.StreamResponse:
        transport = request.transport
        handle = handles.get(transport)
        if handle is not None:
            handle.cancel()
        handles[transport] = call_later(idle, close, transport)
        return await handler(request)

    @web.middleware
    async def by_timers(request: web.Request, handler: Any) -> web.StreamResponse:
        transport = request.transport
        timer = handles.get(transport)
        if timer is None:
            handles[transport] = timers.call_later(idle, close, transport)
        else:
            timer.reset()
        return await handler(request)

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello")

    app = web.Application(middlewares=[by_loop if timers is None else by_timers])
    app.router.add_get("/", hello)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    return await asyncio.get_running_loop().create_server(runner.server, "127.0.0.1", 0, backlog=4096)


PROGRAMS = {"echo": echo, "http": http}


async def serve(program: str, timers: str, idle: float) -> None:
    """Print the port, and serve until the standard input ends."""
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    server = await PROGRAMS[program](pywheel.AsyncTimers() if timers == "AsyncTimers" else None, idle)
    print(server.sockets[0].getsockname()[1], flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(over.set)), daemon=True).start()
    await over.wait()
    os._exit(0)  # the connections need no farewell


def loop_named(name: str) -> Any:
    """Return a new loop."""
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return pywheel.EventLoop() if name == "EventLoop" else asyncio.SelectorEventLoop()


def main() -> None:
    """Serve, on one processor if told which."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument("loop", choices=["asyncio", "EventLoop", "uvloop"])
    parser.add_argument("timers", choices=["call_later", "AsyncTimers"])
    parser.add_argument("--idle", type=float, default=10.0, help="seconds (default: %(default)s)")
    parser.add_argument("--processor", type=int, help="the one it runs on (default: any)")
    options = parser.parse_args()
    allow_many_files()
    if options.processor is not None:
        os.sched_setaffinity(0, {options.processor})
    with asyncio.Runner(loop_factory=lambda: loop_named(options.loop)) as runner:
        runner.run(serve(options.program, options.timers, options.idle))


def allow_many_files() -> None:
    """Raise the limit of open files as far as it goes without rights."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    main()

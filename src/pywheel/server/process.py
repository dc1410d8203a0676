"""The service as a process: granian serves it until a signal stops it, and running requests may end.

Of the servers that were measured, granian alone reads no further than it has answered if a client sends and never
reads.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, Final

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server
from starlette.applications import Starlette

from .._errors import StoreError, StoreReplaced
from ..jobs.queries import GetNextLease
from ..stores.contract import Store

_GRACE: Final = 10.0  # seconds for running requests
_IDLE: Final = 65_000  # ms for a head to arrive, from the answer before: longer than proxies keep their connections
_BUFFER: Final = 64 << 10  # bytes of a connection, and so of a head: strangers may hold many unfinished ones
_BACKLOG: Final = 2_048
_MOST: Final = 100_000  # connections
_SPARE: Final = 200  # descriptors for everything else
_YOUNG: Final = 50_000  # objects before a collection: those of a few hundred simultaneous requests
_TURN: Final = 0.001  # seconds: HTTP, requests and store have a thread each, and each waits for the others' turns
_LOOK: Final = 1.0  # seconds between checks that the store's file is still the one that was opened


def address_of(host: str, port: int) -> tuple[str, int]:
    """Return the address and the port to listen at. Port 0 picks a free one. OSError: the port cannot be had."""
    [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    with closing(socket.socket(family, kind, protocol)) as ear:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ear.bind(address)
        name: tuple[Any, ...] = ear.getsockname()
    return name[0], name[1]


def run(app: Starlette, address: tuple[str, int], *, ready: Callable[[], object]) -> None:
    """Serve at an address until SIGTERM or SIGINT, then let running requests end. In the main thread.

    Args:
        app: the result of `pywheel.server.app`.
        address: the result of `address_of`.
        ready: called once the server takes requests.

    Raises:
        StoreReplaced: the store's files were deleted or replaced; running requests have ended.
    """
    gc.collect()
    gc.freeze()  # imported objects stay, and requests leave little that only the collector can free
    gc.set_threshold(_YOUNG, 20, 50)
    sys.setswitchinterval(_TURN)
    try:
        import uvloop
    except ImportError:  # Windows
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    else:
        loop_factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_serve(app, address, ready))


async def _serve(app: Starlette, address: tuple[str, int], ready: Callable[[], object]) -> None:
    context = app.state.context
    server = Server(
        app,
        address=address[0],
        port=address[1],
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_room(),
        log_enabled=False,
        http1_settings=HTTP1Settings(header_read_timeout=_IDLE, max_buffer_size=_BUFFER),
    )
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def heard(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending already
            loop.call_soon_threadsafe(stop.set)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, heard)
    serving = asyncio.create_task(server.serve())
    ends = [serving, asyncio.create_task(stop.wait()), asyncio.create_task(_replaced(context.queue.store))]
    await _listens(serving, address)
    if not serving.done():
        ready()
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    context.stopping.set()  # long polls and streams end
    server.stop()  # type: ignore[no-untyped-call]
    await asyncio.wait([serving], timeout=_GRACE)
    loop.set_exception_handler(_log_unless_ended)
    for end in ends:
        end.cancel()
    for outcome in await asyncio.gather(*ends, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


def _log_unless_ended(loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
    """Log an error, except granian's: it ends its future when requests that were given up have ended."""
    if not isinstance(about.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(about)


async def _listens(serving: asyncio.Task[None], address: tuple[str, int]) -> None:
    """Return when the server takes connections, or has failed."""
    while not serving.done():
        with suppress(OSError):
            _, writer = await asyncio.open_connection(*address)
            writer.close()
            return
        await asyncio.sleep(0.005)


async def _replaced(store: Store) -> None:
    """Raise StoreReplaced once the store's files are others: every request would fail, and its jobs are elsewhere."""
    while True:
        await asyncio.sleep(_LOOK)
        if store.url.startswith("sqlite:"):  # no other store has files
            try:
                await asyncio.to_thread(store.ask, GetNextLease())
            except StoreReplaced:
                raise
            except (StoreError, RuntimeError, MemoryError):  # the next request gets the error; no thread, no room
                pass


def _room() -> int:
    """Raise the limit of descriptors to its maximum, and return how many connections that allows."""
    try:
        import resource
    except ImportError:  # Windows
        return _MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return _MOST if soft == resource.RLIM_INFINITY else min(max(soft - _SPARE, 16), _MOST)

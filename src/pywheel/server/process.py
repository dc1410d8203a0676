"""The service as a process of its own: it listens until it is told to stop, and drains."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn

from .._errors import StoreError, StoreReplaced
from ..jobs.queries import GetNextLease
from .protocol import Protocol

if TYPE_CHECKING:
    from .context import Context
    from .service import Service

__all__ = ["listening", "run"]

_GRACE: Final = 10  # seconds for requests that are under way
_KEEP_ALIVE: Final = 65  # seconds: longer than proxies keep theirs, or they would meet closed connections
_BACKLOG: Final = 2_048
_SPARE: Final = 200  # descriptors for everything else
_YOUNG: Final = 50_000  # objects, before the collector looks: those of a few hundred requests at once
_MOST_CUT: Final = 200  # in a sweep
_LOOK: Final = 1.0  # seconds between looks whether the store's file is still the one that was opened
_TICKS: Final = 10  # of uvicorn's, a second together: each has its part of a sweep


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. OSError: the address cannot be had."""
    [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    ear = socket.socket(family, kind, protocol)
    try:
        ear.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ear.bind(address)
        ear.listen(_BACKLOG)
    except BaseException:
        ear.close()
        raise
    return ear


def run(app: Service, ear: socket.socket, *, ready: Callable[[], object]) -> None:
    """Serve on a socket until SIGTERM or SIGINT; then let what is under way end. A second signal ends that.

    Args:
        app: what `pywheel.server.app` returned.
        ear: a socket that listens.
        ready: called once requests are taken.

    Raises:
        StoreReplaced: the store's files were deleted or replaced; what was under way has ended.
    """
    Protocol.most = _room()
    gc.collect()
    gc.freeze()  # what was imported stays; and requests leave little that only the collector can free
    gc.set_threshold(_YOUNG, 20, 50)
    config = uvicorn.Config(
        app.edge,
        http=Protocol,
        ws="none",
        lifespan="on",
        backlog=_BACKLOG,
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_GRACE,
        proxy_headers=False,
    )
    server = _Server(config, app.state.context, ready)
    server.run(sockets=[ear])
    if server.replaced is not None:
        raise server.replaced


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, context: Context, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._context = context
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unswept: list[Protocol] = []
        self._looking: asyncio.Task[None] | None = None
        self.replaced: StoreReplaced | None = None
        """Why it has stopped by itself."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        if self._context.queue.store.url.startswith("sqlite:"):  # no other store has files
            self._looking = self._loop.create_task(self._look())
        self._ready()

    async def _look(self) -> None:
        """Stop once the store's files are others: every request would fail, and its jobs lie elsewhere."""
        while not self.should_exit:
            await asyncio.sleep(_LOOK)
            try:
                await asyncio.to_thread(self._context.queue.store.ask, GetNextLease())
            except StoreReplaced as error:
                self.replaced = error
                self.should_exit = True
            except StoreError:  # whoever asks for something is told
                pass

    async def on_tick(self, counter: int) -> bool:
        self._sweep(counter % _TICKS, asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def _sweep(self, part: int, now: float) -> None:
        """Cut connections that are too slow: a part of all at each tick, or others would wait for thousands.

        And some of these only: all at once they would come back all at once.
        """
        if part == 0:
            self._unswept = list(self.server_state.connections)  # type: ignore[arg-type]  # they are of our protocol
        size, cut = -(-len(self._unswept) // (_TICKS - part)), 0
        for _ in range(size):
            cut += self._unswept.pop().sweep(now)
            if cut >= _MOST_CUT // _TICKS:
                break

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.stopping.set()  # long polls and streams end
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on signals, and end well: uvicorn's own raises them again."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.force_exit = self.should_exit
        self.should_exit = True


def _room() -> int:
    """Let this process have as many descriptors as it may; return how many connections that is."""
    try:
        import resource
    except ImportError:  # Windows
        return Protocol.most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    return Protocol.most if soft == resource.RLIM_INFINITY else max(soft - _SPARE, 16)

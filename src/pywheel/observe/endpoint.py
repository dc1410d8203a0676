"""A small HTTP server in a worker process: metrics for Prometheus, and probes of its health."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from http import HTTPStatus
from typing import Final

from .._errors import BadOption
from ..events import Events
from .prometheus import PrometheusMetrics

_LOGGER: Final = logging.getLogger("pywheel.endpoint")
_STALL: Final = 30.0  # seconds without a turn of the dispatcher after which a worker is not alive
_SLOW: Final = 5.0  # seconds that a client may take for its request, and again for the answer
_CLIENTS: Final = 16  # clients at once; one more ends the oldest connection
_WAITING: Final = 128  # connections that the system keeps until they are accepted


class Endpoint:
    """A server of ``/metrics``, ``/healthz`` (the dispatcher turns) and ``/readyz`` (the worker takes jobs).

    Each process has its own port, as each has its own counts. The server takes the first free one of `ports` ports from
    `port` on. One daemon thread answers all clients.

    Args:
        events: the events of the worker's queue, which are counted from now on.
        port: the first port; 0 for any free one.
        host: the address to listen on; by default reachable from this machine alone.
        ports: how many ports to try.

    Raises:
        ExtraMissing: prometheus-client is not installed.
        BadOption: none of the ports is free, or the host is not here.
    """

    def __init__(self, events: Events, port: int, host: str = "127.0.0.1", ports: int = 1) -> None:
        self.metrics = PrometheusMetrics()
        self._heard: float | None = None  # when the dispatcher last turned
        self._ready = False
        self._clients: dict[asyncio.StreamWriter, None] = {}  # oldest first
        listening = _bound(host, port, ports)
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self.address: tuple[str, int] = listening.getsockname()[:2]  # an IPv6 name has four parts
        """The host and the port where it listens."""
        events.listen(self.metrics)
        self._thread = threading.Thread(target=self._run, args=(listening,), name="pywheel-endpoint", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address of the metrics."""
        host, port = self.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    def pulse(self, *, ready: bool) -> None:
        """Note a turn of the worker's dispatcher. Pass this method to `Worker` as `pulse`."""
        self._heard, self._ready = time.monotonic(), ready

    def close(self) -> None:
        """Stop the server."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _run(self, listening: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # its end cancels open requests
            runner.run(self._serve(listening))

    async def _serve(self, listening: socket.socket) -> None:
        # asyncio accepts as many clients in each turn of its loop as the backlog has. One by one, the descriptors of
        # those beyond the bound are closed in time, and a probe is read before a crowd behind it ends its connection.
        server = await asyncio.start_server(self._client, sock=listening, backlog=1)
        listening.listen(_WAITING)
        await self._closing.wait()
        server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request. A probe gets its answer at once, however many clients there are."""
        if len(self._clients) >= _CLIENTS:
            oldest = next(iter(self._clients))
            del self._clients[oldest]  # now, as its task ends later, and the next client must end another one
            oldest.transport.abort()
        self._clients[writer] = None
        writer.transport.set_write_buffer_limits(0)
        try:
            async with asyncio.timeout(_SLOW):
                head = await reader.readuntil(b"\r\n\r\n")
            async with asyncio.timeout(_SLOW):
                writer.write(self._response(*head.decode("latin-1").splitlines()))
                await writer.drain()  # wait until the system has all of it
        except Exception as error:  # noqa: BLE001  (a client's head, or its connection)
            _LOGGER.debug("a request failed: %r", error)
        finally:
            self._clients.pop(writer, None)
            writer.transport.abort()

    def _response(self, request: str, *lines: str) -> bytes:
        method, _, path = request.partition(" ")
        fields = dict(line.lower().partition(":")[::2] for line in lines)
        status, kind, body = HTTPStatus.NOT_IMPLEMENTED, "text/plain", b"ask with GET\n"
        if method in ("GET", "HEAD"):
            status, kind, body = self._answer(path.partition(" ")[0].partition("?")[0], fields.get("accept", ""))
        head = f"HTTP/1.0 {status} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + (b"" if method == "HEAD" else body)

    def _answer(self, path: str, accept: str) -> tuple[HTTPStatus, str, bytes]:
        alive = self._heard is None or time.monotonic() - self._heard < _STALL  # no turn yet: it may be starting
        match path:
            case "/metrics":
                return (HTTPStatus.OK, *self.metrics.exposition(accept))
            case "/healthz":
                return _said(alive, "alive", "the dispatcher stands still")
            case "/readyz":
                return _said(alive and self._ready and not self.metrics.draining, "ready", "takes no jobs")
            case _:
                return HTTPStatus.NOT_FOUND, "text/plain", b"there are /metrics, /healthz and /readyz\n"


def _said(good: bool, yes: str, no: str) -> tuple[HTTPStatus, str, bytes]:
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return status, "text/plain", f"{yes if good else no}\n".encode()


def _bound(host: str, port: int, ports: int) -> socket.socket:
    """Return a socket that listens on the first free port. BadOption if there is none."""
    last: OSError | str = "there is no such port"
    for tried in range(port, min(port + (ports if port else 1), 1 << 16)):
        try:
            return socket.create_server((host, tried), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            last = error
    span = str(port) if ports == 1 else f"{port} to {port + ports - 1}"
    raise BadOption(f"no metrics on {host} port {span}: {last}")

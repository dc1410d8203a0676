"""A worker's own small HTTP server: its metrics, and whether it is alive, for Prometheus and for probes."""

from __future__ import annotations

import logging
import math
import socket
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseServer, TCPServer
from typing import Any, Final

from .._errors import BadOption
from ..events import Events
from .prometheus import PrometheusMetrics

__all__ = ["Endpoint"]

_LOGGER: Final = logging.getLogger("pywheel.endpoint")
_STALL: Final = 30.0  # seconds without a turn of the dispatcher after which a worker is not alive
_SLOW: Final = 5.0  # seconds that a client may take for its request, and again for the answer
_CLIENTS: Final = 16  # at once; for one more the oldest is sent away
_THREADS: Final = 64  # of clients that were sent away, too, and whose threads have not ended


class Endpoint:
    """``/metrics`` for Prometheus, ``/healthz`` (the dispatcher turns) and ``/readyz`` (the worker takes jobs).

    A process has one port of its own: what two workers have counted cannot be told on one. Of `ports` ports from `port`
    on it takes the first that is free. It answers in daemon threads.

    Args:
        events: those of the worker's queue; they are counted from now on.
        port: the first port; 0 for any that is free.
        host: where it listens: on this machine alone unless told.
        ports: how many ports are tried.

    Raises:
        TelemetryMissing: prometheus-client is not installed.
        BadOption: none of the ports is free, or the host is not here.
    """

    def __init__(self, events: Events, port: int, host: str = "127.0.0.1", ports: int = 1) -> None:
        self.metrics = PrometheusMetrics()
        self._heard: float | None = None  # when the dispatcher last turned
        self._ready = False
        self._server = _bound(host, port, ports, self)
        self.address: tuple[str, int] = self._server.server_address[:2]  # type: ignore[assignment]  # of IPv4 and IPv6
        """Where it listens."""
        events.listen(self.metrics)
        threading.Thread(target=self._server.serve_forever, name="pywheel-endpoint", daemon=True).start()

    @property
    def url(self) -> str:
        """The address of its metrics."""
        host, port = self.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics"

    def pulse(self, *, ready: bool) -> None:
        """Note a turn of the worker's dispatcher: `Worker`'s argument of this name."""
        self._heard, self._ready = time.monotonic(), ready

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, accept: str) -> tuple[int, str, bytes]:
        """Return status, content type and body."""
        match path.partition("?")[0]:
            case "/metrics":
                return (200, *self.metrics.exposition(accept))
            case "/healthz":
                return _said(self._alive, "alive", "the dispatcher stands still")
            case "/readyz":
                return _said(self._alive and self._ready and not self.metrics.draining, "ready", "takes no jobs")
            case _:
                return 404, "text/plain", b"there are /metrics, /healthz and /readyz\n"

    @property
    def _alive(self) -> bool:
        """Whether it works; also before its first turn, which may wait for its store."""
        return self._heard is None or time.monotonic() - self._heard < _STALL


def _said(good: bool, yes: str, no: str) -> tuple[int, str, bytes]:
    return (200, "text/plain", f"{yes}\n".encode()) if good else (503, "text/plain", f"{no}\n".encode())


def _bound(host: str, port: int, ports: int, endpoint: Endpoint) -> _Server:
    """Return a server on the first free port. BadOption if there is none."""
    last: OSError | OverflowError | None = None
    for tried in range(port, port + (ports if port else 1)):
        try:
            return _Server((host, tried), endpoint)
        except (OSError, OverflowError) as error:
            last = error
    span = str(port) if ports == 1 else f"{port} to {port + ports - 1}"
    raise BadOption(f"no metrics on {host} port {span}: {last}") from last


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._room = threading.BoundedSemaphore(_THREADS)
        self._clients: dict[socket.socket, float] = {}  # since when each is there, oldest first
        self._mutex = threading.Lock()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _Request)

    def server_bind(self) -> None:
        """Bind, without asking the name service what this host is called."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; a probe is answered at once, whoever else is there."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        with self._mutex:
            if len(self._clients) >= _CLIENTS:
                self._cut(next(iter(self._clients)))
            self._clients[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Cut clients whose request takes too long, twice a second."""
        late = time.monotonic() - _SLOW
        with self._mutex:
            for client in [client for client, since in self._clients.items() if since < late]:
                self._cut(client)

    def _cut(self, client: socket.socket) -> None:
        """Let a client's thread end."""
        del self._clients[client]
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def heard(self, client: socket.socket) -> None:
        """Note that a request has come: its answer has a time limit of its own."""
        with self._mutex:
            if client in self._clients:
                self._clients[client] = math.inf

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer one client."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def shutdown_request(self, request: Any) -> None:
        """Forget a client before its socket is closed."""
        with self._mutex:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Say in the log that a client went away, or what went wrong."""
        _LOGGER.debug("a request failed: %r", sys.exception())


class _Request(BaseHTTPRequestHandler):
    timeout = _SLOW
    server_version = "pywheel"
    sys_version = ""

    def __init__(self, request: Any, client_address: Any, server: BaseServer) -> None:
        assert isinstance(server, _Server)
        self._endpoint, self._heard = server.endpoint, server.heard
        super().__init__(request, client_address, server)

    def do_GET(self) -> None:
        self._heard(self.connection)
        status, content_type, body = self._endpoint.answer(self.path, self.headers.get("Accept", ""))
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Say nothing: scrapers come every few seconds."""

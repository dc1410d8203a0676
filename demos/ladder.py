"""The second half of the demo: an endpoint that refuses, is too slow, is ill, and then answers."""

from __future__ import annotations

import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rich.console import Console

from pywheel import Job, JobQueue, Ladder, Worker
from pywheel.cli.output import table
from pywheel.jobs import State

_LADDER = ("250ms", "500ms", "1s", "2s")
_TIMEOUT = 0.3


class _Endpoint(BaseHTTPRequestHandler):
    """Slow at first, then ill, then well."""

    calls = 0

    def do_POST(self) -> None:
        """Answer, or not."""
        type(self).calls += 1
        if self.calls == 1:
            time.sleep(3 * _TIMEOUT)
        self.send_response(503 if self.calls == 2 else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""


def climb(console: Console, url: str) -> bool:
    """Show a notification that climbs its ladder; return whether it arrived."""
    console.print("\n[bold]A notification[/] whose endpoint refuses, is too slow, is ill, then answers")
    console.print(f"ladder {', '.join(_LADDER)}\n")
    _Endpoint.calls = 0
    logging.getLogger("pywheel.jobs").setLevel(logging.CRITICAL)  # the table says it
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]  # nobody listens there: refused
    with JobQueue(url) as queue:
        servers: list[ThreadingHTTPServer] = []

        @queue.handler("shop.notify", ttr="5s", retry=Ladder(*_LADDER))
        def notify(job: Job) -> None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", job.body, timeout=_TIMEOUT):
                    return
            finally:
                if not servers:
                    servers.append(_serve(port))

        worker = Worker(queue, grace=1)
        worker.start()
        try:
            id = queue.put("shop.notify", {"order": 7, "paid": True})
            end = time.monotonic() + 30
            while queue.get(id).state.live and time.monotonic() < end:
                time.sleep(0.02)
        finally:
            worker.stop()
            worker.join(10)
            for server in servers:
                server.shutdown()
                server.server_close()
        attempts = queue.jobs.history(id)
        first = attempts[0].started or 0
        rows = [
            (a.attempt, f"{((a.started or 0) - first) / 1000:.2f} s", a.outcome, a.error or "answered")
            for a in attempts
        ]
        console.print(table(("attempt", "after", "outcome", ""), rows))
        return queue.get(id).state is State.DONE


def _serve(port: int) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", port), _Endpoint)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server

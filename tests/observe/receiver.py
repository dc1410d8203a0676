"""A real HTTP server that takes alarms, and answers what a test says."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

__all__ = ["receiver"]


@pytest.fixture
def receiver():
    with received() as found:
        yield found


@contextlib.contextmanager
def received():
    class Receiver(BaseHTTPRequestHandler):
        got, status, location = [], 204, None

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.got.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(self.status)
            if self.location:
                self.send_header("Location", self.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self):  # whoever followed a redirect would come here
            self.got.append(None)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Receiver.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield Receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

"""A network of the tests' own: a proxy between clients and a server, which loses, delays and refuses."""

from __future__ import annotations

import contextlib
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.jobs.waiting import until

__all__ = ["Proxy", "kept_at_each_message"]

CHUNK = 1 << 16


class Proxy:
    """Carries bytes between clients and a server; closed by `close` or `with`.

    It listens on a Unix socket beside the server's, or with `tcp` on the loopback. Each server's `url(via=proxy)` leads
    through it.
    """

    def __init__(self, server, *, tcp=False):
        self.address: str | Path
        """A path, or host:port."""
        self._server = server
        self._tcp = tcp
        self._changed = threading.Condition()
        self._links = set()
        self._stalled = {"requests": False, "answers": False}
        self._passing = {"requests": 0, "answers": 0}  # pieces that go through all the same
        self.kept = 0
        """Pieces that are kept now."""
        self._left = {"requests": None, "answers": None}  # bytes until the cut
        self.passed = {"requests": 0, "answers": 0}
        """Bytes that went through."""
        if tcp:
            self._listener = socket.create_server(("127.0.0.1", 0))
            self._port = self._listener.getsockname()[1]
            self.address = f"127.0.0.1:{self._port}"
        else:
            self._folder = server.folder / f"proxy{next(server._numbers)}"
            self._folder.mkdir()
            self.address = self._folder / server.socket.name
            self._listener = None
            self._listen()
        self._serve()

    @property
    def links(self):
        """How many connections there are."""
        return len(self._links)

    def postgres_place(self):
        """Return libpq's options that lead here."""
        if self._tcp:
            return {"host": "127.0.0.1", "port": self._port}
        return {"host": str(self._folder), "port": self._server.port}

    def cut(self):
        """Break every connection, and refuse new ones."""
        with self._changed:
            listener, self._listener = self._listener, None
            self._break()
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the accept
            listener.close()

    def cut_once(self):
        """Break every connection; new ones are welcome."""
        with self._changed:
            self._break()

    def lead_to(self, server, *, at_once=True):
        """Lead to another server from now on, and break every connection; unless `at_once`, these go on as they are."""
        with self._changed:
            self._server = server
            if at_once:
                self._break()

    def cut_after(self, *, requests=None, answers=None):
        """Break every connection after this many more bytes; new connections work."""
        with self._changed:
            self._left = {"requests": requests, "answers": answers}

    def stall(self, *, requests=True, answers=True, after=0):
        """Keep what arrives, as a network does that loses all: nothing breaks and nothing is delivered.

        `after` pieces each way pass before that: a client that waits for each answer sends one piece in a trip, if it
        is small.
        """
        with self._changed:
            self._passing = dict.fromkeys(self._passing, after)
            self._stalled = {"requests": requests, "answers": answers}

    def heal(self):
        """Let everything through again: also what was kept."""
        with self._changed:
            self._stalled = dict.fromkeys(self._stalled, False)
            self._left = dict.fromkeys(self._left)
            self._changed.notify_all()
            if self._listener is not None:
                return
            self._listen()
        self._serve()

    def close(self):
        """End it. Idempotent."""
        self.cut()
        with self._changed:
            self._changed.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _listen(self):
        if self._tcp:
            self._listener = socket.create_server(("127.0.0.1", self._port))
            return
        self.address.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.address))
        self._listener.listen(128)

    def _serve(self):
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            try:
                server = self._server.dial()
            except OSError:
                client.close()
                continue
            link = _Link(client, server)
            with self._changed:
                if self._listener is not listener:
                    link.end()
                self._links.add(link)
            for source, sink, way in ((client, server, "requests"), (server, client, "answers")):
                threading.Thread(target=self._carry, args=(link, source, sink, way), daemon=True).start()

    def _carry(self, link, source, sink, way):
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                with self._changed:
                    if self._stalled[way]:
                        self._keep(link, way)
                    if link.ended:
                        break
                    left = self._left[way]
                    data = data if left is None else data[:left]
                    self.passed[way] += len(data)
                    if left is not None:
                        self._left[way] = left - len(data)
                sink.sendall(data)
                if left == len(data):
                    with self._changed:
                        self._left = dict.fromkeys(self._left)
                        self._break()
        with self._changed:
            link.end()
            if link.carriers_left():
                return
            self._links.discard(link)
        link.close()

    def _keep(self, link, way):
        """Wait while a piece is to be kept."""
        if not self._passing[way]:
            self.kept += 1
            self._changed.wait_for(lambda: link.ended or not self._stalled[way])
            self.kept -= 1
        else:
            self._passing[way] -= 1

    def _break(self):
        for link in self._links:
            link.end()
        self._changed.notify_all()


def kept_at_each_message(proxy, begin):
    """Keep a call in the network before each of its messages in turn, until one goes through.

    `begin` makes ready for a topic, and returns the call. While it is kept, or done, yield the topic and its future.
    """
    for sends in range(20):
        call = begin(topic := f"t{sends}")
        proxy.stall(answers=False, after=sends)
        with ThreadPoolExecutor(1) as threads:
            try:
                answer = threads.submit(call)
                until(lambda answer=answer: answer.done() or proxy.kept)
                through = answer.done()
                yield topic, answer
            finally:
                proxy.heal()
        if through:
            return
    raise AssertionError("it was kept each time")


class _Link:
    """Two sockets, and the two threads that carry between them."""

    def __init__(self, client, server):
        self._sockets = (client, server)
        self._carriers = 2
        self.ended = False

    def end(self):
        """End both threads, also if a forked child has the sockets."""
        self.ended = True
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def carriers_left(self):
        self._carriers -= 1
        return self._carriers

    def close(self):
        for each in self._sockets:
            each.close()

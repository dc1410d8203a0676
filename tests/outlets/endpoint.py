"""An endpoint of the tests' own, on a real socket. A test sets its answer for each path, byte by byte if need be."""

import asyncio
import threading
from typing import NamedTuple

from tests.jobs.waiting import LIMIT

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Request(NamedTuple):
    """A request to the endpoint."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    lines: list[bytes]
    body: bytes


def answer(status, body=b"", *headers, version=b"1.1"):
    """Return the bytes of an answer."""
    lines = [b"HTTP/%s %d X" % (version, status), b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class Endpoint:
    """Serves in a thread of its own, until `close`.

    `answers[path]` is bytes, or a coroutine function of (request, reader, writer), after which it hangs up.
    """

    def __init__(self, tls=None, host="127.0.0.1", port=0):
        self.answers = {}
        self.requests = []
        self.connections = 0
        self._tls = tls
        self._loop = asyncio.new_event_loop()
        self._tasks = set()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(host, port, started), daemon=True)
        self._thread.start()
        assert started.wait(LIMIT)

    def url(self, path="/", host="127.0.0.1"):
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    def paths(self):
        return [request.path for request in self.requests]

    def _run(self, host, port, started):
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, host, port, ssl=self._tls, limit=1 << 22)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        self._server.close()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader, writer):
        self.connections += 1
        task = asyncio.current_task()
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        method, path, _ = first.decode("latin-1").split(" ")
        pairs = [line.decode("latin-1").partition(": ") for line in lines]
        headers = {name.lower(): value for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(method, path, headers, lines, body)
        self.requests.append(request)
        said = self.answers.get(path.partition("?")[0], OK)
        if isinstance(said, bytes):
            writer.write(said)
            await writer.drain()
            return headers.get("connection") != "close"
        await said(request, reader, writer)
        return False

    def close(self):
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


async def hang(request, reader, writer):
    """Say nothing."""
    await reader.read()


def once(event):
    """An answer that comes once an event of the endpoint's loop is set."""

    async def act(request, reader, writer):
        await event.wait()
        writer.write(answer(200, b"", b"Connection: close"))
        await writer.drain()

    return act


def bytes_and_then(content, then="close"):
    """Say these bytes, then close, reset, or hang."""

    async def said(request, reader, writer):
        writer.write(content)
        await writer.drain()
        if then == "hang":
            await reader.read()
        elif then == "reset":
            writer.transport.abort()

    return said


def for_ever(head, part):
    """Say the same again and again, until the connection is closed."""

    async def said(request, reader, writer):
        writer.write(head)
        while True:
            writer.write(part)
            await writer.drain()
            said.sent += len(part)
            await asyncio.sleep(0)

    said.sent = 0
    return said

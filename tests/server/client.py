"""A client of the service for tests: to the application itself, without a socket, or to a process."""

import asyncio
import functools
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx

from pywheel.server import app
from tests.jobs.waiting import LIMIT

OPEN = {"access": "open"}


class Api:
    """The application of a queue, asked without a socket. Each request is over when it returns."""

    def __init__(self, queue, **words):
        self.queue = queue
        self.app = app(queue, **{**OPEN, **words})
        self.runner = asyncio.Runner()
        self.headers = {}

    @property
    def context(self):
        return self.app.state.context

    def __call__(self, method, path, **words):
        return self.run(self.ask(method, path, **words))

    async def ask(self, method, path, **words):
        headers = {**self.headers, **words.pop("headers", {})}
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.request(method, path, headers=headers, **words)

    async def waiting(self, count=1):
        """Return once `count` requests wait for jobs."""
        while (waiting := self.context.waiting) is None or waiting.count < count:
            await asyncio.sleep(0.001)

    def run(self, coroutine):
        return self.runner.run(coroutine)

    def put(self, topic="mail", **words):
        answer = self("POST", "/v1/jobs", json={"topic": topic, **words})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def job(self, id):
        return self("GET", f"/v1/jobs/{id}").json()

    def reserve(self, *topics, **words):
        answer = self("POST", "/v1/reserve", json={"topics": topics or ["mail"], **words})
        return answer.json()["jobs"] if answer.status_code == 200 else []

    def waits(self, *topics):
        """Begin to wait for jobs of topics; return the task."""
        return asyncio.ensure_future(self.ask("POST", "/v1/reserve", json={"topics": topics or ["mail"], "wait": 30}))

    def settle(self, job, how, **words):
        return self("POST", f"/v1/claims/{job['receipt']}/{how}", **words)

    def close(self):
        self.run(_closed(self.context))
        self.runner.close()


def on_its_loop(test):
    """Run a test that is a coroutine on the loop of its service `api`, for a minute at most."""

    @functools.wraps(test)
    def run(api, **fixtures):
        api.run(asyncio.wait_for(test(api, **fixtures), 60))

    return run


async def turns_until(request):
    """Return the answer to a request, and how many turns others had meanwhile."""
    turns = 0
    while not request.done():
        turns += 1
        await asyncio.sleep(0)
    return await request, turns


def scope(path, method="GET", query=b"", headers=()):
    """Return what an application is told of a request, for those that no client sends."""
    return {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "", "query_string": query,
        "headers": [(b"host", b"localhost"), *headers], "client": ("127.0.0.1", 1), "server": ("localhost", 80),
    }  # fmt: skip


class Exchange:
    """A request by ASGI's own messages, of a client that may go away, or takes `takes` messages and then no more."""

    def __init__(self, app, asked, content=b"", takes=None):
        self.sent = []
        self.gone, self.stuck, self.goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._left = [{"type": "http.request", "body": content}]
        self._takes = takes
        self.request = asyncio.ensure_future(app(asked, self._receive, self._send))

    async def close(self):
        """End the request, as a server does when its client has gone."""
        self.request.cancel()
        await asyncio.wait([self.request])

    async def _receive(self):
        if self._left:
            return self._left.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.sent.append(message)
        if self._takes is not None and len(self.sent) > self._takes:
            self.stuck.set()
            await self.goes_on.wait()


def bearer(token):
    """Return the headers of requests with a token, for the API and the page; none without one."""
    return {"authorization": f"Bearer {token}", "cookie": f"pywheel_token={token}"} if token else {}


async def begun(api, path, token=""):
    """Return a stream that has begun, or was refused."""
    headers = [(name.encode(), value.encode()) for name, value in bearer(token).items()]
    stream = Exchange(api.app, scope(path, headers=headers))
    while len(stream.sent) < 2:
        await asyncio.sleep(0.001)
    return stream


async def _closed(context):
    context.stopping.set()
    await asyncio.sleep(0)
    context.close()


def problem(answer):
    """Return the kind of problem that an answer is, which has the form that RFC 9457 asks for."""
    assert answer.headers.get("content-type") == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["title"]
    assert document["detail"]
    return document["type"].removeprefix("urn:pywheel:problem:")


class Process:
    """``pywheel serve`` on a free port, over a store in a folder unless another one is named."""

    def __init__(self, folder, *options, target=(), store=None):
        self.store = store or f"sqlite:///{folder}/jobs.db"
        self.log = folder / "server.log"
        told = ["serve", *target, "--store", self.store, "--port", "0", *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pywheel.cli", *told], stdout=log, stderr=log, cwd=folder
            )
        self.port = self._port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=60, verify=False)

    def _port(self):
        until = time.monotonic() + LIMIT
        while time.monotonic() < until and self.process.poll() is None:
            text = self.log.read_text()
            if " on http://" in text:
                return int(text.partition(" on http://127.0.0.1:")[2].partition(" ")[0])
            time.sleep(0.02)
        raise AssertionError(self.log.read_text())

    def __call__(self, method, path, **words):
        return self.client.request(method, path, **words)

    @contextmanager
    def raw(self):
        """A connection of its own, for bytes that no client sends."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            yield connection

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.stop() == 0

    def stop(self, number=signal.SIGTERM):
        """Tell it to stop; return its exit code."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        try:
            return self.process.wait(LIMIT)
        finally:
            self.process.kill()
            self.client.close()


def listens(port):
    """Whether somebody takes connections at a port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


def read_all(connection):
    """Return all that comes until the other end closes."""
    parts = []
    while part := connection.recv(65_536):
        parts.append(part)
    return b"".join(parts)

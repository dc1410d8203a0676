"""A server of the page on a socket, in a thread, for tests with and without a browser."""

import asyncio
import contextlib
import html
import re
import threading
from urllib.parse import urlencode

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount

from pywheel.jobs.commands import Nack
from pywheel.server import app
from pywheel.server.access import Access
from pywheel.server.tokens import Grant
from tests.jobs.waiting import LIMIT


class Known(dict):
    """What tokens allow, by their secrets, which are names here."""

    def grant(self, secret):
        return self.get(secret)


def tokens():
    return Known(
        viewer=Grant("1", frozenset({"read"}), ("*",), None),
        operator=Grant("2", frozenset({"read", "put"}), ("*",), None),
        admin=Grant("3", frozenset({"admin"}), ("*",), None),
        worker=Grant("4", frozenset({"work"}), ("*",), None),
        shop_admin=Grant("5", frozenset({"admin"}), ("shop.*",), None),
    )


class Server(uvicorn.Server):
    """Ends as soon as it is told to, and not at its next look around."""

    async def main_loop(self):
        self.ended = asyncio.Event()
        await self.ended.wait()

    async def shutdown(self, sockets=None):
        for server in self.servers:
            server.close()
        for connection in [*self.server_state.connections]:
            connection.shutdown()
        async with asyncio.timeout(LIMIT):
            while self.server_state.connections or self.server_state.tasks:
                await asyncio.sleep(0.001)


class Site:
    """The service of a queue at http://127.0.0.1:port/prefix; `restart` keeps the port."""

    def __init__(self, queue, *, prefix="", known=None, **options):
        self.queue = queue
        self.prefix = prefix
        self.tokens = known
        self.options = options
        self.port = 0
        self.start()

    def start(self):
        service = app(self.queue, access="open", **self.options)
        self.context = service.state.context
        if self.tokens is not None:
            self.context.access = Access("tokens", self.tokens)
        mounted = Starlette(routes=[Mount(self.prefix, service)]) if self.prefix else service
        config = uvicorn.Config(
            mounted,
            host="127.0.0.1",
            port=self.port,
            log_level="warning",
            lifespan="off",
            proxy_headers=False,  # as the service's own server
        )
        self.server = Server(config)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            threading.Event().wait(0.005)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}{self.prefix}"

    def _run(self):
        async def serve():
            self.loop = asyncio.get_running_loop()
            await self.server.serve()

        asyncio.run(serve())

    def stop(self):
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.context.stopping.set)
            self.loop.call_soon_threadsafe(self.server.ended.set)
        self.thread.join(60)
        assert not self.thread.is_alive()
        self.context.close()

    def restart(self):
        self.stop()
        self.start()

    def client(self, token=None, **headers):
        """Return a browser's requests without the browser."""
        cookies = {"pywheel_token": token} if token else None
        sent = {"sec-fetch-site": "same-origin", **headers}
        return httpx.Client(base_url=self.url, cookies=cookies, headers=sent, timeout=30, verify=False)


def post(client, path, **fields):
    """Send a form as a browser does."""
    content = urlencode(fields, doseq=True)
    return client.post(path, content=content, headers={"content-type": "application/x-www-form-urlencoded"})


def act(client, queue, id, **fields):
    """Send a form of a job's page that shows the job as it is now."""
    job = queue.get(id)
    return post(client, f"/jobs/{id}", shown=f"{job.state}.{job.claims}", **fields)


def dead(queue, topic="shop.notify", error="it failed", **words):
    """Put a job and let it die; return its id."""
    id = queue.put(topic, {"n": 1}, **words)
    [job] = queue.reserve(topic)
    queue.store.apply([Nack(job.id, job.claims, None, error)])
    return id


def said(client, answer):
    """Return what the page after an action says was done."""
    assert answer.status_code == 303, answer.text
    client.cookies.update(answer.cookies)
    page = client.get(answer.headers["location"].removeprefix(client.base_url.path.rstrip("/")))
    client.cookies.delete("pywheel_said")
    found = re.search(r'<p class="said"[^>]*>(.*?)</p>', page.text)
    return found[1] if found else ""


def typed(text):
    """Return what the fields of a form have in them, by name."""
    fields = dict(re.findall(r'<input (?:id="\w+"|type="hidden") name="(\w+)" value="([^"]*)"', text))
    fields |= dict(re.findall(r'<textarea id="(\w+)"[^>]*>\n(.*?)</textarea>', text, re.DOTALL))
    for name, options in re.findall(r'<select id="(\w+)" name="\w+">(.*?)</select>', text):
        fields[name] = "".join(re.findall(r'<option value="(\w*)" selected>', options))
    return {name: html.unescape(value) for name, value in fields.items() if name not in ("next", "form")}


def buttons(text):
    """Return the actions that a page offers."""
    found = re.findall(r'<button[^>]* name="(action|delay)" value="(\w+)"', text)
    return sorted({"reschedule" if name == "delay" else value for name, value in found})


def found(text):
    return [int(id) for id in re.findall(r'<th scope="row"><a href="[^"]*/jobs/(-?\d+)"', text)]


def pages_of(client, path):
    """Return the ids that a search finds, page by page."""
    seen = []
    while path:
        text = client.get(path).text
        seen += found(text)
        link = re.search(r'href="([^"]+)" rel="next"', text)
        path = link and html.unescape(link[1])
    return seen

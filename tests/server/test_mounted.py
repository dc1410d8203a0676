"""The service within another program, under a path of its own."""

import ast
import asyncio
import contextlib
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

import pywheel.server
from pywheel.server import app
from tests.server.client import Exchange, problem, scope


def hello(request):
    return PlainTextResponse("hello")


async def passes(request, go_on):
    return await go_on(request)


@pytest.fixture(params=["/jobs", "/a/b", ""])
def ask(queue, request):
    """Return what asks the program, and the path that the service is under."""
    service = app(queue, access="open")
    routes = [Route("/hello", hello), Mount(request.param, service)]
    program = Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=passes)])

    async def asked(method, path, words):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(program), base_url="http://localhost") as client:
            return await client.request(method, path, **words)

    with asyncio.Runner() as runner, contextlib.closing(service.state.context):
        yield request.param, lambda method, path, **words: runner.run(asked(method, path, words))


def test_a_mounted_service_answers_under_its_path(ask):
    prefix, ask = ask
    put = ask("POST", f"{prefix}/v1/jobs", json={"topic": "mail", "key": "k"})
    assert put.headers["location"] == f"{prefix}/v1/jobs/1"
    assert ask("GET", put.headers["location"]).json()["key"] == "k"
    assert ask("GET", f"{prefix}/v1/jobs/by-key?topic=mail&key=k").status_code == 200
    assert ask("POST", f"{prefix}/v1/jobs/1/cancel").status_code == 204
    assert ask("GET", f"{prefix}/healthz").text == "ok\n"
    assert ask("GET", f"{prefix}/v1/openapi.json").json()["servers"] == [{"url": prefix or "/"}]


def test_problems_of_a_mounted_service_are_its_own_and_those_of_the_program_are_not(ask):
    prefix, ask = ask
    assert problem(ask("GET", f"{prefix}/v1/nowhere")) == "not-found"
    assert ask("GET", "/hello").text == "hello"


def imported(file):
    """Yield the names that a file imports from elsewhere."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_the_service_uses_what_is_public_of_others():
    folder = Path(pywheel.server.__file__).parent
    names = {name for file in folder.rglob("*.py") for name in imported(file)} - {"__future__.annotations"}
    assert {name for name in names if "._" in name or name.startswith("_")} == set()
    assert {"starlette.routing.Route", "granian.server.embed.Server"} <= names


@pytest.mark.parametrize("ends", ["its loop alone", "the service, which is closed", "the server, which drains"])
def test_a_service_goes_on_in_another_loop_with_reserves_that_wait_and_streams(queue, ends):
    """As under a test client, or after a restart within one process: there they ended at once, with nothing."""
    service = app(queue, access="open")
    reserve = scope("/v1/reserve", "POST", headers=[(b"content-type", b"application/json")])

    async def scene():
        stream = Exchange(service, scope("/v1/events"))
        waits = Exchange(service, reserve, b'{"topics": ["mail"], "wait": 30}')
        while len(stream.sent) < 2 or (waiting := service.state.context.waiting) is None or not waiting.count:
            await asyncio.sleep(0.001)
        assert stream.sent[1]["body"].startswith(b"retry: ")
        await queue.aio.put("mail")
        await asyncio.wait_for(waits.request, 60)
        assert waits.sent[0]["status"] == 200
        await stream.close()
        if ends == "the server, which drains":
            service.state.context.stopping.set()

    with contextlib.closing(service.state.context):
        for _ in range(2):
            asyncio.run(asyncio.wait_for(scene(), 60))
            if ends == "the service, which is closed":
                service.state.context.close()

"""The service as one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from .._errors import PywheelError
from .access import Access, Mode, demand_all
from .api.operations import endpoints
from .api.quick_put import quick_put
from .context import Context, Limits
from .edge import HEADERS, REQUEST_ID, Edge
from .problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ..client.queue import AsyncJobQueue, JobQueue

__all__ = ["Service", "app"]

_SHORTCUTS: Final = {("POST", "/v1/jobs"): quick_put}


def app(
    queue: JobQueue | AsyncJobQueue,
    *,
    access: Mode = "tokens",
    read_only: bool = False,
    cors: Sequence[str] = (),
    proxies: Collection[str] = (),
    limits: Limits | None = None,
) -> Service:
    """Return the service of a queue, to be served or mounted into another program, under any path.

    Args:
        queue: whose jobs. It stays the caller's: the service does not close it.
        access: ``tokens``: each request needs a token that allows it. ``open``: everybody who reaches it by a loopback
            name may do everything.
        read_only: refuse whatever changes something.
        cors: the origins whose pages may use the API with a token, such as ``https://shop.example``.
        proxies: the addresses of proxies before it, whose ``X-Forwarded-For`` is believed.
        limits: what a client may ask for.

    Raises:
        ValueError: there is no such access.
    """
    if access not in ("tokens", "open"):
        raise ValueError(f"access is 'tokens' or 'open', not {access!r:.40}")
    context = Context(queue.sync, Access(access, _tokens(queue.sync, access), proxies), read_only, limits or Limits())
    return Service(context, cors)


class Service(Starlette):
    """The API's requests go straight to their endpoints, all others through Starlette's routes."""

    def __init__(self, context: Context, cors: Sequence[str]) -> None:
        super().__init__(
            routes=[*_health(), *_page(context)],
            exception_handlers={HTTPException: _refused, Problem: _failed, PywheelError: _failed, Exception: _failed},
            lifespan=_lifespan,
        )
        self.router.redirect_slashes = False
        self.state.context = context
        edge: ASGIApp = Edge(context, endpoints(context), _SHORTCUTS, super().__call__)
        self.edge = _cors(edge, cors) if cors else edge
        """What takes every request in: for a server of ours, which saves a call."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or the beginning and the end of the server."""
        await self.edge(scope, receive, send)


def _tokens(queue: JobQueue, access: Mode) -> Any:
    if access == "open":
        return None
    from .tokens import Tokens  # an open server keeps none

    return Tokens(queue.store)


@asynccontextmanager
async def _lifespan(service: Starlette) -> AsyncIterator[None]:
    """Let go of what the service has begun, when it ends."""
    yield
    service.state.context.close()


async def _refused(request: Request, error: Exception) -> Response:
    """Say what the routes refuse as the API says it."""
    assert isinstance(error, HTTPException)
    path = request.scope["path"][:200]
    if error.status_code == 404:
        return _told(Problem("not-found", f"there is nothing at {path}: /v1/openapi.json says what there is"))
    if error.status_code == 405:
        return _told(Problem("method-not-allowed", "this path takes other methods", headers=error.headers))
    return PlainTextResponse(error.detail, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """Say what went wrong in the routes as the API says it."""
    if isinstance(error, PywheelError):
        error = request.app.state.context.problem(error)
    if not isinstance(error, Problem):
        id = request.scope[REQUEST_ID].decode()
        error = Problem("internal-error", f"the log has more, of request {id}")
    return _told(error)


def _told(problem: Problem) -> Response:
    return Response(problem.content(), problem.status, {**problem.headers, "cache-control": "no-store"}, MEDIA_TYPE)


def _cors(edge: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    return CORSMiddleware(
        edge,
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers="authorization content-type idempotency-key if-match if-none-match last-event-id traceparent "
        "tracestate x-request-id".split(),
        expose_headers=["etag", "location", "retry-after", "x-request-id"],
        max_age=3600,
    )


def _health() -> list[BaseRoute]:
    return [Route("/healthz", _healthy), Route("/readyz", _ready), Route("/metrics", _metrics)]


async def _healthy(request: Request) -> Response:  # noqa: ARG001
    """Whether the process answers."""
    return Response("ok\n", media_type="text/plain")


async def _ready(request: Request) -> Response:
    """Whether the store answers too."""
    context: Context = request.app.state.context
    if context.stopping.is_set():
        raise Problem("stopping", "this server drains: use another one", headers={"retry-after": "1"})
    problem = await context.readiness()
    return Response("ok\n", media_type="text/plain") if problem is None else _told(problem)


async def _metrics(request: Request) -> Response:
    """What is measured, for Prometheus."""
    from .metrics import exposition

    context: Context = request.app.state.context
    grant = await context.access.identify(request.scope, request.scope[HEADERS], context.read)
    demand_all(grant, "read", "ask for /v1/counts")
    try:
        kind, content = await context.read(exposition, context.queue, request.headers.get("accept", ""))
    except ImportError as error:  # it says what to install
        raise Problem("not-implemented", f"there are no metrics here: {error}") from None
    return Response(content, headers={"content-type": kind})


def _page(context: Context) -> list[BaseRoute]:
    """Return the routes of the page, if it is there."""
    from . import page

    found = getattr(page, "routes", None)
    return [] if found is None else list(found(context))

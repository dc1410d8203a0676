"""The service as one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from .access import Access, Mode, demand
from .api.operations import routes
from .context import Context, Limits
from .edge import HEADERS, Edge
from .problems import Problem

if TYPE_CHECKING:
    from ..client.queue import JobQueue

__all__ = ["app"]


def app(
    queue: JobQueue,
    *,
    access: Mode = "tokens",
    read_only: bool = False,
    cors: Sequence[str] = (),
    limits: Limits | None = None,
) -> Starlette:
    """Return the service of a queue, to be served or mounted into another program, under any path.

    Args:
        queue: whose jobs. It stays the caller's: the service does not close it.
        access: ``tokens``: each request needs a token that allows it. ``open``: everybody who reaches it by a loopback
            name may do everything.
        read_only: refuse whatever changes something.
        cors: the origins whose pages may use the API with a token, such as ``https://shop.example``.
        limits: what a client may ask for.

    Raises:
        ValueError: there is no such access.
    """
    if access not in ("tokens", "open"):
        raise ValueError(f"access is 'tokens' or 'open', not {access!r:.40}")
    context = Context(queue, Access(access, _tokens(queue, access)), read_only, limits or Limits())
    middleware = [Middleware(Edge, context=context)]
    if cors:
        middleware.insert(0, _cors(cors))
    service = Starlette(
        routes=[*routes(context), *_health(), *_page(context)],
        middleware=middleware,
        exception_handlers={404: _nowhere, Problem: _raised},
        lifespan=_lifespan,
    )
    service.router.redirect_slashes = False
    service.state.context = context
    return service


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


async def _nowhere(request: Request, error: Exception) -> Response:  # noqa: ARG001
    raise Problem("not-found", f"there is nothing at {request.url.path[:200]}: /v1/openapi.json says what there is")


async def _raised(request: Request, error: Exception) -> Response:  # noqa: ARG001
    raise error  # for the edge, which answers it


def _cors(origins: Sequence[str]) -> Middleware:
    return Middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=[
            "authorization",
            "content-type",
            "idempotency-key",
            "if-match",
            "if-none-match",
            "x-request-id",
            "traceparent",
            "last-event-id",
        ],
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
    await context.read(context.queue.store.get, 1)
    return Response("ok\n", media_type="text/plain")


async def _metrics(request: Request) -> Response:
    """What is measured, for Prometheus."""
    try:
        from .metrics import exposition
    except ImportError as error:
        raise Problem("not-implemented", f"there are no metrics here: {error}") from None
    context: Context = request.app.state.context
    demand(await context.access.identify(request.scope, request.scope[HEADERS], context.read), "read")
    kind, content = await context.read(exposition, context.queue)
    return Response(content, headers={"content-type": kind})


def _page(context: Context) -> list[BaseRoute]:
    """Return the routes of the page, if it is there."""
    from . import page

    found = getattr(page, "routes", None)
    return [] if found is None else list(found(context))

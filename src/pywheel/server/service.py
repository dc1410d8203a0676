"""The service as one ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ..client.queue import AsyncJobQueue, JobQueue
from .access import Access, Mode, ProxySignIn, demand_all
from .api.operations import routes
from .context import Context, Limits
from .middleware import Bodies, Requests, answer_of, refused
from .page import routes as page
from .problems import Problem
from .tokens import Tokens


def app(
    queue: JobQueue | AsyncJobQueue,
    *,
    access: Mode = "tokens",
    read_only: bool = False,
    cors: Sequence[str] = (),
    proxies: Collection[str] = (),
    sign_in: ProxySignIn | None = None,
    limits: Limits | None = None,
) -> Starlette:
    """Return the service of a queue, to be served or mounted into another program under any path.

    Args:
        queue: the queue. It stays the caller's: the service does not close it.
        access: ``tokens``: each request needs a token that allows it. ``open``: everybody who reaches it by a loopback
            name may do everything.
        read_only: refuse all changes.
        cors: the origins whose pages may use the API with a token, such as ``https://shop.example``.
        proxies: the addresses of proxies before it, whose ``X-Forwarded-For`` is believed.
        sign_in: which header of which proxies names the person at the page; others sign in with a token.
        limits: the limits of a client's requests.

    Raises:
        ValueError: there is no such access, or `sign_in` is given for an open server.
        BadOption: a proxy is not an address.
    """
    if access not in ("tokens", "open"):
        raise ValueError(f"access must be 'tokens' or 'open', not {access!r:.40}")
    if access == "open" and sign_in is not None:
        raise ValueError("sign_in is for access='tokens': at an open server nobody has to sign in")
    tokens = None if access == "open" else Tokens(queue.sync.store)
    context = Context(queue.sync, Access(access, tokens, proxies, sign_in), read_only, limits or Limits())
    middleware = [Middleware(Requests, context=context), Middleware(Bodies, limits=context.limits)]
    if cors:
        middleware.insert(0, _cors(cors))
    health = [Route("/healthz", _healthy), Route("/readyz", _ready), Route("/metrics", _metrics)]
    service = Starlette(
        routes=[*routes(context), *health, *page(context)],
        middleware=middleware,
        exception_handlers={HTTPException: refused},
        lifespan=_lifespan,
    )
    service.router.redirect_slashes = False
    service.state.context = context
    return service


@asynccontextmanager
async def _lifespan(service: Starlette) -> AsyncIterator[None]:
    """Release the service's resources when it ends."""
    yield
    service.state.context.close()


def _cors(origins: Sequence[str]) -> Middleware:
    return Middleware(
        CORSMiddleware,
        allow_origins=list(origins),
        allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers="authorization content-type idempotency-key if-match if-none-match last-event-id traceparent "
        "tracestate x-request-id".split(),
        expose_headers=["etag", "idempotency-replayed", "location", "retry-after", "x-request-id"],
        max_age=3600,
    )


async def _healthy(request: Request) -> Response:  # noqa: ARG001
    """Answer that the process works."""
    return PlainTextResponse("ok\n")


async def _ready(request: Request) -> Response:
    """Answer whether the store works."""
    context: Context = request.app.state.context
    if context.stopping.is_set():
        raise Problem("stopping", "this server is shutting down: use another one", headers={"retry-after": "1"})
    problem = await context.readiness()
    return PlainTextResponse("ok\n") if problem is None else answer_of(problem)


async def _metrics(request: Request) -> Response:
    """Answer with the metrics for Prometheus."""
    from .metrics import exposition

    context: Context = request.app.state.context
    grant = await context.access.identify(request.scope, context.read)
    demand_all(grant, "read", "ask for /v1/counts")
    try:
        snapshot, accept = await context.live.now(), request.headers.get("accept", "")
        kind, content = await context.read(exposition, context.queue, snapshot, context.labels, accept)
    except ImportError as error:  # its text says what to install
        raise Problem("not-implemented", f"there are no metrics here: {error}") from None
    return Response(content, headers={"content-type": kind})

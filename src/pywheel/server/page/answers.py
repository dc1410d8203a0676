"""How the page answers: what every answer must say, and who may ask."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote

from msgspec import structs
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..._errors import BadJob, BadOption, NoSuchJob, PywheelError, StoreError
from ..access import PROXY
from ..audit import Deed, keep
from ..problems import Problem
from ..tokens import Grant
from .templating import render

if TYPE_CHECKING:
    from ..context import Context
    from .bulk import Bulks
    from .feed import Feed

__all__ = [
    "COOKIE", "HEADERS", "HOST_COOKIE", "THEMES", "Ask", "Handler", "allowed", "back", "by_tls", "cookie_path",
    "grant_of", "guarded", "html", "same_site", "visitor_of",
]  # fmt: skip

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_SAID: Final = "pywheel_said"  # the cookie with what was done, for the next view
_THEME: Final = "pywheel_theme"
THEMES: Final = ("auto", "light", "dark")
COOKIE: Final = "pywheel_token"
HOST_COOKIE: Final = f"__Host-{COOKIE}"
"""The same by TLS: no other host, and no other path, can set it."""
_TOKEN: Final = re.compile(r"[!-+\--:<-~]{1,512}")  # what a cookie can hold
_ROLES: Final = (("admin", "admin"), ("put", "operator"), ("read", "viewer"))

_STATUSES: Final[dict[type[PywheelError], int]] = {
    NoSuchJob: 404, BadJob: 400, BadOption: 400, StoreError: 503, PywheelError: 409
}  # fmt: skip


class Ask:
    """A request to the page, by somebody who may look at it."""

    def __init__(self, request: Request, context: Context, visitor: Grant, feed: Feed, bulks: Bulks) -> None:
        self.request, self.context, self.visitor, self.feed, self.bulks = request, context, visitor, feed, bulks
        self.root = root_of(request)
        self.query = request.query_params
        self.store = context.queue.store
        self.deed: Deed | None = None

    @property
    def now(self) -> int:
        """The time by the store's clock, in ms."""
        return self.store.clock.wall()

    def does(self, action: str, what: str, topic: str | None = None, outcome: str = "done") -> None:
        """Say what this request changes, for the audit log; the last word counts."""
        self.deed = Deed(action, what, topic, outcome)

    def page(self, template: str, /, status: int = 200, **values: Any) -> Response:
        """Return a whole page."""
        return html(self.request, self.context, template, status, visitor=self.visitor, **values)

    def allow(self, scope: str, topic: str | None = None) -> None:
        """Raise HTTPException unless the visitor may."""
        if not self.visitor.may(scope, topic):
            where = f" for the topic {topic}" if topic is not None else ""
            raise HTTPException(403, f"that needs the scope {scope}{where}")


Handler: TypeAlias = Callable[[Ask], Awaitable[Response]]


def root_of(request: Request) -> str:
    """Return the path under which the page is mounted, without a slash at the end."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def cookie_path(request: Request) -> str:
    """Return for which paths cookies of the page are."""
    return f"{root_of(request)}/"


def same_site(request: Request) -> bool:
    """Whether a request that changes something comes from a page of ours.

    Browsers say so in Sec-Fetch-Site where the page came by TLS or from loopback, else in Origin. What says neither is
    no browser of today, and can use the API.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site != "same-origin":
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return site is not None
    _, found, host = origin.partition("://")  # a proxy may speak TLS for us: not the scheme
    return bool(found) and host == request.headers.get("host")


def by_tls(request: Request) -> bool:
    """Whether a form came by TLS. Where a proxy speaks that for us the browser alone says so, in Origin."""
    return request.scope["scheme"] == "https" or request.headers.get("origin", "").startswith("https://")


def _refuse_foreign(request: Request) -> None:
    if request.method == "POST" and not same_site(request):
        raise HTTPException(403, "this form was sent from another site, or by a browser that does not say")


def guarded(
    handler: Handler, *, context: Context, feed: Feed, bulks: Bulks
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that lets in who may look, keeps forms of other sites out, and says errors as pages."""

    async def endpoint(request: Request) -> Response:
        visitor: Grant | None = None
        ask: Ask | None = None
        try:
            _refuse_foreign(request)
            visitor = await visitor_of(request, context)
            if visitor is None:
                return _sign_in_first(request)
            ask = Ask(request, context, visitor, feed, bulks)
            answer = await handler(ask)
        except HTTPException as error:
            answer = _error(request, context, visitor, error.status_code, str(error.detail))
        except Problem as problem:
            answer = _error(request, context, visitor, problem.status, problem.detail)
            answer.headers.update(problem.headers)
        except PywheelError as error:
            status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
            answer = _error(request, context, visitor, status, context.problem(error).detail)
        if ask is not None and ask.deed is not None:
            failed = {"outcome": f"failed ({answer.status_code})"} if answer.status_code >= 400 else {}
            await keep(context, ask.visitor, structs.replace(ask.deed, **failed))
        return answer

    return endpoint


def allowed(handler: Handler, scope: str) -> Handler:
    """Return a handler for those alone who have a scope."""

    async def only(ask: Ask) -> Response:
        ask.allow(scope)
        return await handler(ask)

    return only


def html(
    request: Request, context: Context, template: str, status: int = 200, *, visitor: Grant | None, **values: Any
) -> Response:
    """Return a page with all headers."""
    theme = request.cookies.get(_THEME, "auto")
    said = unquote(request.cookies.get(_SAID, ""))[:500]
    text = render(
        template,
        root=root_of(request),
        here=request.scope["path"].removeprefix(root_of(request)),
        visitor=visitor,
        role=role_of(visitor) if visitor else "",
        by_proxy=visitor is not None and visitor.id.startswith(PROXY),
        store=context.queue.store.url,
        theme=theme if theme in THEMES else "auto",
        said=said,
        **values,
    )
    answer = Response(text.encode("utf-8", "replace"), status, HEADERS | {"Vary": "Cookie"}, "text/html")
    if said:
        answer.delete_cookie(_SAID, cookie_path(request))
    return answer


def back(request: Request, path: str, said: str = "") -> Response:
    """Send the browser to a page, which then says what was done."""
    answer = RedirectResponse(root_of(request) + path, 303, HEADERS)
    if said:
        answer.set_cookie(
            _SAID,
            quote(said[:500]),
            max_age=60,
            path=cookie_path(request),
            secure=by_tls(request),
            httponly=True,
            samesite="strict",
        )
    return answer


def _sign_in_first(request: Request) -> Response:
    if request.method != "GET" or "hx-request" in request.headers:
        return Response("sign in first", 401, HEADERS | {"HX-Refresh": "true"}, "text/plain")
    here = request.scope["path"].removeprefix(root_of(request))
    query = request.scope["query_string"].decode("latin-1")
    query = f"?{query}" if query else ""
    return RedirectResponse(f"{root_of(request)}/sign-in?next={quote(here + query, safe='/')}", 303, HEADERS)


def _error(request: Request, context: Context, visitor: Grant | None, status: int, detail: str) -> Response:
    answer = html(request, context, "error.html", status, visitor=visitor, code=status, detail=detail)
    answer.headers["HX-Reswap"] = "none"  # a part that asks again and again would be gone, and never ask again
    return answer


# ---- who looks ------------------------------------------------------------------------------------------------------


def role_of(visitor: Grant) -> str:
    """Return what somebody's scopes are called."""
    return next((role for scope, role in _ROLES if scope in visitor.scopes), "nobody")


async def visitor_of(request: Request, context: Context) -> Grant | None:
    """Return what whoever asks may do here, by the token in the cookie, or as a proxy says. None: sign in first."""
    secret, sign_in = _cookie(request), context.access.sign_in
    grant: Grant | None = None
    if context.access.open or secret:
        grant, _ = await grant_of(request, context, secret)
    if grant is None and sign_in is not None:
        grant = sign_in.grant(request.scope)
    if grant is None or not grant.may("read"):
        return None
    return grant._replace(scopes=frozenset({"read"})) if context.read_only else grant


def _cookie(request: Request) -> str:
    """Return the token in the cookie; none if there are two, of which somebody else may have set one."""
    lines = request.headers.getlist("cookie")
    given = [part.strip().partition("=") for line in lines for part in line.split(";")]
    for wanted in (HOST_COOKIE, COOKIE):
        if found := [value for name, _, value in given if name == wanted]:
            return found[0] if len(found) == 1 else ""
    return ""


async def grant_of(request: Request, context: Context, secret: str) -> tuple[Grant | None, str]:
    """Return what a token allows, or None and why there is nothing. Failures are limited, as those of the API are."""
    if not context.access.open and not _TOKEN.fullmatch(secret):
        return None, "this is no token: a token looks like pw_…"
    try:
        return await context.access.identify(request.scope, context.read, secret.encode("latin-1", "replace")), ""
    except Problem as problem:
        return None, problem.detail

"""The page's answers: their headers, access control, and signing in."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote

from msgspec import structs
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ..._errors import PywheelError
from ..access import PROXY, demand
from ..audit import Deed, keep
from ..problems import KINDS, Problem
from ..tokens import Grant
from .filters import fields
from .templating import render

if TYPE_CHECKING:
    from ..context import Context
    from .feed import Feed

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
_SAID: Final = "pywheel_said"  # the cookie with the message for the next view
_COOKIE: Final = "pywheel_token"
_HOST_COOKIE: Final = f"__Host-{_COOKIE}"  # the same by TLS: no other host, and no other path, can set it
_TOKEN: Final = re.compile(r"[!-+\--:<-~]{1,512}")  # the characters of a cookie
_ROLES: Final = (("admin", "admin"), ("put", "operator"), ("read", "viewer"))
_DAY: Final = 86_400
_MOST: Final = 8 << 10  # bytes of a form, which anybody may send slowly
_PATH: Final = re.compile(r"/(?![/\\])[^\\\x00-\x1f]*")
"""A path that no browser takes for another host: browsers leave out control characters, and read \\ as /."""
OVER: Final = "the token is over, or for something else by now"
"""The end of work for a visitor whose rights have changed since it began."""
NOBODY: Final = Grant("", frozenset(), (), None)
"""The grant of a visitor who has not signed in."""


class Ask:
    """A request to the page."""

    visitor = NOBODY
    deed: Deed | None = None

    def __init__(self, request: Request, context: Context, feed: Feed) -> None:
        self.request, self.context, self.feed = request, context, feed
        self.query = request.query_params
        self.store = context.queue.store
        self.root = str(request.scope.get("root_path", "")).rstrip("/")  # the path under which the page is mounted
        self.here = request.scope["path"].removeprefix(self.root)
        self.cookie_path = f"{self.root}/"

    @property
    def now(self) -> int:
        """The time by the store's clock, in ms."""
        return self.store.clock.wall()

    @property
    def topic(self) -> str | None:
        """The topic in the address, or None. Problem: the visitor may not see it."""
        topic = self.query.get("topic") or None
        self.allow("read", topic)
        return topic

    def does(self, action: str, what: str, topic: str | None = None, outcome: str = "done") -> None:
        """Note this request's change for the audit log. The last call counts."""
        self.deed = Deed(action, what, topic, outcome)

    def allow(self, scope: str, topic: str | None = None) -> None:
        """Raise a Problem if the visitor lacks the scope, for a topic if one is given."""
        demand(self.visitor, scope, topic)

    def page(self, template: str, /, status: int = 200, **values: Any) -> Response:
        """Return a whole page, with all headers."""
        visitor, said = self.visitor, unquote(self.request.cookies.get(_SAID, ""))[:500]
        text = render(
            template,
            root=self.root,
            here=self.here,
            visitor=None if visitor is NOBODY else visitor,
            role=next((role for scope, role in _ROLES if scope in visitor.scopes), "nobody"),
            by_proxy=visitor.id.startswith(PROXY),
            store=self.store.url,
            said=said,
            **values,
        )
        answer = Response(text.encode("utf-8", "replace"), status, HEADERS | {"Vary": "Cookie"}, "text/html")
        if said:
            answer.delete_cookie(_SAID, self.cookie_path)
        return answer

    def error(self, problem: Problem) -> Response:
        """Return a page that shows a problem."""
        title, status = KINDS[problem.kind].title, problem.status
        answer = self.page("error.html", status, code=status, title=title, detail=problem.detail)
        answer.headers.update(problem.headers)
        answer.headers["HX-Reswap"] = "none"  # htmx would replace the part that polls, and it would never poll again
        return answer

    def back(self, path: str, said: str = "") -> Response:
        """Send the browser to a page, which then shows `said`."""
        answer = RedirectResponse(self.root + path, 303, HEADERS)
        if said:
            self.set_cookie(answer, _SAID, quote(said[:500]), 60, secure=self.by_tls, httponly=True)
        return answer

    def set_cookie(self, answer: Response, name: str, value: str, seconds: int, **words: Any) -> None:
        """Set a cookie, for the page's own path unless `path` is given."""
        answer.set_cookie(name, value, seconds, **{"path": self.cookie_path, "samesite": "strict", **words})

    def refuse_foreign(self) -> None:
        """Raise a Problem if a form does not come from this page.

        Browsers name the origin in Sec-Fetch-Site if the page came by TLS or from loopback, else in Origin. A client
        that sends neither is not a current browser, and can use the API.
        """
        headers = self.request.headers
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        _, found, host = (origin or "").partition("://")  # not the scheme: a proxy may do the TLS
        ours = site is not None if origin is None else bool(found) and host == headers.get("host")
        if site not in (None, "same-origin") or not ours:
            text = "this form was sent from another site, or by a browser that does not say"
            raise Problem("foreign-origin", text)

    @property
    def by_tls(self) -> bool:
        """Whether a form came by TLS. If a proxy does the TLS, only the browser says so, in Origin."""
        request = self.request
        return request.scope["scheme"] == "https" or request.headers.get("origin", "").startswith("https://")


Handler: TypeAlias = Callable[[Ask], Awaitable[Response]]


def guarded(
    handler: Handler, *, context: Context, feed: Feed, anybody: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that refuses forms of other sites and shows errors as pages.

    Unless it is for anybody, it asks visitors without a token to sign in.
    """

    async def endpoint(request: Request) -> Response:
        ask = Ask(request, context, feed)
        try:
            if request.method == "POST":
                ask.refuse_foreign()
            if not anybody:
                visitor = await visitor_of(ask)
                if visitor is None:
                    return _sign_in_first(ask)
                ask.visitor = visitor
            answer = await handler(ask)
        except Problem as problem:
            answer = ask.error(problem)
        except PywheelError as error:
            answer = ask.error(context.problem(error))
        if ask.deed is not None:
            failed = {"outcome": f"failed ({answer.status_code})"} if answer.status_code >= 400 else {}
            await keep(context, ask.visitor, structs.replace(ask.deed, **failed))
        return answer

    return endpoint


def _sign_in_first(ask: Ask) -> Response:
    if ask.request.method != "GET" or "hx-request" in ask.request.headers:
        return Response("sign in first", 401, HEADERS | {"HX-Refresh": "true"}, "text/plain")
    query = ask.request.scope["query_string"].decode("latin-1")
    there = ask.here + (f"?{query}" if query else "")
    return ask.back(f"/sign-in?next={quote(there, safe='/')}")


# ---- who looks ------------------------------------------------------------------------------------------------------


async def visitor_of(ask: Ask) -> Grant | None:
    """Return the visitor's grant, by the token in the cookie or by the proxy's header. None: sign in first."""
    secret, access = _cookie(ask.request), ask.context.access
    grant: Grant | None = None
    if access.open or secret:
        with suppress(Problem):
            grant = await grant_of(ask, secret)
    if grant is None and access.sign_in is not None:
        grant = access.sign_in.grant(ask.request.scope)
    if grant is None or not grant.may("read"):
        return None
    return grant._replace(scopes=frozenset({"read"})) if ask.context.read_only else grant


def _cookie(request: Request) -> str:
    """Return the token in the cookie; "" if there are two, as somebody else may have set one."""
    lines = request.headers.getlist("cookie")
    given = [part.strip().partition("=") for line in lines for part in line.split(";")]
    for wanted in (_HOST_COOKIE, _COOKIE):
        if found := [value for name, _, value in given if name == wanted]:
            return found[0] if len(found) == 1 else ""
    return ""


async def grant_of(ask: Ask, secret: str) -> Grant:
    """Return the grant of a token. Problem: it is invalid or unknown; failures are limited as those of the API are."""
    access = ask.context.access
    if not access.open and not _TOKEN.fullmatch(secret):
        raise Problem("token-unknown", "this is not a token: a token looks like pw_…")
    return await access.identify(ask.request.scope, ask.context.read, secret.encode("latin-1", "replace"))


# ---- signing in and out ---------------------------------------------------------------------------------------------


async def form(ask: Ask) -> Response:
    """Show the form, unless the visitor is signed in."""
    target = _target(ask.query.get("next", ""))
    if await visitor_of(ask) is not None:
        return ask.back(target)
    return ask.page("sign_in.html", next=target, trouble="")


async def enter(ask: Ask) -> Response:
    """Take a token, and keep it in a cookie that no script can read and no other site makes the browser send."""
    given = await fields(ask.request, _MOST)
    target, secret = _target(given.get("next", "")), given.get("token", "").strip()
    try:
        demand(await grant_of(ask, secret), "read")
    except Problem as problem:
        return ask.page("sign_in.html", problem.status, next=target, trouble=problem.detail)
    answer, words = ask.back(target, "signed in"), {"secure": True, "path": "/"} if ask.by_tls else {}
    ask.set_cookie(answer, _HOST_COOKIE if words else _COOKIE, secret, 7 * _DAY, httponly=True, **words)
    return answer


async def leave(ask: Ask) -> Response:
    """Delete the cookie."""
    answer = ask.back("/sign-in")
    answer.delete_cookie(_COOKIE, ask.cookie_path, httponly=True, samesite="strict")
    answer.delete_cookie(_HOST_COOKIE, "/", secure=True, httponly=True, samesite="strict")
    return answer


def _target(path: str) -> str:
    """Return `path` if it is a path of the page, else the page's root."""
    return path if _PATH.fullmatch(path) else "/"

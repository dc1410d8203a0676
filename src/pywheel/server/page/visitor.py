"""Who looks at the page, and what they may do there."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ..edge import HEADERS
from ..problems import Problem
from ..visible import Sees

if TYPE_CHECKING:
    from ..access import Granted
    from ..context import Context

__all__ = ["COOKIE", "Visitor", "grant_of", "token_of", "visitor_of"]

COOKIE: Final = "pywheel_token"
_TOKEN: Final = re.compile(r"[!-+\--:<-~]{1,512}")  # what a cookie can hold
_ROLES: Final = (("admin", "admin"), ("put", "operator"), ("read", "viewer"))


class Visitor(NamedTuple):
    """What a request may see and do. Every handler asks it; a button that is hidden is no check."""

    scopes: frozenset[str]
    topics: tuple[str, ...] = ("*",)  # patterns
    read_only: bool = False
    signed_in: bool = False

    def may(self, scope: str, topic: str | None = None) -> bool:
        """Whether it has a scope, for a topic or else for some topic."""
        if scope not in self.scopes and "admin" not in self.scopes:
            return False
        if self.read_only and scope != "read":
            return False
        return topic is None or any(fnmatchcase(topic, pattern) for pattern in self.topics)

    @property
    def everywhere(self) -> bool:
        """Whether it is for every topic."""
        return "*" in self.topics

    @property
    def sees(self) -> Sees:
        """Whether it may see a topic."""
        return None if self.everywhere else lambda topic: self.may("read", topic)

    @property
    def role(self) -> str:
        """What its scopes are called."""
        role = next((role for scope, role in _ROLES if scope in self.scopes), "nobody")
        return f"{role}, read only" if self.read_only and role != "viewer" else role


async def visitor_of(request: Request, context: Context) -> Visitor | None:
    """Return who asks, by the token in the cookie. None: they have to sign in."""
    if context.access.open:
        return Visitor(frozenset({"admin", "put", "read"}), read_only=context.read_only)
    secret = request.cookies.get(COOKIE)
    grant, _ = await grant_of(request, context, secret) if secret else (None, "")
    if grant is None or not grant.may("read"):
        return None
    scopes = frozenset(scope for scope in ("read", "put", "work", "admin") if grant.may(scope))
    return Visitor(scopes, grant.topics, context.read_only, signed_in=True)


async def token_of(request: Request, context: Context) -> str:
    """Return the id of the token of whoever asks; "" where there are none. HTTPException: it is over by now."""
    if context.access.open:
        return ""
    grant, why = await grant_of(request, context, request.cookies.get(COOKIE, ""))
    if grant is None:
        raise HTTPException(401, why)
    return grant.id


async def grant_of(request: Request, context: Context, secret: str) -> tuple[Granted | None, str]:
    """Return what a token allows, or None and why there is nothing. Failures are limited, as those of the API are."""
    if not _TOKEN.fullmatch(secret):
        return None, "this is no token: a token looks like pw_…"
    headers = {b"cookie": f"{COOKIE}={secret}".encode("latin-1", "replace")}
    headers[b"x-forwarded-for"] = request.scope[HEADERS].get(b"x-forwarded-for", b"")
    try:
        return await context.access.identify(request.scope, headers, context.read, cookie=True), ""
    except Problem as problem:
        return None, problem.detail or "this token is not known"

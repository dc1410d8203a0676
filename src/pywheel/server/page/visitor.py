"""Who looks at the page, and what they may do there: a grant, as users of the API have one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from ..problems import Problem
from ..tokens import Grant

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["COOKIE", "HOST_COOKIE", "grant_of", "role_of", "visitor_of"]

COOKIE: Final = "pywheel_token"
HOST_COOKIE: Final = f"__Host-{COOKIE}"
"""The same by TLS: no other host, and no other path, can set it."""
_TOKEN: Final = re.compile(r"[!-+\--:<-~]{1,512}")  # what a cookie can hold
_ROLES: Final = (("admin", "admin"), ("put", "operator"), ("read", "viewer"))


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

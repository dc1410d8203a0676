"""Signing in and out, and the choice of light or dark: what anybody may ask for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from .answers import COOKIE, HOST_COOKIE, THEMES, back, by_tls, cookie_path, grant_of, html, same_site, visitor_of
from .filters import fields

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["enter", "form", "leave", "theme"]

_DAYS = 7
_YEAR = 365 * 86_400
_MOST: Final = 8 << 10  # bytes of a form, which may come slowly from anybody
_PATH: Final = re.compile(r"/(?![/\\])[^\\\x00-\x1f]*")
"""A path that no browser takes for another host: browsers leave out control characters, and read \\ as /."""


async def form(request: Request, context: Context) -> Response:
    """Show the form, unless they are in."""
    if await visitor_of(request, context) is not None:
        return back(request, _target(request.query_params.get("next", "")))
    return _form(request, context, request.query_params.get("next", ""))


async def enter(request: Request, context: Context) -> Response:
    """Take a token, and keep it in a cookie that no script can read and no other site makes the browser send."""
    given = await fields(request, _MOST)
    target, secret = given.one("next"), given.one("token").strip()
    if not same_site(request):
        return _form(request, context, target, "this form was sent from another site", 403)
    grant, trouble = await grant_of(request, context, secret)
    if grant is None:
        return _form(request, context, target, trouble, 401)
    if not grant.may("read"):
        return _form(request, context, target, "this token lacks the scope read, which the page needs", 403)
    answer, secure = back(request, _target(target), "signed in"), by_tls(request)
    answer.set_cookie(
        HOST_COOKIE if secure else COOKIE,
        secret,
        max_age=_DAYS * 86_400,
        path="/" if secure else cookie_path(request),
        secure=secure,
        httponly=True,
        samesite="strict",
    )
    return answer


async def leave(request: Request, context: Context) -> Response:
    """Forget the token here."""
    if not same_site(request):
        return _form(request, context, "", "this form was sent from another site", 403)
    answer = back(request, "/sign-in")
    answer.delete_cookie(COOKIE, cookie_path(request), httponly=True, samesite="strict")
    answer.delete_cookie(HOST_COOKIE, "/", secure=True, httponly=True, samesite="strict")
    return answer


async def theme(request: Request, context: Context) -> Response:
    """Remember light, dark, or what the system says."""
    given = await fields(request, _MOST)
    chosen = given.one("theme")
    if not same_site(request) or chosen not in THEMES:
        return _form(request, context, "", "there is no such theme", 400)
    answer = back(request, _target(given.one("next")))
    answer.set_cookie("pywheel_theme", chosen, max_age=_YEAR, path=cookie_path(request), samesite="strict")
    return answer


def _form(request: Request, context: Context, target: str, trouble: str = "", status: int = 200) -> Response:
    return html(request, context, "sign_in.html", status, visitor=None, next=_target(target), trouble=trouble)


def _target(path: str) -> str:
    """Return a path of ours, whatever was asked for."""
    return path if _PATH.fullmatch(path) else "/"

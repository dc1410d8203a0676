"""Signing in and out, and the choice of light or dark: what anybody may ask for."""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import Response

from ..access import demand
from ..problems import Problem
from .answers import COOKIE, HOST_COOKIE, THEME, THEMES, Ask, grant_of, visitor_of
from .filters import fields

__all__ = ["enter", "form", "leave", "theme"]

_DAY: Final = 86_400
_MOST: Final = 8 << 10  # bytes of a form, which may come slowly from anybody
_PATH: Final = re.compile(r"/(?![/\\])[^\\\x00-\x1f]*")
"""A path that no browser takes for another host: browsers leave out control characters, and read \\ as /."""


async def form(ask: Ask) -> Response:
    """Show the form, unless they are in."""
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
    ask.set_cookie(answer, HOST_COOKIE if words else COOKIE, secret, 7 * _DAY, httponly=True, **words)
    return answer


async def leave(ask: Ask) -> Response:
    """Forget the token here."""
    answer = ask.back("/sign-in")
    answer.delete_cookie(COOKIE, ask.cookie_path, httponly=True, samesite="strict")
    answer.delete_cookie(HOST_COOKIE, "/", secure=True, httponly=True, samesite="strict")
    return answer


async def theme(ask: Ask) -> Response:
    """Remember light, dark, or what the system says."""
    given = await fields(ask.request, _MOST)
    if given.get("theme", "") not in THEMES:
        raise Problem("bad-request", f"there is no such theme: {', '.join(THEMES)}")
    answer = ask.back(_target(given.get("next", "")))
    ask.set_cookie(answer, THEME, given.get("theme", ""), 365 * _DAY)
    return answer


def _target(path: str) -> str:
    """Return a path of ours, whatever was asked for."""
    return path if _PATH.fullmatch(path) else "/"

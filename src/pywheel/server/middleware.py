"""The middleware: requests get an id, strangers stay out of an open server, errors become problems."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from itertools import count
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .._errors import PywheelError
from .access import header, refuse_strangers
from .context import Context, Limits
from .problems import MEDIA_TYPE, Problem

_LOGGER: Final = logging.getLogger("pywheel.server")
_ID: Final = "pywheel.request_id"
_CLOSE: Final = {"connection": "close"}
_WELL_FORMED: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


class Requests:
    """The middleware that gives each request an id, its own if that is well-formed, and turns exceptions into problems.

    It refuses malformed requests, and on an open server those that another site's page may have sent. Unexpected errors
    are logged with the request's id.
    """

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context
        self._prefix = os.urandom(4).hex().encode()
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and turn an exception into the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        id, started = header(scope, b"x-request-id"), False
        if not _WELL_FORMED.fullmatch(id):
            id = b"%s-%d" % (self._prefix, next(self._numbers))
        scope[_ID] = id

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message["headers"], (b"x-request-id", id)]
            await send(message)

        try:
            if b"%" in (scope.get("raw_path") or b""):
                _refuse_malformed(scope["raw_path"])
            if self._context.access.open:
                refuse_strangers(dict(scope["headers"]))
            await self._app(scope, receive, sending)
        except ClientDisconnect:
            return  # there is nobody to answer
        except Exception as error:  # noqa: BLE001  (it is logged)
            answer = self._answer(scope, error)
            if not started:
                await answer(scope, receive, sending)

    def _answer(self, scope: Scope, error: Exception) -> Response:
        match error:
            case Problem():
                return answer_of(error)
            case PywheelError():
                return answer_of(self._context.problem(error))
        id = scope[_ID].decode()
        # The path may contain line breaks.
        _LOGGER.error("request %s failed: %r %r", id, scope["method"], scope["path"][:200], exc_info=error)
        return answer_of(Problem("internal-error", f"the log has more, of request {id}"))


class Bodies:
    """The middleware that refuses a body that is longer than any may be, or takes too long to arrive."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count the bytes of its body."""
        until: float | None = None  # when all of the body must be here
        size, whole = 0, False

        async def receiving() -> Message:
            nonlocal until, size, whole
            if whole:  # the next message says that the client has gone
                return await receive()
            if until is None:
                until = asyncio.get_running_loop().time() + self._limits.arrival
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise Problem("too-slow", "the body took too long to arrive", headers=_CLOSE) from None
            if message["type"] == "http.disconnect":
                raise Problem("bad-request", "the body broke off", headers=_CLOSE)
            size += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            refuse_large(size, self._limits.request)
            return message

        await self._app(scope, receiving if scope["type"] == "http" else receive, send)


def refuse_large(size: int, most: int) -> None:
    """Raise a Problem if the body is too long."""
    if size > most:
        text = f"a request may have {most} bytes: put less at once, or store it elsewhere and put its name"
        raise Problem("too-large", text, headers=_CLOSE)


def _refuse_malformed(path: bytes) -> None:
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise Problem("bad-request", "the path is not UTF-8: encode it as UTF-8, then with %XX") from None


async def refused(request: Request, error: Exception) -> Response:
    """Return the answer for an unknown path or method."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return answer_of(Problem("method-not-allowed", "this path takes other methods", headers=error.headers))
    path = request.scope["path"][:200]
    return answer_of(Problem("not-found", f"there is nothing at {path}: /v1/openapi.json says what there is"))


def answer_of(problem: Problem) -> Response:
    """Return the answer for a problem."""
    return Response(problem.content(), problem.status, {"cache-control": "no-store", **problem.headers}, MEDIA_TYPE)

"""The outermost layer: gives each request an id, refuses what should not come in, and answers what went wrong."""

from __future__ import annotations

import logging
import os
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from .._errors import PywheelError
from .access import refuse_strangers
from .problems import MEDIA_TYPE, Problem, of_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from .context import Context

__all__ = ["HEADERS", "REQUEST_ID", "Edge", "respond"]

_LOGGER: Final = logging.getLogger("pywheel.server")
HEADERS: Final = "pywheel.headers"
"""Where a scope has its headers by name; of several with one name the last."""
REQUEST_ID: Final = "pywheel.request_id"
"""Where a scope has the id of its request, as it is answered."""
_WELL_FORMED: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


class Edge:
    """Pure ASGI: it is on the way of every put."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = scope[HEADERS] = dict(scope["headers"])
        given = headers.get(b"x-request-id")
        if given is None or not _WELL_FORMED.fullmatch(given):
            given = os.urandom(8).hex().encode()
        scope[REQUEST_ID] = given
        started = False

        async def answered(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", given)]
            await send(message)

        try:
            self._refuse(scope, headers)
            await self._app(scope, receive, answered)
        except Problem as problem:
            await respond(answered, problem)
        except PywheelError as error:
            await respond(answered, of_error(error))
        except Exception:
            _LOGGER.exception("request %s failed: %s %s", given.decode(), scope["method"], scope["path"])
            if started:
                raise  # the server cuts the connection: so the client sees that the answer is not whole
            await respond(answered, Problem("internal-error", f"the log has more, under request id {given.decode()}"))

    def _refuse(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self._context.access.open:
            refuse_strangers(headers)
        raw: bytes = scope.get("raw_path") or b""
        if b"%" in raw:
            try:
                unquote_to_bytes(raw).decode()
            except UnicodeDecodeError:
                raise Problem("bad-request", "the path is no UTF-8: encode it as UTF-8, then with %XX") from None


async def respond(send: Any, problem: Problem) -> None:
    """Answer with a problem."""
    content = problem.content()
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(content)),
        (b"cache-control", b"no-store"),
    ]
    headers += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

"""The outermost layer: gives each request an id, refuses what should not come in, finds who answers, and says what went
wrong. Pure ASGI, as it is on the way of every put."""  # noqa: D205, D209

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from starlette._utils import get_route_path

from .._errors import PywheelError
from .access import refuse_strangers
from .problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from .context import Context
    from .reply import Shortcut, ShortcutMaker

__all__ = ["ARRIVED", "GONE", "HEADERS", "REQUEST_ID", "RESPOND", "Edge", "respond"]

_LOGGER: Final = logging.getLogger("pywheel.server")
HEADERS: Final = "pywheel.headers"
"""Where a scope has its headers by name; of several with one name the last."""
REQUEST_ID: Final = "pywheel.request_id"
"""Where a scope has the id of its request, as it is answered."""
RESPOND: Final = "pywheel.respond"
"""Where a scope has what sends a whole answer at once, if its server is ours."""
ARRIVED: Final = "pywheel.arrived"
"""Where a scope has the body that arrived with its head, if its server is ours."""
GONE: Final = "pywheel.gone"
"""Where a scope has what says whether the client has gone away, if its server is ours."""
_WELL_FORMED: Final = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


class Edge:
    """Takes every request in. What the API's paths name goes to their endpoints, all else to `others`.

    `shortcuts` has by method and path what may answer a request without a task. A path of the API has at most one
    variable part, its third: ``/v1/jobs/{id}/cancel``. Only a name may have slashes, as they are or as %2F.
    """

    def __init__(
        self,
        context: Context,
        endpoints: Mapping[str, ASGIApp],
        shortcuts: Mapping[tuple[str, str], ShortcutMaker],
        others: ASGIApp,
    ) -> None:
        self._context = context
        self._shortcuts = shortcuts
        self._fixed = {path: endpoint for path, endpoint in endpoints.items() if "{" not in path}
        self._varied: dict[tuple[str, ...], tuple[str, ASGIApp]] = {}
        for path, endpoint in endpoints.items():
            if "{" in path:
                parts = path.split("/")
                self._varied[(parts[2], *parts[4:])] = parts[3].strip("{}"), endpoint
        self._others = others
        self._prefix = os.urandom(4).hex().encode()
        self._numbers = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._others(scope, receive, send)
            return
        headers = scope.get(HEADERS)
        if headers is None:
            headers = scope[HEADERS] = dict(scope["headers"])
        given = headers.get(b"x-request-id")
        if given is None or not _WELL_FORMED.fullmatch(given):
            given = self._new_id()
        scope[REQUEST_ID] = given
        sending = _Sending(send, given)
        try:
            if self._context.access.open:
                refuse_strangers(headers)
            endpoint = self._endpoint(scope)
            if endpoint is not None:
                await endpoint(scope, receive, send)
            else:
                await self._others(scope, receive, sending)
        except Problem as problem:
            await respond(scope, send, problem)
        except PywheelError as error:
            await respond(scope, send, self._context.problem(error))
        except Exception:
            # A path may have line breaks in it.
            _LOGGER.exception("request %s failed: %r %r", given.decode(), scope["method"], scope["path"][:200])
            if sending.started:
                return
            await respond(scope, send, Problem("internal-error", f"the log has more, of request {given.decode()}"))

    def shortcut(self, scope: Scope) -> Shortcut | None:
        """Return the short way of requests that have this very head, if there is one. For a server of ours."""
        make = None if scope.get("root_path") else self._shortcuts.get((scope["method"], scope["path"]))
        return None if make is None else make(self._context, scope[HEADERS], self._new_id)

    def _new_id(self) -> bytes:
        return b"%s-%d" % (self._prefix, next(self._numbers))

    def _endpoint(self, scope: Scope) -> ASGIApp | None:
        """Return what answers a path of the API."""
        path = get_route_path(scope) if scope.get("root_path") else scope["path"]
        if b"%" in (scope.get("raw_path") or b""):
            _refuse_malformed(scope["raw_path"])
        endpoint = self._fixed.get(path)
        if endpoint is not None:
            return endpoint
        parts = path.split("/")
        slashes = len(parts) > 5
        if slashes:
            parts = [*parts[:3], "/".join(parts[3:-1]), parts[-1]]
        if len(parts) < 4 or parts[1] != "v1" or not parts[3]:
            return None
        name, endpoint = self._varied.get((parts[2], *parts[4:]), ("", None))
        if endpoint is None or (slashes and name != "name"):
            return None
        scope["path_params"] = {name: parts[3]}
        return endpoint


class _Sending:
    """Sends an answer with the id of its request."""

    __slots__ = ("_id", "_send", "started")

    def __init__(self, send: Send, id: bytes) -> None:
        self._send = send
        self._id = id
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = [*message.get("headers", ()), (b"x-request-id", self._id)]
        await self._send(message)


def _refuse_malformed(path: bytes) -> None:
    try:
        unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        raise Problem("bad-request", "the path is no UTF-8: encode it as UTF-8, then with %XX") from None


async def respond(scope: Scope, send: Send, problem: Problem) -> None:
    """Answer with a problem."""
    content = problem.content()
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", b"%d" % len(content)),
        (b"cache-control", b"no-store"),
        (b"x-request-id", scope[REQUEST_ID]),
    ]
    headers += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})

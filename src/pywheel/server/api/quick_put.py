"""The short way of the commonest request: a put whose head has come before, byte by byte the same.

What has to do with its head is looked at once, and there is no task, no scope and no call for each of them. Whatever is
not as usual, and whatever is to be refused, takes the long way, which says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..._errors import PywheelError
from ...jobs.commands import Put
from ..access import refuse_strangers
from ..problems import MEDIA_TYPE, Problem
from .put import ROOT, new_record
from .schema import NewJob

if TYPE_CHECKING:
    from ..context import Context
    from ..reply import Reply

__all__ = ["quick_put"]

_LOGGER: Final = logging.getLogger("pywheel.server")
_HEAD: Final = b"content-type: application/json\r\nlocation: /v1/jobs/%d\r\nx-request-id: %s\r\n"


def quick_put(
    context: Context, headers: Mapping[bytes, bytes], new_id: Callable[[], bytes]
) -> Callable[[bytes, Reply], bool] | None:
    """Return the short way of puts that have these headers, or None if they have something of their own."""
    if headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers:
        return None
    if context.access.open:
        try:
            refuse_strangers(headers)
        except Problem:
            return None
    return _QuickPut(context, headers, new_id)


class _QuickPut:
    """Puts of one head."""

    def __init__(self, context: Context, headers: Mapping[bytes, bytes], new_id: Callable[[], bytes]) -> None:
        self._context = context
        self._headers = headers
        self._new_id = new_id
        self._decode = msgspec.json.Decoder(NewJob).decode

    def __call__(self, body: bytes, reply: Reply) -> bool:
        """Put what a body says, and reply once it is durable; or return False."""
        context = self._context
        queue, grant = context.queue, context.access.known(self._headers)
        if grant is None or context.read_only or queue.events.tracer is not None or len(body) > queue.calls.max_body:
            return False
        try:
            wish = self._decode(body)
            if not grant.may("put", wish.topic):
                return False
            put = Put((new_record(context, wish, ROOT, None),))
        except (Problem, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        reply.begin(self._answer)
        queue.calls.add_for(put, reply)
        return True

    def _answer(self, outcome: Any) -> tuple[int, bytes, bytes]:
        if not isinstance(outcome, BaseException):
            [id] = outcome
            return 201, b'{"id":"%d"}' % id, _HEAD % (id, self._new_id())
        request = self._new_id()
        if isinstance(outcome, PywheelError):
            problem = self._context.problem(outcome)
        else:
            _LOGGER.error("request %s failed: POST /v1/jobs", request.decode(), exc_info=outcome)
            problem = Problem("internal-error", f"the log has more, of request {request.decode()}")
        headers = {"content-type": MEDIA_TYPE, "cache-control": "no-store", **problem.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1", "replace")
        return problem.status, problem.content(), lines + b"x-request-id: %s\r\n" % request

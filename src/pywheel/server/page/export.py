"""The jobs that a search finds as JSON Lines: all of them, as the API says them, however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import msgspec
from starlette.responses import Response

from ..._errors import PywheelError
from ...jobs.queries import Filter
from ...stores.contract import Store
from ..api.records import job_out
from ..sse import EventStream
from ..visible import Sees, page
from .answers import HEADERS, Ask, visitor_of
from .filters import Asked

__all__ = ["export"]

_PART: Final = 64 << 10  # bytes that are sent at once: a reader that takes fewer in ten seconds is let go
_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")  # between the values of a body; in its texts they are escaped
_FILE: Final = {
    **HEADERS,
    "content-type": "application/x-ndjson",
    "content-disposition": 'attachment; filename="jobs.jsonl"',
}


async def export(ask: Ask) -> Response:
    """Answer with a job a line. What cannot be read to its end has a last line with the field `error` alone."""
    asked = Asked.of(ask.query)
    ask.allow("read", asked.topic or None)
    filter, places, token = asked.filter, ask.context.exports, ask.visitor.id
    places.take(token)  # nothing is awaited from here until the stream begins
    return EventStream(_lines(ask, asked, filter), asyncio.Event(), lambda: places.leave(token), _FILE, alive=b"")


async def _lines(ask: Ask, asked: Asked, filter: Filter) -> AsyncGenerator[bytes, None]:
    """Yield the lines. There is one page of jobs at a time in memory, whose bodies are bounded."""
    after: str | None = ""
    try:
        while after is not None:
            if await visitor_of(ask) != ask.visitor:
                yield _line({"error": "the token is over, or for something else by now"})
                return
            lines, after = await ask.context.long(_page, ask.store, asked, filter, after, ask.visitor.sees)
            for start in range(0, len(lines), _PART):
                yield lines[start : start + _PART]
    except PywheelError as error:
        yield _line({"error": ask.context.problem(error).detail})


def _page(store: Store, asked: Asked, filter: Filter, after: str, sees: Sees) -> tuple[bytes, str | None]:
    """Return the lines of a page of jobs, and the cursor behind it."""
    found, fits = page(store, filter, after, 1_000, sees, preview=None, newest=bool(asked.newest)), asked.fits
    return b"".join(_line(job_out(job)) for job in found.jobs if fits is None or fits(job)), found.next


def _line(value: object) -> bytes:
    return msgspec.json.encode(value).translate(_BREAKS) + b"\n"

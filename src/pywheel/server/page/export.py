"""The jobs that a search finds as JSON Lines: all of them, as the API says them, however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.responses import Response

from ..._errors import PywheelError
from ...jobs.queries import Filter, ListTopics
from ...stores.contract import Store
from ...stores.pages import search
from ..api.records import job_out
from ..sse import EventStream
from .answers import HEADERS, Ask, visitor_of
from .filters import Asked

if TYPE_CHECKING:
    from ..visible import Sees

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
    if asked.topic:
        ask.allow("read", asked.topic)
    topics = await ask.context.read(_topics, ask.store, asked.filter, ask.visitor.sees)
    places, token = ask.context.exports, ask.visitor.id
    places.take(token)  # nothing is awaited from here until the stream begins
    return EventStream(_lines(ask, asked, topics), asyncio.Event(), lambda: places.leave(token), _FILE, alive=b"")


async def _lines(ask: Ask, asked: Asked, topics: list[str | None]) -> AsyncGenerator[bytes, None]:
    """Yield the lines. There is one page of jobs at a time in memory, which the store bounds."""
    try:
        for topic in topics:
            after: str | None = ""
            while after is not None:
                if await visitor_of(ask.request, ask.context) != ask.visitor:
                    yield _line({"error": "the token is over, or for something else by now"})
                    return
                lines, after = await ask.context.long(_page, ask.store, asked, topic, after)
                for start in range(0, len(lines), _PART):
                    yield lines[start : start + _PART]
    except PywheelError as error:
        yield _line({"error": ask.context.problem(error).detail})


def _topics(store: Store, filter: Filter, sees: Sees) -> list[str | None]:
    """Return the topics to ask for one by one; None is all of them at once."""
    if filter.topic is not None or sees is None:
        return [filter.topic]
    return [*sorted(topic.name for topic in store.ask(ListTopics()) if sees(topic.name))]


def _page(store: Store, asked: Asked, topic: str | None, after: str) -> tuple[bytes, str | None]:
    """Return the lines of a page of jobs, and the cursor behind it."""
    found = search(store, asked.filter._replace(topic=topic), after, 1_000, newest=bool(asked.newest))
    fits = asked.fits
    return b"".join(_line(job_out(job)) for job in found.jobs if fits is None or fits(job)), found.next


def _line(value: object) -> bytes:
    return msgspec.json.encode(value).translate(_BREAKS) + b"\n"

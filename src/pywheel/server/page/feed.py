"""Live fragments of the page, made from snapshots, each once for all visitors with the same rights."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import re
import struct
import zlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from ..._errors import StoreError
from ...jobs.job import Counts
from ...jobs.queries import Member
from ...stores.ownership import owners
from ..live import Live, Snapshot, TopicNow
from ..problems import Problem
from ..sse import EventStream
from ..tokens import Grant
from ..visible import may_order, may_see
from .answers import HEADERS, Ask, visitor_of
from .drawings import histogram, trend
from .templating import fragment

_VIEWS: Final = ("overview", "topic", "workers")
_FRAMES: Final = 1_000  # different views that are kept
_ROWS: Final = 100  # topics, or workers, that are shown: those that need attention come first
_TOPICS: Final = 20  # topics of a worker that are shown
_GZIP_HEAD: Final = struct.pack("<BBBBLBB", 0x1F, 0x8B, 8, 0, 0, 0, 255)


class Frame(NamedTuple):
    """The contents of a view at a snapshot."""

    number: int
    parts: dict[str, str]  # by the id of the element around it
    whole: tuple[bytes, bytes]  # all parts as an event, plain and deflated
    news: tuple[bytes, bytes]  # the same, with the changed parts alone


class View(NamedTuple):
    """A view, and the rights of its visitors: those with the same rights see the same."""

    name: str
    topic: str | None
    root: str
    visitor: Grant  # the rights alone, without name and id

    @property
    def topics(self) -> tuple[str | None, ...]:
        """The topics whose forecast it shows."""
        return (self.topic,) if self.name == "topic" or (self.name == "overview" and self.visitor.everywhere) else ()


def _rights(visitor: Grant) -> Grant:
    return visitor._replace(id="", until=None, name="", made=None)


class Feed:
    """The frames of the latest snapshots."""

    def __init__(self, live: Live) -> None:
        self.live = live
        self._frames: dict[View, tuple[int, asyncio.Future[Frame]]] = {}  # with the number of the snapshot

    async def parts(self, ask: Ask, name: str, topic: str | None = None) -> tuple[Snapshot, dict[str, str]]:
        """Return the snapshot and the fragments of a view as they are now."""
        view = View(name, topic, ask.root, _rights(ask.visitor))
        snapshot = await self.live.now(view.topics)
        return snapshot, (await self.frame(view, snapshot)).parts

    async def frame(self, view: View, snapshot: Snapshot) -> Frame:
        """Return the frame of a view at a snapshot, or at a later one that others have asked for meanwhile.

        It is rendered once, in a thread, as there may be very many topics.
        """
        rendering = self._frames.get(view)
        if rendering is None or rendering[0] < snapshot.number:
            # Its news are for streams that have the frame of the snapshot before, and no other one.
            before = rendering[1] if rendering is not None and rendering[0] == snapshot.number - 1 else None
            if len(self._frames) >= _FRAMES:
                self._frames.clear()
            task = asyncio.ensure_future(asyncio.to_thread(_rendered, view, snapshot, _parts_of(before)))
            rendering = self._frames[view] = snapshot.number, task
        return await asyncio.shield(rendering[1])

    async def stream(self, ask: Ask) -> Response:
        """Answer with the frames of a view from now on."""
        name, topic = ask.query.get("view", "overview"), ask.topic
        if name not in _VIEWS or (name == "topic") != (topic is not None):
            raise Problem("not-found", f"there is no such view: {', '.join(_VIEWS)}, that of a topic with its name")
        view = View(name, topic, ask.root, _rights(ask.visitor))
        packed = "gzip" in ask.request.headers.get("accept-encoding", "")
        headers = {**HEADERS, "Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if packed else {})}
        views, token = ask.context.views, ask.visitor.id
        views.take(token)  # no await from here until the stream begins
        frames = self._frames_of(ask, view, packed)
        return EventStream(frames, ask.context.stopping, lambda: views.leave(token), headers, alive=b"")

    async def _frames_of(self, ask: Ask, view: View, packed: bool) -> AsyncGenerator[bytes, None]:
        """Yield the frames of a view, until the visitor's rights change."""
        if packed:
            yield _GZIP_HEAD
        frame = await self.frame(view, await self.live.now(view.topics))
        yield frame.whole[packed]
        last = frame.number
        async with contextlib.aclosing(self.live.watch(view.topics)) as snapshots:
            async for snapshot in snapshots:
                if snapshot.number <= last:
                    continue
                try:
                    visitor = await visitor_of(ask)
                except StoreError:  # nobody can know whether the visitor may still look
                    return
                if visitor is None or _rights(visitor) != view.visitor:
                    return
                frame = await self.frame(view, snapshot)
                yield (frame.news if frame.number == last + 1 else frame.whole)[packed]
                last = frame.number


def _parts_of(rendering: asyncio.Future[Frame] | None) -> Mapping[str, str]:
    """Return the fragments of an earlier rendering, or none if it failed or still runs."""
    if rendering is None or not rendering.done() or rendering.cancelled() or rendering.exception() is not None:
        return {}
    return rendering.result().parts


def _rendered(view: View, snapshot: Snapshot, before: Mapping[str, str]) -> Frame:
    parts = fragments_of(view.name, snapshot, view.visitor, view.root, view.topic)
    news = {id: part for id, part in parts.items() if before.get(id) != part}
    return Frame(snapshot.number, parts, _event(parts), _event(news))


def _event(parts: dict[str, str]) -> tuple[bytes, bytes]:
    text = "".join(
        f'<hx-partial hx-target="#{id}" hx-swap="innerMorph">{part}</hx-partial>' for id, part in parts.items()
    )
    # Not splitlines: a name may have one of the characters that only Python takes for line ends.
    plain = "".join(f"data: {line}\n" for line in re.split(r"\r\n|\r|\n", text)).encode() + b"\n"
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    # No references to earlier data, and a whole number of bytes: so one compressed event fits into many streams.
    return plain, packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH)


# ---- what is shown --------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A topic in the table."""

    topic: TopicNow
    overdue: int  # ms
    may_pause: bool
    workers: int

    @property
    def line(self) -> str:
        """The path of its trend."""
        return trend(self.topic.trend)


class Worker(NamedTuple):
    """A worker in the table."""

    member: Member
    topics: tuple[tuple[str, int], ...]  # with the number of shards that it owns
    more: int  # topics that are not shown
    room: str
    may_order: bool


def fragments_of(name: str, snapshot: Snapshot, visitor: Grant, root: str, topic: str | None) -> dict[str, str]:
    """Return the fragments of a view, by the ids of their elements."""
    parts = {"as-of": fragment("as_of", snapshot=snapshot)}
    topics = snapshot.topics
    if name == "overview":
        seen = [each for each in topics if visitor.everywhere or visitor.may("read", each)]
        totals = Counts(*(sum(topics.counts[each][state] for each in seen) for state in range(len(Counts()))))
        rate, members = topics.rate(seen) if seen else None, [one for one in snapshot.members if may_see(visitor, one)]
        parts["totals"] = fragment("totals", totals=totals, rate=rate, members=members, root=root)
        shown = heapq.nlargest(_ROWS, map(topics.__getitem__, seen), key=partial(_needs, now=snapshot.at))
        rows = _rows(sorted(shown, key=attrgetter("name")), snapshot, visitor)
        rest = len(seen) - len(rows)
        parts["topics"] = fragment("topics", rows=rows, rest=rest, now=snapshot.at, root=root)
    if name in ("overview", "topic"):
        about = topic if name == "topic" else None
        coming = snapshot.coming.get(about)
        if coming is not None:
            totals_so_far = accumulate((part.total for part in coming.parts), max, initial=0)
            charts = [histogram(part, least) for part, least in zip(coming.parts, totals_so_far, strict=False)]
            parts["coming"] = fragment("coming", coming=coming, charts=charts, topic=about or "", root=root)
    if name == "topic":
        here = topics.get(topic or "")
        rows = _rows([here], snapshot, visitor) if here is not None and visitor.may("read", here.name) else []
        parts["topic-now"] = fragment("topic_now", rows=rows, now=snapshot.at)
    if name == "workers":
        there = [one for one in snapshot.members if may_see(visitor, one)]
        first = heapq.nsmallest(_ROWS, there, key=lambda one: (not one.gone, one.behind <= 0))
        workers = _workers(sorted(first), snapshot, visitor)
        parts["workers"] = fragment("workers", workers=workers, rest=len(there) - len(workers), root=root)
    return parts


def _rows(topics: Iterable[TopicNow], snapshot: Snapshot, visitor: Grant) -> list[Row]:
    handled = Counter(name for member in snapshot.members for name in member.topics)
    return [
        Row(topic, topic.overdue(snapshot.at), visitor.may("admin", topic.name), handled[topic.name])
        for topic in topics
    ]


def _needs(topic: TopicNow, now: int) -> tuple[Any, ...]:
    """Return the sort key of a topic: those that need attention come first."""
    counts = topic.counts
    return counts.dead > 0, topic.overdue(now) > 1_000, topic.paused, topic.rate or 0, counts.delayed + counts.running


def _workers(members: Iterable[Member], snapshot: Snapshot, visitor: Grant) -> list[Worker]:
    seen = {one: [topic for topic in one.handles if visitor.may("read", topic)] for one in members}
    handlers: dict[str, list[str]] = {topic: [] for topics in seen.values() for topic in topics[:_TOPICS]}
    for other in snapshot.members:
        for topic in other.topics & handlers.keys():
            handlers[topic].append(other.worker)
    parts = {topic: owners(topic, names) for topic, names in handlers.items()}
    return [
        Worker(
            one,
            tuple((topic, parts[topic].count(one.worker)) for topic in topics[:_TOPICS]),
            max(len(topics) - _TOPICS, 0),
            _room(one, snapshot.at),
            may_order(visitor, one),
        )
        for one, topics in seen.items()
    ]


def _room(member: Member, now: int) -> str:
    if member.quiet:
        return "quiet"
    if member.behind == 0:
        return "keeps up"
    if member.behind < 0:
        return "full"
    return f"behind for {max(now - member.behind, 0) // 1000} s"

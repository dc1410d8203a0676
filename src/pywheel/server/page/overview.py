"""What changes while one looks: the fragments of the live views, made of a snapshot."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ...jobs.job import Counts
from ...stores.notifier import Member
from ...stores.ownership import owners
from ..live import Snapshot, TopicNow
from ..tokens import Grant
from ..visible import may_order, may_see
from .drawings import histogram, trend
from .templating import fragment

__all__ = ["fragments_of"]

_ROWS: Final = 100  # topics that are shown: those first that need somebody


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
    topics: tuple[tuple[str, int], ...]  # with how many shards it owns
    room: str
    may_order: bool


def fragments_of(name: str, snapshot: Snapshot, visitor: Grant, root: str, topic: str | None) -> dict[str, str]:
    """Return the fragments of a view by the ids of the elements that they are in."""
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
        parts["workers"] = fragment("workers", workers=_workers(snapshot, visitor), root=root)
    return parts


def _rows(topics: Iterable[TopicNow], snapshot: Snapshot, visitor: Grant) -> list[Row]:
    handled = Counter(name for member in snapshot.members for name in member.topics)
    return [
        Row(topic, topic.overdue(snapshot.at), visitor.may("admin", topic.name), handled[topic.name])
        for topic in topics
    ]


def _needs(topic: TopicNow, now: int) -> tuple[Any, ...]:
    """Return how much a topic needs somebody, to be compared."""
    counts = topic.counts
    return counts.dead > 0, topic.overdue(now) > 1_000, topic.paused, topic.rate or 0, counts.delayed + counts.running


def _workers(snapshot: Snapshot, visitor: Grant) -> list[Worker]:
    handlers: dict[str, list[str]] = {}
    for member in snapshot.members:
        for topic in member.topics:
            handlers.setdefault(topic, []).append(member.worker)
    parts = {topic: owners(topic, names) for topic, names in handlers.items() if visitor.may("read", topic)}
    shown = []
    for member in snapshot.members:
        if may_see(visitor, member):
            seen = [topic for topic in member.handles if visitor.may("read", topic)]
            topics = tuple((topic, parts[topic].count(member.worker) if topic in parts else 0) for topic in seen)
            shown.append(Worker(member, topics, _room(member, snapshot.at), may_order(visitor, member)))
    return shown


def _room(member: Member, now: int) -> str:
    if member.quiet:
        return "quiet"
    if member.behind == 0:
        return "keeps up"
    if member.behind < 0:
        return "full"
    return f"behind for {max(now - member.behind, 0) // 1000} s"

"""The views of the whole: overview, what is coming, workers, outlets."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from starlette.exceptions import HTTPException
from starlette.responses import Response

from ..._errors import StoreError
from ...jobs.checks import name
from ...jobs.job import Attempt, Job, State
from ...jobs.queries import Filter, GetHistories, ListNotes
from ...stores.contract import Store
from ..visible import Sees, page
from .answers import Ask, back
from .audit import listed
from .feed import Feed
from .forms import fields
from .words import iso

__all__ = ["Views"]

_OUTLETS: Final = "outlet:"
_DEEDS: Final = 100  # of a page of the audit log
_RUNNING: Final = 200  # running jobs that are shown


class Running(NamedTuple):
    """A job that runs, and since when."""

    job: Job
    claim: Attempt


Runs: TypeAlias = list[tuple[str, list[Running]]]
"""By worker."""


class Views:
    """Shows what a snapshot says."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def overview(self, ask: Ask) -> Response:
        """Topics, and what is coming."""
        _, parts = await self._feed.parts(ask, "overview")
        return ask.page("overview.html", parts=parts, live="view=overview")

    async def workers(self, ask: Ask) -> Response:
        """Who is there, for which topics, and what each of them runs."""
        _, parts = await self._feed.parts(ask, "workers")
        store = ask.context.queue.store
        running: Runs | None = None  # the page is asked for again and again: it says that the store is away, and stays
        more = False
        with suppress(StoreError):
            running, more = await ask.context.read(_running, store, ask.visitor.sees)
        return ask.page(
            "workers.html", parts=parts, live="view=workers", running=running, more=more, now=store.clock.wall()
        )

    async def coming(self, ask: Ask) -> Response:
        """What is coming, in numbers: for those who do not see the picture, or want to copy."""
        topic = ask.request.query_params.get("topic") or None
        if topic is None and not ask.visitor.everywhere:
            raise HTTPException(403, "your token is for some topics: choose one of them")
        if topic is not None:
            ask.allow("read", topic)
        snapshot = await ask.context.live.now([topic])
        coming = snapshot.coming.get(topic)
        if coming is None:
            raise HTTPException(503, snapshot.error or "there are too many topics to look ahead at all: choose one")
        tables = [
            (
                part.horizon.name,
                part.horizon.most,
                [
                    (iso(part.start + at * part.horizon.step), iso(part.start + (at + 1) * part.horizon.step), count)
                    for at, count in enumerate(part.counts)
                    if count
                ],
            )
            for part in coming.parts
        ]
        return ask.page("coming.html", tables=tables, coming=coming, topic=topic)

    async def outlets(self, ask: Ask) -> Response:
        """Where jobs are delivered to, and what was answered last."""
        if not ask.visitor.everywhere:
            raise HTTPException(403, "your token is for some topics, and outlets are for all of them")
        store = ask.context.queue.store
        notes = await ask.context.read(store.ask, ListNotes(_OUTLETS))
        return ask.page("outlets.html", outlets=[_outlet(key, value) for key, value in notes], now=store.clock.wall())

    async def log(self, ask: Ask) -> Response:
        """Who changed what by the page."""
        ask.allow("admin")
        store, after = ask.context.queue.store, ask.request.query_params.get("after", "")
        deeds, following = await ask.context.read(listed, store, after, _DEEDS, ask.visitor)
        return ask.page("log.html", deeds=deeds, after=after, following=following, now=store.clock.wall())

    async def pause(self, ask: Ask) -> Response:
        """Pause or resume a topic."""
        given = await fields(ask.request)
        topic, action = name(given.one("topic"), "topic"), given.one("action")
        ask.allow("admin", topic)
        ask.does(action, f"topic {topic}", topic)
        queue = ask.context.queue
        if action == "pause":
            changed = await queue.aio.topics.pause(topic)
            said = f"{topic} is paused: nothing of it starts until it is resumed"
        elif action == "resume":
            changed = await queue.aio.topics.resume(topic)
            said = f"{topic} goes on"
        else:
            raise HTTPException(400, "a topic can be paused and resumed")
        there = "/jobs" if given.one("from") == "jobs" else "/"
        path = f"/jobs?{given.one('query')}" if there == "/jobs" else "/"
        return back(ask.request, path, said if changed else f"{topic} was {action}d already")


def _running(store: Store, sees: Sees) -> tuple[Runs, bool]:
    """Return the first running jobs that are seen, by worker, the oldest claim first; and whether there are more."""
    found = page(store, Filter(state=State.RUNNING), "", _RUNNING, sees, preview=0)
    histories = store.ask(GetHistories([job.id for job in found.jobs]))
    by_worker: dict[str, list[Running]] = {}
    for job, history in zip(found.jobs, histories, strict=True):
        if history and history[-1].outcome is None:  # else it has ended since
            by_worker.setdefault(history[-1].worker or "", []).append(Running(job, history[-1]))
    for jobs in by_worker.values():
        jobs.sort(key=lambda one: (one.claim.started or 0, one.job.id))
    return sorted(by_worker.items()), found.next is not None


def _outlet(key: str, value: bytes) -> dict[str, Any]:
    """Return what an outlet notes of itself: its last answer, and since when it is disabled."""
    try:
        said = json.loads(value)
    except ValueError:
        said = None
    known = said if isinstance(said, dict) else {}
    shown = {field: known.get(field) for field in ("kind", "target", "at", "status", "error", "disabled")}
    for field in ("at", "disabled"):
        shown[field] = shown[field] if isinstance(shown[field], int) else None
    name = known.get("name")  # a target that is disabled has a note of its own, of another key
    return {"name": name if isinstance(name, str) else key.removeprefix(_OUTLETS), **shown}

"""The general views: overview, forecast, workers, outlets, audit log."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

from starlette.responses import Response

from ..._errors import StoreError
from ...jobs.checks import name
from ...jobs.job import Attempt, Job, State
from ...jobs.limits import LimitOverride
from ...jobs.queries import Filter, GetHistories, ListNotes
from ...stores.contract import Store
from ...stores.notifier import ORDERS
from ..access import demand_all
from ..audit import listed
from ..problems import Problem
from ..visible import Sees, page, tell
from .answers import Ask
from .filters import fields, number_of, texts

_OUTLETS: Final = "outlet:"
_DEEDS: Final = 100  # entries on a page of the audit log
_RUNNING: Final = 200  # running jobs that are shown


class Running(NamedTuple):
    """A running job, and since when it runs."""

    job: Job
    claim: Attempt


_TOLD: Final = {
    "quiet": "takes no new jobs in a moment, and finishes what it has begun",
    "resume": "takes jobs again in a moment",
    "stop": "begins to drain in a moment",
}
Runs: TypeAlias = list[tuple[str, list[Running]]]
"""Running jobs by worker."""


async def overview(ask: Ask) -> Response:
    """Show the topics and the forecast."""
    _, parts = await ask.feed.parts(ask, "overview")
    return ask.page("overview.html", parts=parts, live="view=overview")


async def workers(ask: Ask) -> Response:
    """Show the workers, their topics and their running jobs."""
    _, parts = await ask.feed.parts(ask, "workers")
    running: Runs | None = None  # the page asks again and again: it stays, and says that the store is away
    more = False
    with suppress(StoreError):
        running, more = await ask.context.read(_running, ask.store, ask.visitor.sees)
    return ask.page("workers.html", parts=parts, live="view=workers", running=running, more=more, now=ask.now)


async def order(ask: Ask) -> Response:
    """Order a worker to be quiet, take jobs again, or stop."""
    given = await fields(ask.request)
    worker, action = given.get("worker", ""), given.get("action", "")
    if action not in ORDERS:
        raise Problem("bad-request", f"a worker can be told one of these: {', '.join(ORDERS)}")
    ask.allow("admin")
    await ask.context.read(tell, ask.store, ask.visitor, worker, action)
    ask.does(action, f"worker {worker}")
    return ask.back("/workers", f"{worker} {_TOLD[action]}")


async def coming(ask: Ask) -> Response:
    """Show the forecast in numbers, for screen readers and for copying."""
    topic = ask.topic
    if topic is None:
        demand_all(ask.visitor, "read", "choose one of them")
    snapshot = await ask.context.live.now([topic])
    coming = snapshot.coming.get(topic)
    if coming is None:
        raise Problem("too-busy", snapshot.error or "there are too many topics to look ahead at all: choose one")
    return ask.page("coming.html", coming=coming, topic=topic)


async def outlets(ask: Ask) -> Response:
    """Show the targets of outlets, and their last answers."""
    demand_all(ask.visitor, "read", "look at their jobs")
    notes = await ask.context.read(ask.store.ask, ListNotes(_OUTLETS))
    return ask.page("outlets.html", outlets=[_outlet(key, value) for key, value in notes], now=ask.now)


async def log(ask: Ask) -> Response:
    """Show the audit log of changes."""
    ask.allow("admin")
    after = ask.query.get("after", "")
    deeds, following = await ask.context.read(listed, ask.store, after, _DEEDS, ask.visitor)
    return ask.page("log.html", deeds=deeds, after=after, following=following, now=ask.now)


async def act(ask: Ask) -> Response:
    """Pause, resume or limit a topic."""
    given = await fields(ask.request)
    topic, action = name(given.get("topic", ""), "topic"), given.get("action", "")
    if action not in ("pause", "resume", "limit", "as_code"):
        raise Problem("bad-request", "a topic can be paused, resumed and limited")
    ask.allow("admin", topic)
    ask.does(action, f"topic {topic}", topic)
    topics = ask.context.queue.aio.topics
    match action:
        case "pause":
            said = f"{topic} is paused: nothing of it starts until it is resumed"
            said = said if await topics.pause(topic) else f"{topic} was paused already"
        case "resume":
            said = f"{topic} goes on" if await topics.resume(topic) else f"{topic} was resumed already"
        case "limit":
            limit, per, rate = texts(given, LimitOverride._fields).values()
            override = LimitOverride(number_of(limit) if limit else None, per or None, rate or None)
            said = f"{topic} is limited: {override.text}"
            ask.does(action, f"topic {topic}: {override.text}", topic)
            await topics.limit(topic, **override.options)
        case "as_code":
            said = f"{topic} is limited as its code says"
            ask.does("limit", f"topic {topic}: as its code says", topic)
            await topics.limit_as_code(topic)
    path = f"/jobs?{given.get('query', '')}" if given.get("from", "") == "jobs" else "/"
    return ask.back(path, said)


def _running(store: Store, sees: Sees) -> tuple[Runs, bool]:
    """Return the first visible running jobs, by worker, the oldest claim first; and whether there are more."""
    found = page(store, Filter(state=State.RUNNING), "", _RUNNING, sees, preview=0)
    histories = store.ask(GetHistories([job.id for job in found.jobs]))
    by_worker: dict[str, list[Running]] = {}
    for job, history in zip(found.jobs, histories, strict=True):
        if history and history[-1].outcome is None:  # else it has ended meanwhile
            by_worker.setdefault(history[-1].worker or "", []).append(Running(job, history[-1]))
    for jobs in by_worker.values():
        jobs.sort(key=lambda one: (one.claim.started or 0, one.job.id))
    return sorted(by_worker.items()), found.next is not None


def _outlet(key: str, value: bytes) -> dict[str, Any]:
    """Return an outlet's note: its last answer, and since when it is disabled."""
    try:
        said = json.loads(value)
    except ValueError:
        said = None
    known = said if isinstance(said, dict) else {}
    shown = {field: known.get(field) for field in ("kind", "target", "at", "status", "error", "disabled")}
    for field in ("at", "disabled"):
        shown[field] = shown[field] if isinstance(shown[field], int) else None
    name = known.get("name")  # a disabled target has a note of its own, with another key
    return {"name": name if isinstance(name, str) else key.removeprefix(_OUTLETS), **shown}

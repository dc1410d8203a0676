"""Bulk actions: counted first, then run in the background, with visible progress."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Struct
from starlette.responses import Response

from ..._errors import BadJob, PywheelError
from ...jobs.commands import Cancel, Change, Command, Delete, Edit, Retry, SetNote
from ...jobs.job import Job, State
from ...jobs.queries import CountJobs, Filter, GetNote
from ...stores.contract import Store, intact
from ..audit import Deed, keep
from ..visible import Sees, page
from .answers import OVER, Ask, visitor_of
from .filters import Asked

_BATCH: Final = 250  # jobs in a transaction
_PATIENCE: Final = 1.5  # seconds that a count may take
_KEPT: Final = 86_400_000  # ms for which the progress is kept
_SILENT: Final = 30_000  # ms without a batch after which the server counts as ended
_LONGEST: Final = 2_000  # characters of texts that are kept
_ID: Final = re.compile(r"[A-Za-z0-9_-]{16}", re.ASCII)
_NOTE: Final = "bulk:"
_STOP: Final = "bulk-stop:"
_under_way: Final[set[asyncio.Task[None]]] = set()  # a loop holds its tasks weakly


@dataclass(frozen=True, slots=True)
class Action:
    """An action on jobs."""

    name: str
    done: str  # the participle
    states: tuple[State, ...]  # the states that it is for
    command: Callable[[int, int], Command[Change]]  # from a job's id, and its due time if the action is timed
    scope: str = "put"  # the scope for one job; many jobs need admin
    timed: bool = False  # whether it needs a new due time


_NOT_RUNNING: Final = (State.DELAYED, State.DONE, State.DEAD, State.CANCELLED)
ACTIONS: Final = {
    action.name: action
    for action in (
        Action("cancel", "cancelled", (State.DELAYED,), lambda id, _: Cancel(id)),
        Action("reschedule", "rescheduled", (State.DELAYED,), Edit, timed=True),
        Action("retry", "retried", (State.DEAD, State.CANCELLED, State.DONE), lambda id, _: Retry(id, delay=0)),
        Action("delete", "deleted", _NOT_RUNNING, lambda id, _: Delete(id), "admin"),
    )
}


class Bulk(Struct):
    """An action on many jobs, running or over, as a note: any server of the store shows it."""

    id: str
    name: str
    what: str
    path: str  # the path of the page that began it
    at: int  # ms, when the note was written
    due: int = 0  # ms, the new due time if the action has one
    seen: int = 0
    changed: int = 0
    over: bool = False
    stopped: bool = False
    error: str = ""

    @property
    def action(self) -> Action:
        """The action."""
        return ACTIONS[self.name]


async def start(ask: Ask, action: Action, asked: Asked, what: str, path: str, due: int = 0) -> Response:
    """Start an action on all matching jobs that the visitor sees, and send the browser to its progress.

    The action runs in the background, in batches.
    """
    bulk = Bulk(secrets.token_urlsafe(12), action.name, what[:_LONGEST], path[:_LONGEST], 0, due)
    await ask.context.read(_keep, ask.store, bulk)
    await keep(ask.context, ask.visitor, Deed(action.name, what, asked.topic or None, "begun"))
    task = asyncio.create_task(_work(ask, bulk, asked))
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return ask.back(f"/bulk/{bulk.id}")


def progress_of(store: Store, id: str) -> Bulk | None:
    """Return a bulk action by its id, as its note says."""
    value = store.ask(GetNote(_NOTE + id)) if _ID.fullmatch(id) else None
    bulk = None if value is None else msgspec.json.decode(value, type=Bulk)
    if bulk is not None and not bulk.over and store.clock.wall() - bulk.at > _SILENT:
        bulk.over, bulk.error = True, "the server that did it has ended: begin again for the others"
    return bulk


def stop(store: Store, id: str) -> None:
    """Stop a bulk action after its current batch."""
    if _ID.fullmatch(id):
        store.apply([SetNote(_STOP + id, b"", _KEPT)])


def _keep(store: Store, bulk: Bulk) -> None:
    bulk.at = store.clock.wall()
    store.apply([SetNote(_NOTE + bulk.id, msgspec.json.encode(bulk), _KEPT)])


async def _work(ask: Ask, bulk: Bulk, asked: Asked) -> None:
    context, store, visitor = ask.context, ask.store, ask.visitor
    try:
        for state in states_of(bulk.action, asked.filter):
            some = asked._replace(state=state)
            after: str | None = ""
            while after is not None and not bulk.stopped and not bulk.error:
                if await visitor_of(ask) != visitor:
                    bulk.error = OVER
                else:
                    after = await context.read(_batch, store, bulk, some, visitor.sees, after)
    except PywheelError as error:
        bulk.error = context.problem(error).detail
    bulk.over = True
    with suppress(PywheelError):  # without news, the action counts as ended
        await context.read(_keep, store, bulk)
    end = "then it failed" if bulk.error else "then it was stopped" if bulk.stopped else "the end"
    outcome = f"{bulk.changed} {bulk.action.done}, {end}"
    await keep(context, visitor, Deed(bulk.name, bulk.what, asked.topic or None, outcome))


def _batch(store: Store, bulk: Bulk, asked: Asked, sees: Sees, after: str) -> str | None:
    found, fits = page(store, asked.filter, after, _BATCH, sees, preview=0), asked.fits
    # A rescheduled job may come again, as the list goes by due time.
    jobs = [job for job in found.jobs if not bulk.action.timed or job.due != bulk.due]
    commands = [bulk.action.command(job.id, bulk.due) for job in jobs if fits is None or fits(job)]
    bulk.seen += len(jobs)
    bulk.changed += made(store, commands)
    _keep(store, bulk)
    bulk.stopped = store.ask(GetNote(_STOP + bulk.id)) is not None
    return found.next


def made(store: Store, commands: Sequence[Command[Change]]) -> int:
    """Apply commands; return how many changed something. A retry changes nothing if a live job has its key."""
    return sum(outcome is Change.MADE for outcome in intact(store.apply(commands))) if commands else 0


def states_of(action: Action, filter: Filter) -> tuple[State, ...]:
    """Return the states in which an action applies to a search. BadJob: the search is for other states."""
    if filter.state is None:
        return action.states if action.name == "delete" else action.states[:1]  # nobody means to repeat done jobs
    if filter.state not in action.states:
        raise BadJob(f"{action.name} is for jobs that are {' or '.join(action.states)}, not {filter.state}")
    return (filter.state,)


def matching(store: Store, filter: Filter, states: tuple[State, ...], sees: Sees) -> Iterator[list[Job]]:
    """Yield the visible jobs that match a filter, in these states, without their bodies."""
    for state in states:
        after: str | None = ""
        while after is not None:
            found = page(store, filter._replace(state=state), after, 1000, sees, preview=0)
            yield found.jobs
            after = found.next


def count(store: Store, action: Action, asked: Asked, sees: Sees) -> tuple[int, bool]:
    """Return how many jobs an action is for, and whether that is all: the count has a time limit."""
    filter, fits = asked.filter, asked.fits
    states = states_of(action, filter)
    if fits is None and filter == Filter(filter.topic, filter.state):
        counts = store.ask(CountJobs())
        names = [filter.topic] if filter.topic is not None else [name for name in counts if sees is None or sees(name)]
        return sum(getattr(counts[name], state) for name in names if name in counts for state in states), True
    end, number = time.monotonic() + _PATIENCE, 0
    for jobs in matching(store, filter, states, sees):
        number += len(jobs) if fits is None else sum(map(fits, jobs))
        if time.monotonic() > end:
            return number, False
    return number, True

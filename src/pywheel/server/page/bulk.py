"""What is done to many jobs: counted first, then done in the background, with its progress to be seen."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from ..._errors import BadJob, PywheelError
from ...jobs.commands import Cancel, Change, Command, Delete, Retry
from ...jobs.job import Job, State
from ...jobs.queries import CountJobs, Filter
from ...stores.contract import Store, intact
from ..visible import Sees, page

if TYPE_CHECKING:
    from ..context import Context

__all__ = ["ACTIONS", "Action", "Bulk", "Bulks", "count", "matching", "states_of"]

Fits: TypeAlias = Callable[[Job], bool] | None
"""Whether a job is meant; None: each is."""
_BATCH: Final = 250  # jobs in one transaction
_PATIENCE: Final = 1.5  # seconds that counting may take
_KEPT: Final = 50  # that are over


@dataclass(frozen=True, slots=True)
class Action:
    """What can be done to jobs."""

    name: str
    done: str  # as a participle
    states: tuple[State, ...]  # that it is for
    command: Callable[[int], Command[Change]]
    scope: str = "put"  # for one job; for many it is admin


ACTIONS: Final = {
    action.name: action
    for action in (
        Action("cancel", "cancelled", (State.DELAYED,), Cancel),
        Action("retry", "retried", (State.DEAD, State.CANCELLED, State.DONE), lambda id: Retry(id, delay=0)),
        Action("delete", "deleted", (State.DELAYED, State.DONE, State.DEAD, State.CANCELLED), Delete, "admin"),
    )
}


@dataclass(slots=True)
class Bulk:
    """One action on many jobs, under way or over."""

    id: str
    action: Action
    what: str
    path: str  # where it was asked for
    began: float = field(default_factory=time.monotonic)
    seen: int = 0
    changed: int = 0
    over: bool = False
    stopped: bool = False
    error: str = ""

    @property
    def seconds(self) -> float:
        """For how long it goes on."""
        return time.monotonic() - self.began


class Bulks:
    """What is under way in this process, and what is over of late."""

    def __init__(self) -> None:
        self._known: dict[str, Bulk] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def get(self, id: str) -> Bulk | None:
        """Return one by its id."""
        return self._known.get(id)

    def start(
        self, context: Context, action: Action, filter: Filter, sees: Sees, fits: Fits, what: str, path: str
    ) -> Bulk:
        """Begin an action on all jobs that a filter means, that are seen and fit; it goes on by itself, in batches."""
        bulk = Bulk(secrets.token_urlsafe(12), action, what, path)
        self._known[bulk.id] = bulk
        for id in [id for id, each in self._known.items() if each.over][:-_KEPT]:
            del self._known[id]
        task = asyncio.get_running_loop().create_task(_work(context, bulk, filter, sees, fits))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return bulk


async def _work(context: Context, bulk: Bulk, filter: Filter, sees: Sees, fits: Fits) -> None:
    store = context.queue.store
    try:
        for state in states_of(bulk.action, filter):
            after: str | None = ""
            while after is not None and not bulk.stopped:
                after = await context.read(_batch, store, bulk, filter._replace(state=state), sees, fits, after)
    except PywheelError as error:
        bulk.error = context.problem(error).detail
    finally:
        bulk.over = True


def _batch(store: Store, bulk: Bulk, filter: Filter, sees: Sees, fits: Fits, after: str) -> str | None:
    found = page(store, filter, after, _BATCH, sees, preview=0)
    commands = [bulk.action.command(job.id) for job in found.jobs if fits is None or fits(job)]
    bulk.seen += len(found.jobs)
    if commands:
        # A retry whose key is taken by now is JobExists: the others have happened.
        bulk.changed += sum(outcome is Change.MADE for outcome in intact(store.apply(commands)))
    return found.next


def states_of(action: Action, filter: Filter) -> tuple[State, ...]:
    """Return the states of the jobs that an action on a search is for. BadJob: the search is for others."""
    if filter.state is None:
        return action.states if action.name == "delete" else action.states[:1]  # nobody means to repeat what is done
    if filter.state not in action.states:
        raise BadJob(f"{action.name} is for jobs that are {' or '.join(action.states)}, not {filter.state}")
    return (filter.state,)


def matching(store: Store, filter: Filter, states: tuple[State, ...], sees: Sees) -> Iterator[list[Job]]:
    """Yield the jobs that a filter means and that are seen, in these states, without their bodies."""
    for state in states:
        after: str | None = ""
        while after is not None:
            found = page(store, filter._replace(state=state), after, 1000, sees, preview=0)
            yield found.jobs
            after = found.next


def count(store: Store, action: Action, filter: Filter, sees: Sees) -> tuple[int, bool]:
    """Return how many jobs an action is for, and whether that is all of them: counting ends after a while."""
    states = states_of(action, filter)
    if filter == Filter(filter.topic, filter.state):
        counts = store.ask(CountJobs())
        names = [filter.topic] if filter.topic is not None else [name for name in counts if sees is None or sees(name)]
        return sum(getattr(counts[name], state) for name in names if name in counts for state in states), True
    end, number = time.monotonic() + _PATIENCE, 0
    for jobs in matching(store, filter, states, sees):
        number += len(jobs)
        if time.monotonic() > end:
            return number, False
    return number, True

"""Pages of jobs, for readers that read only what they show: cursors, and the limits of one page.

A page looks at a bounded number of rows, and holds a bounded number of bytes. So it may have fewer jobs than asked for
while there are more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .._errors import BadJob
from ..jobs.checks import MOST
from ..jobs.job import Job, State
from ..jobs.queries import PAGE_MOST, Ended, Filter, GetHistories, GetPage, Page
from .checks import clamped

if TYPE_CHECKING:
    from .contract import Store

BYTES: Final = 4_000_000
"""The bytes of bodies that a page holds at most, approximately; one body fits whatever its size."""
_ORDERS: Final = {(False, False): "i", (False, True): "n", (True, False): "d", (True, True): "l"}  # by due, newest
_CURSOR: Final = re.compile(r"([inld])(?:(-?[0-9]{1,19})\.)?([0-9]{1,19})")


class Position(NamedTuple):
    """A place in a list, behind a job."""

    due: int  # 0 in a list by id
    id: int


class Asked(NamedTuple):
    """The wanted part of a list."""

    filter: Filter
    by_due: bool
    newest: bool
    after: Position
    until: int  # the last due time that counts, in the direction of the list
    limit: int
    preview: int | None

    def place(self, job: Job) -> Position:
        """Return a job's place in the list."""
        return Position(job.due if self.by_due else 0, job.id)

    def cursor(self, position: Position) -> str:
        """Return the cursor of a place."""
        order = _ORDERS[self.by_due, self.newest]
        return f"{order}{position.due}.{position.id}" if self.by_due else f"{order}{position.id}"

    @property
    def loose(self) -> bool:
        """Whether a read may look at many jobs that do not match."""
        filter = self.filter
        dues = not self.by_due and (filter.due_from is not None or filter.due_until is not None)
        return dues or filter.error is not None or (filter.key is not None and filter.state is not None)


def asked(query: GetPage) -> Asked:
    """Return the wanted part of a list. BadJob if the cursor is from another list."""
    filter, limit = query.filter, min(query.limit, PAGE_MOST)
    ranged = filter.due_from is not None or filter.due_until is not None
    by_due = ranged and filter.state is State.DELAYED and filter.key is None and not query.by_id
    first, last = Position(0, 0), Position(0, MOST)
    if by_due:
        first = Position(-MOST if filter.due_from is None else clamped(filter.due_from), 0)
        last = Position(MOST if filter.due_until is None else clamped(filter.due_until), MOST)
    start, end = (last, first) if query.newest else (first, last)
    wanted = Asked(filter, by_due, bool(query.newest), start, end.due, limit, query.preview)
    if query.after == "":
        return wanted
    place = _position(query.after, _ORDERS[by_due, wanted.newest])
    return wanted._replace(after=min(place, start) if query.newest else max(place, start))


def _position(text: Any, order: str) -> Position:
    found = _CURSOR.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[1] != order or (found[2] is None) is (order in "dl"):
        raise BadJob(f"{text!r:.60} is not a cursor of this list: give `next` of a page with the same filter and order")
    return Position(clamped(int(found[2] or 0)), clamped(int(found[3])))


def meant(store: Store, filter: Filter, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs, found by the plain filter, that match the whole filter. O(jobs); one query for a worker."""
    found = [job for job in jobs if filter.fits(job)]
    if filter.worker is None:
        return found
    histories = store.ask(GetHistories([job.id for job in found]))
    workers = [history[-1].worker or "" if history else "" for history in histories]
    return [job for job, worker in zip(found, workers, strict=True) if worker.startswith(filter.worker)]


def by_id(filter: Filter, after: int, limit: int) -> GetPage:
    """Return the query for the first page behind an id of a list by id. Its jobs may match the filter: see `walk`."""
    plain = filter.plain
    return GetPage(plain, f"i{after}", limit if plain == filter else PAGE_MOST, by_id=True)


def walk(store: Store, filter: Filter, query: GetPage) -> Iterator[list[Job]]:
    """Yield the jobs that match the whole filter, from the page of the query to the end of the list."""
    after: str | None = query.after
    while after is not None:
        page = store.ask(replace(query, after=after))
        yield meant(store, filter, page.jobs)
        after = page.next


def search(
    store: Store,
    filter: Filter,
    after: str,
    limit: int,
    *,
    preview: int | None = None,
    newest: bool = False,
    most: int = PAGE_MOST,
) -> Page:
    """Return a page of jobs for any filter. Conditions that `GetPage` does not know are checked on `most` jobs."""
    plain = GetPage(filter.plain, after, limit, preview, newest)
    if filter == filter.plain:
        return store.ask(plain)
    looked = store.ask(replace(plain, limit=most, preview=preview if filter.text is None else None))
    sizes = dict(zip((job.id for job in looked.jobs), looked.sizes, strict=True))
    found, end = meant(store, filter, looked.jobs), looked.next
    if len(found) > limit:
        del found[limit:]
        wanted = asked(plain)
        end = wanted.cursor(wanted.place(found[-1]))
    jobs = found if preview is None else [job._replace(body=job.body[:preview]) for job in found]
    return Page(jobs, end, [sizes[job.id] for job in found], len(looked.jobs))


def latest(found: Iterable[Ended], limit: int) -> list[Ended]:
    """Return the jobs that ended last, the last one first."""
    return nlargest(limit, found, key=lambda one: (one.ended, one.id))

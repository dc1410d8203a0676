"""Pages of jobs, for those who read no more than they show: cursors, and what one page may cost.

A page looks at a bounded number of rows, and holds a bounded number of bytes. So it may have fewer jobs than were asked
for while there are more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import nlargest, nsmallest
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .._errors import BadJob
from ..jobs.checks import MOST, whole
from ..jobs.job import Job, State
from .checks import clamped
from .filters import Filter

if TYPE_CHECKING:
    from .contract import Store

__all__ = [
    "BYTES",
    "ROWS",
    "Asked",
    "Looked",
    "Page",
    "Position",
    "asked",
    "bodies_within",
    "from_all",
    "of_whole",
    "paged",
]

ROWS: Final = 1_000
"""About so many jobs are looked at for a page, and so many are the most it has."""
BYTES: Final = 4_000_000
"""Of the bodies a page holds about so many bytes at most; one body whatever its size."""
_LOOSE: Final = 200  # jobs looked at first, where many of them may not fit
_MANY: Final = 2_000  # jobs read at once, where all are
_FEW: Final = 4  # bodies read at once where their sizes are not known
_ORDERS: Final = {(False, False): "i", (False, True): "n", (True, False): "d", (True, True): "l"}  # by due, newest
_CURSOR: Final = re.compile(r"([inld])(?:(-?[0-9]{1,19})\.)?([0-9]{1,19})")


class Page(NamedTuple):
    """Some jobs of a list."""

    jobs: list[Job]
    next: str | None
    """The cursor behind what was looked at; None if there is nothing more."""
    sizes: Sequence[int] = ()
    """How many bytes each job's body has, whatever part of it is in the page."""


class Position(NamedTuple):
    """A place in a list, behind a job."""

    due: int  # 0 in a list by id
    id: int


class Asked(NamedTuple):
    """What of a list is wanted."""

    filter: Filter
    by_due: bool
    newest: bool
    after: Position
    until: int  # the last due time that counts, in the direction of the list
    limit: int
    preview: int | None

    def place(self, job: Job) -> Position:
        """Return where a job stands in the list."""
        return Position(job.due if self.by_due else 0, job.id)

    def cursor(self, position: Position) -> str:
        """Return a place as text."""
        order = _ORDERS[self.by_due, self.newest]
        return f"{order}{position.due}.{position.id}" if self.by_due else f"{order}{position.id}"

    @property
    def loose(self) -> bool:
        """Whether many jobs may be looked at that are not meant."""
        filter = self.filter
        dues = not self.by_due and (filter.due_from is not None or filter.due_until is not None)
        return dues or filter.error is not None or (filter.key is not None and filter.state is not None)


def asked(filter: Filter, after: str, limit: int, preview: int | None, *, newest: bool) -> Asked:
    """Return what is wanted. BadJob if the cursor is none of such a list, or a number is none."""
    limit = min(whole(limit, "limit", MOST), ROWS)
    for text in (filter.topic, filter.key, filter.error):
        _sound(text)
    if preview is not None:
        whole(preview, "preview", MOST, 0)
    ranged = filter.due_from is not None or filter.due_until is not None
    by_due = ranged and filter.state is State.DELAYED and filter.key is None
    first, last = Position(0, 0), Position(0, MOST)
    if by_due:
        first = Position(-MOST if filter.due_from is None else clamped(filter.due_from), 0)
        last = Position(MOST if filter.due_until is None else clamped(filter.due_until), MOST)
    start, end = (last, first) if newest else (first, last)
    wanted = Asked(filter, by_due, bool(newest), start, end.due, limit, preview)
    if after == "":
        return wanted
    place = _position(after, _ORDERS[by_due, wanted.newest])
    return wanted._replace(after=min(place, start) if newest else max(place, start))


def _sound(text: str | None) -> None:
    if text is not None and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadJob(f"a filter must be text that UTF-8 can hold, not {text!r:.40}") from None


def _position(text: Any, order: str) -> Position:
    found = _CURSOR.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[1] != order or (found[2] is None) is (order in "dl"):
        raise BadJob(f"{text!r:.60} is no cursor of this list: give `next` of a page with the same filter and order")
    return Position(clamped(int(found[2] or 0)), clamped(int(found[3])))


class Looked(NamedTuple):
    """Some jobs of a list, in its order, each without its body but with that one's size, if it is known."""

    jobs: Sequence[tuple[Job, int | None]]
    rows: int  # looked at for them
    last: Position  # so far
    more: bool  # whether there may be more


Look = Callable[[Position, int], Looked]
"""Returns up to so many jobs behind a place."""
Bodies = Callable[[Sequence[int]], Mapping[int, tuple[int, bytes]]]
"""Returns the sizes and the wanted parts of bodies, of those jobs that are still there."""


def paged(wanted: Asked, look: Look, bodies: Bodies) -> Page:
    """Return a page of jobs that a store looks up in two steps: which, and then the bodies of those that are meant."""
    found: list[tuple[Job, int | None]] = []
    rows, last, more = 0, wanted.after, True
    while more and len(found) <= wanted.limit and rows < ROWS:
        missing = wanted.limit + 1 - len(found)  # the one more says whether there are more
        # The one look that mostly is enough, and then as much as there may be.
        some = look(last, max(missing, ROWS - rows if rows else _LOOSE) if wanted.loose else missing)
        found += [one for one in some.jobs if wanted.filter.fits(one[0])]
        rows, last, more = rows + max(some.rows, 1), some.last, some.more
    if len(found) > wanted.limit:
        del found[wanted.limit :]
        last, more = wanted.place(found[-1][0]), True
    jobs, sizes = list[Job](), list[int]()
    taken = held = 0
    for part in bodies_within(found, wanted.preview):
        got = {job.id: (size or 0, b"") for job, size in part}
        if wanted.preview != 0 or any(size is None for _, size in part):
            got = dict(bodies([job.id for job, _ in part]))
        for job, _ in part:
            if held < BYTES:
                taken += 1
                if job.id in got:
                    size, body = got[job.id]
                    jobs.append(job._replace(body=body))
                    sizes.append(size)
                    held += len(body)
        if held >= BYTES:
            break
    if taken < len(found):
        last, more = wanted.place(found[taken - 1][0]), True
    return Page(jobs, wanted.cursor(last) if more else None, sizes)


def bodies_within(
    found: Sequence[tuple[Job, int | None]], preview: int | None
) -> Iterator[Sequence[tuple[Job, int | None]]]:
    """Yield jobs in parts whose bodies may be read at once."""
    at, few = 0, _FEW
    while at < len(found):
        end, held = at, 0
        while end < len(found) and (end == at or held < BYTES):
            size = found[end][1]
            if size is None and end - at == few:
                break
            size = size or 0
            held += size if preview is None else min(size, preview)
            if held > BYTES and end > at:
                break
            end += 1
        yield found[at:end]
        at, few = end, 2 * few


# ---- for stores that have only what they must ------------------------------------------------------------------------


def from_all(store: Store, wanted: Asked) -> Page:
    """Return a page of a store that only lists jobs by id, upwards. O(jobs), but for a list in that order."""
    limit, filter = wanted.limit + 1, wanted.filter
    if wanted.by_due or wanted.newest:
        pick = nlargest if wanted.newest else nsmallest
        found = pick(limit, _rest(store, wanted), key=wanted.place)
    else:
        found = store.jobs(filter, wanted.after.id, limit)
    return of_whole(found, wanted)


def of_whole(found: Sequence[Job], wanted: Asked) -> Page:
    """Return a page of jobs with their bodies. One more than wanted says that there are more."""
    parts = bodies_within([(job, len(job.body)) for job in found[: wanted.limit]], wanted.preview)
    jobs = [job for job, _ in next(parts, ())]
    more = len(jobs) < len(found)
    sizes = [len(job.body) for job in jobs]
    next_ = wanted.cursor(wanted.place(jobs[-1])) if more else None
    return Page([job._replace(body=job.body[: wanted.preview]) for job in jobs], next_, sizes)


def _rest(store: Store, wanted: Asked) -> Iterator[Job]:
    """Yield the jobs behind the place that is asked for, in any order."""

    def all_of_them() -> Iterator[list[Job]]:
        after = 0
        while some := store.jobs(wanted.filter, after, _MANY):
            yield some
            after = some[-1].id

    for job in chain.from_iterable(all_of_them()):
        place = wanted.place(job)
        if place < wanted.after if wanted.newest else place > wanted.after:
            yield job

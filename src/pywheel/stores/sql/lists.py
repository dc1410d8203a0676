"""Lists of jobs by a filter, in pages that look at a bounded number of rows.

Jobs are listed by id; those of a due range by due time. No index has the ids of a topic's jobs in order: each put and
each end would pay for it. If a topic or state has few jobs, all their ids are read. Otherwise the tables are scanned by
id, a bounded number of rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import Final, NamedTuple

from ...jobs import queries as q
from ...jobs.job import Job, State
from ...jobs.queries import PAGE_MOST, Ended, Filter, Page
from ..checks import clamped
from ..pages import BYTES, Asked, Position, asked, latest
from .read import found_in, heads, number_of, priorities_in
from .rows import listed
from .schema import FINISHED
from .statement import Rows, Select, Statement, Steps
from .transaction import Lookup, Names

_FEW: Final = 16_000  # ids of an index that are read for one page
_WALK: Final = 10_000  # rows that are scanned for one page
_LARGEST: Final = 2_000  # jobs read at once
_LEAST: Final = 200
_GROUPS: Final = 32  # groups that are read at once


class _Part(NamedTuple):
    """Ids of a list, in order, and the last id that was looked at; None: the list is at its end."""

    ids: list[int]
    upto: int | None


class _List:
    """A list by id, in one direction.

    The rows of a scan behind the last id that is wanted are read again. So a scan begins with few rows, and reads more
    while scans find fewer ids than are wanted: the rows read for a whole list are proportional to the rows there are.
    """

    def __init__(self, filter: Filter, topic: int | None, sizes: Sequence[int], *, newest: bool) -> None:
        self._filter = filter
        self._topic = topic
        self._sizes = sizes
        self._newest = newest
        self._rows = 0  # that the next scan reads at least
        self.scanned = 0
        """The rows of each table that the scans have read."""

    def ids(self, after: int, limit: int, most: int) -> Steps[_Part]:
        """Return up to `limit` ids of jobs that may match, behind an id, of up to `most` rows of a scan."""
        rows = min(max(limit, self._rows, _LEAST), most)
        values = {"topic": self._topic, "after": clamped(after), "limit": limit, "rows": rows, "key": self._filter.key}
        texts = list(self._texts())
        answers = yield [Rows("id meant", text, values) for text in texts]
        parts = []
        for text, found in zip(texts, answers, strict=True):
            full = len(found) == (rows if text.endswith(":rows") else limit)
            parts.append(_Part([id for id, meant in found if meant], found[-1][0] if full else None))
        part = self._merged(parts, limit)
        self._rows = 4 * rows if len(part.ids) < limit else 0
        self.scanned += rows
        return part

    def _merged(self, parts: Sequence[_Part], limit: int) -> _Part:
        sign = -1 if self._newest else 1
        ends = [sign * part.upto for part in parts if part.upto is not None]
        end = min(ends, default=None)
        ids = [
            id for id in merge(*(part.ids for part in parts), reverse=self._newest) if end is None or sign * id <= end
        ]
        if len(ids) > limit:
            return _Part(ids[:limit], ids[limit - 1])
        return _Part(ids, None if end is None else sign * end)

    def _texts(self) -> Iterator[str]:
        """Yield for each table the query for ids and whether each matches: by an index, or a scan of `:rows` rows."""
        state, key, topic = self._filter.state, self._filter.key, self._topic
        order = f"ORDER BY j.id {'DESC' if self._newest else 'ASC'} LIMIT"
        behind = f"j.id {'<' if self._newest else '>'} :after"
        for table, codes, size in _tables(state, self._sizes):
            conditions = [f"j.state IN {codes}"]
            if key is not None:
                passed = ("AND j.passed = 0", "AND j.passed = 1") if table == "job" else ("",)
                conditions = [f"j.key = :key AND j.key IS NOT NULL {one}" for one in passed]
            elif (state is None and topic is None) or size > _FEW:
                meant = f"j.state IN {codes}{'' if topic is None else ' AND j.topic = :topic'}"
                columns = f"j.id, CASE WHEN {meant} THEN 1 ELSE 0 END AS meant"
                yield f"SELECT {columns} FROM {table} j WHERE {behind} {order} :rows"
                continue
            of = "" if topic is None else f"WHERE t.id = {topic} "
            for condition in conditions:
                source = f"topic t {{each {table} j: j.topic = t.id AND {condition} AND +{behind}}}"
                yield f"SELECT j.id, 1 AS meant FROM {source} {of}{order} :limit"


def _tables(state: State | None, sizes: Sequence[int]) -> Iterator[tuple[str, str, int]]:
    """Yield the tables that may have jobs in a state, its numbers there, and the count of such jobs."""
    # A lease that is over may have left a job delayed, or dead. Those that run are never many.
    if state in (None, State.DELAYED):
        yield "job", "(0, 1)", sizes[0]
    elif state in (State.RUNNING, State.DEAD):
        yield "job", "(1)", 0
    if state is None:
        yield "finished", "(0, 1, 2)", sum(sizes[1:])
    elif state in FINISHED:
        yield "finished", f"({FINISHED.index(state)})", sizes[1 + FINISHED.index(state)]


def _sizes(filter: Filter, topic: int | None, tallies: Sequence[Select]) -> Steps[Sequence[int]]:
    """Return the counts of live, done, cancelled and dead jobs of the topic, or of all."""
    if filter.key is not None or (filter.state is None and topic is None):
        return (0, 0, 0, 0)
    answers = yield tallies
    rows = [row for rows in answers for row in rows if topic in (None, row[0])]
    return [sum(int(row[column]) for row in rows) for column in range(1, 5)]


def _begin(known: Lookup, filter: Filter, *, newest: bool) -> Steps[_List | None]:
    """Return the list by id for a filter, None if its topic does not exist."""
    topic = None
    if filter.topic is not None:
        topic = yield from number_of(known.topics, filter.topic)
        if topic is None:
            return None
    return _List(filter, topic, (yield from _sizes(filter, topic, known.tallies)), newest=newest)


def jobs(known: Lookup, query: q.ListJobs) -> Steps[list[Job]]:
    """Return up to `limit` jobs behind an id, by id."""
    filter, after, limit = query.filter, query.after, min(clamped(query.limit), 2**31)
    wanted = yield from _begin(known, filter, newest=False)
    found: list[Job] = []
    size = min(max(limit, _LEAST), _LARGEST)
    while wanted is not None and len(found) < limit:
        part = yield from wanted.ids(after, size, 64 * _WALK)
        some = (yield from heads(known.topics, part.ids)) if part.ids else []
        found += [job for job, _ in some if filter.fits(job)]
        if part.upto is None:
            break
        after, size = part.upto, _LARGEST
    jobs: list[Job] = []
    for at in range(0, min(len(found), limit), _LARGEST):
        jobs += yield from _with_bodies(found[at : min(at + _LARGEST, limit)])
    return jobs


def _with_bodies(jobs: Sequence[Job], preview: int | None = None) -> Steps[list[Job]]:
    """Return jobs with their bodies, or with the beginning of each."""
    text = f"SELECT j.id, {'j.body' if preview is None else 'substr(j.body, 1, :preview)'} AS body"
    values = {"ids": sorted(job.id for job in jobs), "preview": preview}
    bodies = yield from found_in("id body", text, text, values)
    return [job._replace(body=bytes(bodies[job.id][1] or b"")) for job in jobs]


# ---- pages ----------------------------------------------------------------------------------------------------------


def page(known: Lookup, query: q.GetPage) -> Steps[Page]:
    """Return a page of a list: first the matching jobs, then their bodies."""
    wanted = asked(query)
    filter = wanted.filter
    by_id = None
    if not wanted.by_due:
        by_id = yield from _begin(known, filter, newest=wanted.newest)
        if by_id is None:
            return Page([], None)
    found: list[tuple[Job, int]] = []
    rows, last, more = 0, wanted.after, True
    while more and len(found) <= wanted.limit and rows < PAGE_MOST and (by_id is None or by_id.scanned < _WALK):
        missing = wanted.limit + 1 - len(found)  # one more, to know whether the list goes on
        size = max(missing, PAGE_MOST - rows if rows else _LEAST) if wanted.loose else missing
        if by_id is None:
            places = yield from _by_due(known.topics, wanted, last, size)
            ids, upto = [place.id for place in places], places[-1] if len(places) == size else None
        else:
            part = yield from by_id.ids(last.id, size, _WALK)
            ids, upto = part.ids, None if part.upto is None else Position(0, part.upto)
        some = (yield from heads(known.topics, ids)) if ids else []
        found += [one for one in some if filter.fits(one[0])]
        rows, more = rows + max(len(ids), 1), upto is not None
        last = upto or last
    if len(found) > wanted.limit:
        del found[wanted.limit :]
        last, more = wanted.place(found[-1][0]), True
    return (yield from _filled(wanted, found, last, more=more))


def _filled(wanted: Asked, found: Sequence[tuple[Job, int]], last: Position, *, more: bool) -> Steps[Page]:
    """Return a page of the first of these jobs whose bodies fit."""
    taken, held, preview = 0, 0, wanted.preview
    while taken < len(found) and held < BYTES:
        size = found[taken][1]
        held += size if preview is None else min(size, preview)
        taken += 1
    if taken < len(found):
        last, more = wanted.place(found[taken - 1][0]), True
    jobs = [job for job, _ in found[:taken]]
    if preview != 0 and jobs:
        jobs = yield from _with_bodies(jobs, preview)
    return Page(jobs, wanted.cursor(last) if more else None, [size for _, size in found[:taken]])


# ---- by time --------------------------------------------------------------------------------------------------------

_Group = tuple[int, int]  # a topic, and a priority or a state
_Place = tuple[int, int]  # a time, and an id


def _first_of_groups(
    firsts: Statement, read: Callable[[_Group], Statement], limit: int, sign: int
) -> Steps[list[_Place]]:
    """Return the first places of all groups. Only groups whose first place comes early enough are read."""
    [rows] = yield (firsts,)
    ordered = sorted(((sign * first, (topic, kind)) for topic, kind, first in rows if first is not None))
    found: list[_Place] = []
    for at in range(0, len(ordered), _GROUPS):
        some = [
            group for first, group in ordered[at : at + _GROUPS] if len(found) < limit or first <= sign * found[-1][0]
        ]
        if not some:
            break
        answers = yield [read(group) for group in some]
        found = sorted([*found, *((time, id) for rows in answers for time, id in rows)], reverse=sign < 0)[:limit]
    return found


def _by_due(topics: Names, wanted: Asked, after: Position, limit: int) -> Steps[list[Position]]:
    """Return the places of delayed jobs in a due range, by (due, id)."""
    groups = yield from priorities_in(topics, wanted.filter.topic)
    if not groups:
        return []
    sign, behind, order = (-1, "<", "DESC") if wanted.newest else (1, ">", "ASC")
    span = {"due": after.due, "id": after.id, "until": wanted.until, "limit": limit}
    within = f"j.next {behind}= :due AND j.next {'>' if wanted.newest else '<'}= :until"
    firsts = Rows(
        "topic priority first",
        "SELECT w.topic, w.priority, (SELECT j.next FROM job j WHERE j.state = 0 AND j.topic = w.topic "
        f"AND j.priority = w.priority AND {within} ORDER BY j.next {order}, j.id {order} LIMIT 1) AS first "
        "FROM {w: topic, priority}",
        {"w": groups, **span},
    )
    text = (
        "SELECT j.next, j.id FROM job j WHERE j.state = 0 AND j.topic = :topic AND j.priority = :priority "
        f"AND {within} AND (j.next, j.id) {behind} (:due, :id) ORDER BY j.next {order}, j.id {order} LIMIT :limit"
    )

    def read(group: _Group) -> Statement:
        return Rows("next id", text, {"topic": group[0], "priority": group[1], **span})

    return [Position(*place) for place in (yield from _first_of_groups(firsts, read, limit, sign))]


def ended(lookup: Lookup, query: q.ListEnded) -> Steps[list[Ended]]:
    """Return the jobs that ended last, the last one first."""
    known, workers, limit = lookup.topics, lookup.workers, query.most
    if limit == 0:
        return []
    span = {"since": clamped(query.since), "until": clamped(query.until or 0), "limit": limit}
    by = "" if query.until is None else "AND j.ended <= :until"
    codes = range(len(FINISHED)) if query.state is None else (FINISHED.index(query.state),)
    states = " UNION ALL ".join(f"SELECT {code} AS state" for code in codes)
    order = "ORDER BY j.ended DESC, j.id DESC LIMIT"
    # The time is not compared in the inner query: MySQL would read all that ended before.
    firsts = Rows(
        "topic state first",
        "SELECT topic, state, first FROM (SELECT t.id AS topic, s.state AS state, (SELECT j.ended FROM finished j "
        f"WHERE j.topic = t.id AND j.state = s.state {order} 1) AS first FROM topic t CROSS JOIN ({states}) s "
        f"{'' if query.topic is None else 'WHERE t.name = :name'}) f WHERE first >= :since",
        {"name": query.topic, **span},
    )
    of = "j.topic = :topic AND j.state = :state AND j.ended >= :since"
    text = f"SELECT j.ended, j.id FROM finished j WHERE {of} {by} {order} :limit"

    def read(group: _Group) -> Statement:
        return Rows("ended id", text, {"topic": group[0], "state": group[1], **span})

    places = yield from _first_of_groups(firsts, read, limit, -1)
    columns = "id topic key state due started ended attempt worker error outcome"
    text = f"SELECT {listed(columns.split(), 'j')} FROM finished j WHERE j.id {{in ids}}"
    [rows] = yield (Rows(columns, text, {"ids": sorted(id for _, id in places)}),)
    topics = yield from known.named(row[1] for row in rows)
    named = yield from workers.named(row[8] for row in rows)
    found = [
        Ended(
            id, topics[number], key, FINISHED[state], due, started, ended, attempt, named.get(worker),
            error if outcome == 2 else None,
        )
        for id, number, key, state, due, started, ended, attempt, worker, error, outcome in rows
    ]  # fmt: skip
    return latest(found, limit)

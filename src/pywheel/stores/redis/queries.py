"""Queries: one call each, or several if there is much to look at, so that none takes long."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, repeat
from math import inf
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, Final

from ...jobs import queries as q
from ...jobs.job import Attempt, Counts, Due, Job, State, Topic
from ..checks import a_prefix, clamped, note_name
from ..notifier import workers
from ..pages import BYTES, Asked, Position, asked
from .commands import PIECE
from .records import LAST, STATES, attempts, from_id, jobs_of, pairs, parts, place_after, score, text, to_ids

if TYPE_CHECKING:
    from .store import RedisStore

_LOOKS: Final = 4  # calls for one page
_FIRST: Final = 1_000  # due jobs of one look, or jobs of a list whose bodies are read next
_FEW: Final = 2_000  # jobs that may match, up to which they are listed at once
_NOTES: Final = 128  # of up to 64 KiB, read at once
_TOPICS: Final = 100  # counted by one call: the server answers others in between
_SPANS: Final = 20


# ---- jobs -------------------------------------------------------------------------------------------------------


def _job(store: RedisStore, query: q.GetJob) -> Job | None:
    found = jobs_of(store.run("job", ref=query.ref)[1])
    return found[0] if found else None


def _jobs(store: RedisStore, query: q.ListJobs) -> list[Job]:
    start = asked(q.GetPage(query.filter))
    after = Position(0, clamped(query.after))
    return _listed(store, start._replace(after=after, by_due=False, limit=query.limit))[0]


def _page(store: RedisStore, query: q.GetPage) -> q.Page:
    """Return a page of a list.

    If a topic, or a state, has thousands of jobs, a page by id scans some thousands of all jobs. Otherwise the cost of
    a page grows with its jobs and, without a topic, with the number of topics: by state, key, or due time.
    """
    wanted = asked(query)
    jobs, sizes, last = _listed(store, wanted, _LOOKS)
    return q.Page(jobs, None if last is None else wanted.cursor(last), sizes)


def _listed(store: RedisStore, wanted: Asked, looks: float = inf) -> tuple[list[Job], list[int], Position | None]:
    """Return jobs, the sizes of their bodies, and the place behind which there may be more.

    It looks at jobs by up to `looks` calls, for at most about the bytes of one page.
    """
    found: list[Job] = []
    sizes: list[int] = []
    place: Position | None = wanted.after
    held = 0
    filter = wanted.filter
    state = None if filter.state is None else STATES.index(filter.state)
    asked = {**filter._asdict(), "state": state, "down": wanted.newest, "preview": wanted.preview}
    by_places = (filter.topic, filter.state, filter.key) != (None, None, None)
    places: list[Position] = []  # of the next jobs that may match
    further = True  # whether there may be more behind these
    while place is not None and len(found) < wanted.limit and looks > 0 and held < BYTES:
        asked |= {"after": min(max(place.id, 0), LAST), "most": BYTES - held}
        if by_places and not places:
            listed = _places(store, wanted, asked, place, wanted.limit - len(found))
            by_places = listed is not None
            places, further = listed or ([], True)
            if by_places and not places:
                return found, sizes, None
        ids = [to_ids([one.id for one in places[:_FIRST]])] if by_places else []
        _, more, id, jobs, lengths = store.run("page", *ids, limit=min(wanted.limit - len(found), PIECE), **asked)
        if by_places:
            looked = [one.id for one in places].index(from_id(id)) + 1
            place, places = places[looked - 1] if further or looked < len(places) else None, places[looked:]
        else:
            place = Position(0, from_id(id)) if more else None
        found += jobs_of(jobs)
        sizes += lengths
        looks -= 1
        held = sum(len(job.body) for job in found) if looks < inf else 0
    return found, sizes, place


def _places(
    store: RedisStore, wanted: Asked, asked: Mapping[str, Any], after: Position, limit: int
) -> tuple[list[Position], bool] | None:
    """Return the places of the next jobs that may match, and whether there may be more. None if they are too many."""
    whole = not wanted.by_due and wanted.filter.key is None
    most = _FEW if whole else min(max(limit, 100), _FIRST)
    found: list[Position] = []
    further = False
    due, stop = str(after.due) if wanted.by_due else None, wanted.until
    for topics in parts(_names(store, wanted.filter.topic), _TOPICS):
        part = {**asked, "topics": topics, "due": due, "stop": stop, "limit": most}
        _, ids, more, dues = store.run("ids", **part)
        if ids is None or (whole and len(found) + len(ids) // 6 > most):
            return None
        each = (from_id(ids[first : first + 6]) for first in range(0, len(ids), 6))
        found += map(Position, map(score, dues) if wanted.by_due else repeat(0), each)
        found.sort(reverse=wanted.newest)
        further = further or more > 0 or len(found) >= most  # the next parts are asked up to the last one alone
        del found[most:]
        if wanted.by_due and len(found) == most:
            stop = found[-1].due
    return found, further


def _histories(store: RedisStore, query: q.GetHistories) -> list[list[Attempt]]:
    return [attempts(rows) for some in parts(query.ids, PIECE) for rows in store.run("histories", to_ids(some))[1]]


def _states(store: RedisStore, query: q.GetStates) -> list[State | None]:
    found = (state for some in parts(query.ids, PIECE) for state in store.run("states", to_ids(some))[1])
    return [None if state < 0 else STATES[state] for state in found]


# ---- topics -----------------------------------------------------------------------------------------------------


def _names(store: RedisStore, topic: str | None = None) -> list[str]:
    """Return the names of all topics, or only this one."""
    return [name.decode() for name, _ in _known(store)] if topic is None else [topic]


def _known(store: RedisStore) -> Iterable[tuple[bytes, bytes]]:
    """Return the topics, and for each the number of its pause, if any, and its lanes except 0."""
    return pairs(store.call(b"HGETALL", store.server.prefix + b":t"))


def _topics(store: RedisStore, _: q.ListTopics) -> list[Topic]:
    found = []
    for name, known in _known(store):
        paused, *lanes = known.split(b" ")
        ranks = {int(lane.removesuffix(b"s")) for lane in lanes} - {0}  # lanes of suspects end with an s
        found.append(Topic(name.decode(), paused != b"", tuple(sorted(ranks, reverse=True))))
    return sorted(found)


def _counts(store: RedisStore, _: q.CountJobs) -> dict[str, Counts]:
    """Return the counts of each topic. O(topics + jobs whose lease is over)."""
    found = {}
    for topics in parts(sorted(_names(store)), _TOPICS):
        for topic, counts in zip(topics, store.run("counts", topics=topics)[1], strict=True):
            delayed, running, done, dead, cancelled, over = counts
            lost = sum(
                store.run("lapsed", topic=topic, first=first, last=min(first + PIECE, over) - 1)[1]
                for first in range(0, over, PIECE)
            )
            found[topic] = Counts(delayed + over - lost, running, done, dead + lost, cancelled)
    return found


def _forecast(store: RedisStore, query: q.GetForecast) -> list[int]:
    """Return the number of due jobs between edges. O(topics x edges)."""
    spans = list(pairwise(query.edges))
    found = [0] * len(spans)
    for topics in parts(_names(store, query.topic), _TOPICS):
        for first in range(0, len(spans), _SPANS):
            some = store.run("forecast", topics=topics, spans=spans[first : first + _SPANS])[1]
            found[first : first + len(some)] = map(add, found[first:], some)
    return [min(jobs, query.cap) for jobs in found]


def _ended(store: RedisStore, query: q.ListEnded) -> list[q.Ended]:
    rows: list[Any] = []
    asked = {"since": clamped(query.since), "by": None if query.until is None else clamped(query.until)}
    asked["state"] = None if query.state is None else STATES.index(query.state)
    for topics in parts(_names(store, query.topic), _TOPICS):
        rows += store.run("ended", topics=topics, limit=query.most, **asked)[1]
    rows.sort(key=itemgetter(6, 0), reverse=True)
    return [
        q.Ended._make((from_id(id), topic.decode(), text(key), STATES[state], *times, text(worker), text(error)))
        for id, topic, key, state, *times, worker, error in rows[: max(query.most, 0)]
    ]


# ---- notes ------------------------------------------------------------------------------------------------------


def _note(store: RedisStore, query: q.GetNote) -> bytes | None:
    found: list[bytes] = store.run("notes", name=note_name(query.name).decode())[1]
    return found[0] if found else None


def _notes(store: RedisStore, query: q.ListNotes) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    prefix, after = a_prefix(query.prefix), a_prefix(query.after)  # compared as bytes
    least = f"({query.after}" if after >= prefix else f"[{query.prefix}"
    while len(found) < query.limit:
        some = min(query.limit - len(found), _NOTES)
        _, looked, last, reply = store.run("notes", least=least, prefix=query.prefix, limit=some)
        found += [(name.decode(), value) for name, value in pairs(reply)]
        if looked < some:
            break
        least = f"({last.decode()}"
    return found


# ---- for workers ------------------------------------------------------------------------------------------------


def _next_dues(store: RedisStore, query: q.GetNextDues) -> dict[str, int]:
    found: dict[str, int] = {}
    for some in parts(_names(store) if query.topics is None else query.topics, PIECE):
        dues = store.run("next_dues", topics=some, paused=query.topics is None)[1]
        found |= {topic: score(due) for topic, due in zip(some, dues, strict=True) if due is not None}
    return found


def _first_due(store: RedisStore, query: q.ListFirstDue) -> list[Due]:
    found: list[Due] = []
    after: dict[str, Any] | None = None
    while (some := min(query.limit - len(found), _FIRST)) > 0:
        part = store.run("first_due", topic=query.topic, limit=some, after=after)[1]
        found += [Due(score(due), from_id(id), query.topic, priority) for id, due, priority in part]
        if len(part) < some:
            break
        after = place_after(found[-1].priority, found[-1].due, found[-1].id)
    return found


def _claims(store: RedisStore, query: q.ListClaims) -> list[tuple[int, int]]:
    found: dict[int, int] = {}
    topics, cursor = _names(store), "0"
    while topics:
        answer = store.run("claims", worker=query.worker, cursor=cursor, topics=topics[:_TOPICS])
        done, cursor = answer[1], answer[2].decode()
        found |= {from_id(id): claims for id, claims in pairs(answer[3])}
        topics = topics[done:]
    return list(found.items())


ANSWERS: Final[dict[type, Callable[[Any, Any], Any]]] = {
    q.GetJob: _job,
    q.ListJobs: _jobs,
    q.GetPage: _page,
    q.GetHistories: _histories,
    q.GetStates: _states,
    q.CountJobs: _counts,
    q.ListTopics: _topics,
    q.GetForecast: _forecast,
    q.ListEnded: _ended,
    q.GetNote: _note,
    q.ListNotes: _notes,
    q.GetNextLease: lambda store, _: store.next_lease(),
    q.GetNextDues: _next_dues,
    q.ListFirstDue: _first_due,
    q.ListClaims: _claims,
    q.ListWorkers: lambda store, _: workers(store.presence.look().members()),
}

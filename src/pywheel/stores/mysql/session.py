"""One transaction on MySQL, in two trips: its statements go out together, in one packet if they fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

import pymysql

from ..._errors import StoreAway, StoreError
from ...jobs.commands import NONCES_KEPT, Command
from ..relational.changes import Changes
from ..relational.direct import Direct, possible
from ..relational.part import Place
from ..relational.session import Answer, Asked, Session
from .connection import Result, Timed
from .direct import Step
from .statements import Raw, Statements, hashed, hashes, in_json, in_parts, rows

__all__ = ["MysqlSession", "Trip", "Writing"]

_R = TypeVar("_R")
_PLACES: Final = {Place.DUE: "due", Place.RUN: "run", Place.FINISHED: "finished"}
_FORGOTTEN: Final = 256  # transactions of this client after which the earlier ones are forgotten


class Trip:
    """Statements that go out together, each with the field of an answer that its rows belong to."""

    def __init__(self, sql: Statements, now: int | None) -> None:
        self._sql = sql
        self._now = now
        self.texts: list[str] = []
        self._fields: list[str] = []

    def add(self, field: str, statement: str, /, **values: Any) -> None:
        """Add a statement by its name."""
        self.say(field, self._sql(statement, now=self._now, **values))

    def say(self, field: str, text: str) -> None:
        """Add a statement."""
        self.texts.append(text)
        self._fields.append(field)

    def many(self, name: str, values: Sequence[Sequence[Any]]) -> None:
        """Add INSERTs of rows."""
        for some in in_parts(values):
            self.add("", name, rows=some)

    def sorted(self, results: Sequence[Result]) -> dict[str, list[Any]]:
        """Return the rows by field."""
        found: dict[str, list[Any]] = {}
        for field, result in zip(self._fields, results, strict=True):
            found.setdefault(field, []).extend(result.rows)
        return found


class Writing(Protocol):
    """What a session needs of its store."""

    def writing(self, until: float) -> Timed:
        """Return the connection that writes, to be closed by whom it fails."""

    def translated(self) -> AbstractContextManager[None]:
        """Raise what the server says as one of our errors."""

    def happened(self, number: int, until: float) -> bool:
        """Return whether a transaction whose connection broke in its commit has happened; else it never will."""

    def known_topics(self, names: Sequence[str] | None) -> Mapping[str, int]:
        """Return the numbers of topics that are committed, of all for None."""

    def new_request(self) -> tuple[bytes, int]:
        """Return what a transaction is known by."""


class MysqlSession(Session):
    """The statements of one transaction."""

    def __init__(self, store: Writing, sql: Statements, now: int | None, until: float) -> None:
        self._store = store
        self._sql = sql
        self._now = now
        self._until = until
        self._connection: Timed | None = None
        self._old: list[bytes] = []  # nonces to be forgotten
        self._old_notes: list[bytes] = []  # names of those to be forgotten
        self._step: Step | None = None
        self._moment = 0

    def direct(self, commands: Sequence[Command[Any]], topics: Mapping[str, int]) -> Direct | None:
        """Begin, and decide a worker's step by what little it must know."""
        if not possible(commands, topics):
            return None
        self._step = step = Step(commands, topics)

        def send() -> Direct:
            trip = self._trip()
            trip.add("now", "now")
            step.lock(trip)
            return step.decide(self._send(trip))

        found = self._begin(send)
        self._moment = found.now
        return found

    def begin(self, asked: Asked) -> Answer:
        """Begin, and read and lock what is asked for."""
        if self._connection is not None:
            return self.more(asked)
        return self._begin(lambda: self._ask(asked, begin=True))

    def _begin(self, send: Callable[[], _R]) -> _R:
        """Send the first trip; once more if that fails on a connection that has been idle."""
        for attempt in (1, 2):
            try:
                self._connection = self._store.writing(self._until)
                return send()
            except StoreAway:
                self.abandon()
                if attempt == 2:  # the first may have been closed by the server
                    raise
        raise AssertionError

    def more(self, asked: Asked) -> Answer:
        """Read and lock more."""
        return self._ask(asked, begin=False)

    def _ask(self, asked: Asked, *, begin: bool) -> Answer:
        trip = self._trip()
        if begin:  # the connection that writes is in a transaction always
            trip.add("now", "now")
        if asked.limits:  # first: what runs does not change meanwhile
            trip.add("notes", "lock_notes", names=asked.limits)
        if asked.topics:
            trip.add("topics", "topics_to_pause" if asked.pausing else "topics_of", names=hashes(asked.topics))
        for topic, keys in _by_first(asked.holders):
            trip.add("ids", "holders", topic=topic, hashes=hashes(keys))
        for topic, key in asked.named:
            trip.add("ids", "named", topic=topic, hash=hashed(key))
        self._lock(trip, asked)
        if asked.nonces:
            trip.add("nonces", "nonces", nonces=hashes(asked.nonces))
        if asked.notes:
            trip.add("notes", "lock_notes", names=asked.notes)
        if asked.leases:
            trip.add("leases", "next_leases", limit=asked.leases)
        _look(trip, asked)
        self._lock_free(trip, asked)
        found = self._send(trip)
        [(now,)] = found.get("now", [(self._moment,)])
        return Answer(
            now,
            found.get("topics", ()),
            found.get("due", ()),
            found.get("run", ()),
            found.get("finished", ()),
            [id for [id] in found.get("ids", ())],
            found.get("leases", ()),
            found.get("nonces", ()),
            [row[2] for row in found.get("delayed", ())],
            found.get("notes", ()),
            found.get("running", ()),
            found.get("looked", ()),
            [id for [id] in found.get("lapsed", ())],
        )

    def _lock(self, trip: Trip, asked: Asked) -> None:
        """Lock jobs by id: all of them first, if they are read by several statements."""
        due, run = [row[0] for row in asked.due], [row[0] for row in asked.run]
        different = {frozenset(ids) for ids in (due, run, asked.finished) if ids}
        if len(different) > 1:
            trip.add("", "lock_jobs", ids=sorted(frozenset().union(*different)))
        if due:
            trip.add("due", "lock_due", ids=sorted(due), bodies=_which((row[0] for row in asked.due if row[1]), due))
        if run:
            bodies = _which((row[0] for row in asked.run if row[1]), run)
            trip.add("run", "lock_run", ids=sorted(run), bodies=bodies)
        if asked.finished:
            trip.add("finished", "lock_finished", ids=sorted(asked.finished))

    def _lock_free(self, trip: Trip, asked: Asked) -> None:
        """Lock jobs that others do not lock: last, as that waits for nobody, and others may wait for it."""
        for topic, limit in asked.reserved:
            trip.add("due", "lock_due_of_topic", topic=topic, limit=limit)
        for topic, limit, priority in asked.lanes:
            name = "lock_due_of_lane" if priority else "lock_due_without"
            trip.add("due", name, topic=topic, limit=limit, priority=priority)
        if asked.lost:
            trip.add("run", "lock_lost", topics=asked.lost_of, limit=asked.lost)
        for purged in asked.purged:
            trip.add("finished", "lock_old", **purged._asdict())
        if asked.claimed:
            trip.add("due", "claim_due", ids=asked.claimed, bodies=True)
            trip.add("run", "claim_run", ids=asked.claimed, bodies=True)
            trip.add("delayed", "due_now", ids=asked.claimed)

    def bodies(self, ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the bodies of jobs."""
        trip = self._trip()
        trip.add("bodies", "bodies", ids=sorted(ids))
        return dict(self._send(trip)["bodies"])

    def results(self, ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the results of jobs."""
        trip = self._trip()
        trip.add("results", "results", ids=sorted(ids))
        return dict(self._send(trip)["results"])

    def numbers(self, names: Sequence[str] | None, *, add: bool = False) -> Mapping[str, int]:
        """Return the numbers of topics."""
        trip = self._trip()
        if names is None:
            trip.add("topics", "all_topics")
        else:
            if add:
                trip.add("", "topic_add", rows=rows(sorted((hashed(name), name) for name in names)))
            trip.add("topics", "topics_of", names=hashes(names))
        return {row[1]: row[0] for row in self._send(trip)["topics"]}

    # ---- the second trip --------------------------------------------------------------------------------------------

    def commit(self, changes: Changes, near: int | None) -> Sequence[Sequence[Any]]:
        """Write and commit; then read who looks as far as `near`."""
        if changes.forgets or changes.forgets_notes:
            self._find_old(changes.forgets, changes.forgets_notes)
        trip = self._trip()
        client, number = self._store.new_request()
        trip.add("", "request", client=client, number=number)
        if number % _FORGOTTEN == 0:
            trip.add("", "forget_requests", client=client, number=number)
        if self._step is not None:
            self._step.write(trip)
        self._write(trip, changes)
        trip.say("", "COMMIT")
        if near is not None:
            trip.add("near", "near", due=near)
            trip.say("", "COMMIT")  # the connection is in a transaction always: one that had read would stay open
        rows: Sequence[Sequence[Any]] = ()
        assert self._connection is not None
        try:
            with self._store.translated():
                rows = self._connection.one(trip.texts)
        except StoreAway as error:
            self.abandon()
            if not self._store.happened(number, self._until):
                raise StoreAway(f"{error}; nothing of it was stored") from error
        self._connection = None
        return rows

    def _find_old(self, nonces: int, notes: int) -> None:
        trip = self._trip()
        trip.add("nonces", "old_nonces", kept=NONCES_KEPT, limit=nonces)
        trip.add("notes", "old_notes", limit=notes)
        found = self._send(trip)
        self._old = sorted(one for [one] in found["nonces"])
        self._old_notes = [name for [name] in found["notes"]]

    def _write(self, trip: Trip, changes: Changes) -> None:
        for place, gone in changes.deleted.items():
            _delete(trip, place, gone)
        if changes.gone:
            ids = sorted(changes.gone)
            for name in ("delete_history", "delete_name", "delete_job"):
                trip.add("", name, ids=ids)
        _write_jobs(trip, changes)
        for place, new in changes.inserted.items():
            trip.many(f"insert_{_PLACES[place]}", new)
        for place, new in changes.updated.items():
            trip.many(f"update_{_PLACES[place]}", sorted(new, key=itemgetter(0, 1)))
        for topic, id, result in changes.results:
            trip.add("", "keep_result", topic=topic, id=id, result=result)
        trip.many("insert_priority", changes.priorities)
        trip.many("set_lane", sorted(changes.lanes))
        if changes.laneless:
            trip.add("", "delete_lane", ids=sorted(changes.laneless))
        trip.many("insert_history", changes.attempts)
        _write_keys(trip, changes)
        trip.many("insert_count", changes.counts)
        trip.many("insert_nonce", sorted((hashed(nonce), nonce, at, ids) for nonce, at, ids in changes.nonces))
        if self._old:
            trip.add("", "forget_nonces", hashes=self._old)
        trip.many("insert_note", changes.new_notes)
        trip.many("update_note", changes.changed_notes)
        over = {*self._old_notes} - {row[0] for row in changes.changed_notes}
        if changes.gone_notes or over:
            trip.add("", "delete_notes", names=sorted({*changes.gone_notes, *over}))
        _write_of_topics_and_workers(trip, changes)

    # ---- its end ----------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Roll back, if it has begun and not ended."""
        connection = self._connection
        self._connection = None
        if connection is None:
            return
        try:
            connection.ask(["ROLLBACK"])
        except (pymysql.Error, StoreError, OSError):
            connection.end()

    def _trip(self) -> Trip:
        return Trip(self._sql, self._now)

    def _send(self, trip: Trip) -> dict[str, list[Any]]:
        connection = self._connection or self._store.writing(self._until)
        with self._store.translated():
            return trip.sorted(connection.ask(trip.texts))


def _look(trip: Trip, asked: Asked) -> None:
    """Read what limits go by, without a lock."""
    if asked.running:
        trip.add("running", "running_of", topics=asked.running)
    if asked.noticed:
        trip.add("notes", "see_notes", names=asked.noticed)
    if asked.looked:
        trip.add("looked", "waiting", ids=asked.looked)
        trip.add("lapsed", "lapsed", ids=asked.looked)


def _write_jobs(trip: Trip, changes: Changes) -> None:
    jobs = changes.new_jobs
    keys = {row[3]: hashed(row[3]) for row in jobs if row[3] is not None}
    trip.many("insert_job", [(*row[:3], keys.get(row[3]), *row[3:]) for row in jobs])
    trip.many("insert_name", sorted((keys[row[3]], row[1], row[0]) for row in jobs if row[3] is not None))
    for id, ttr, max_attempts, headers, body in changes.replaced:
        trip.add("", "replace_job", id=id, ttr=ttr, max_attempts=max_attempts, headers=headers, body=body)


def _write_keys(trip: Trip, changes: Changes) -> None:
    for topic, keys in _by_first(changes.freed):
        trip.add("", "delete_key", topic=topic, hashes=in_json(hashes(keys)))
    trip.many("insert_key", sorted((topic, hashed(key), job) for topic, key, job in changes.taken))
    for topic, key, job, since in changes.deduped:
        trip.add("", "insert_deduped", topic=topic, hash=hashed(key), job=job, since=since)


def _write_of_topics_and_workers(trip: Trip, changes: Changes) -> None:
    if changes.paused:
        trip.add("", "stir")
        for topic, paused in changes.paused:
            trip.add("", "pause", topic=topic, paused=paused)
    for worker, topics in changes.announced.items():
        text = json.dumps(sorted(topics)) if topics else None
        trip.add("", "announce", hash=hashed(worker), name=worker, topics=text)


def _delete(trip: Trip, place: Place, gone: Sequence[tuple[int, int, int]]) -> None:
    """Delete rows by their primary keys, in order."""
    if place is Place.RUN:
        if gone:
            trip.add("", "delete_run", ids=sorted(id for _, id, _ in gone))
        return
    for (topic, state), some in groupby(sorted((topic, state, id) for topic, id, state in gone), lambda row: row[:2]):
        trip.add("", f"delete_{_PLACES[place]}", topic=topic, state=state, ids=[id for _, _, id in some])


def _by_first(pairs: Iterable[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    for first, some in groupby(sorted(pairs), lambda pair: pair[0]):
        yield first, [second for _, second in some]


def _which(ids: Iterable[int], asked: Sequence[int]) -> Raw:
    """Return a condition for those ids among all that are asked for."""
    some = sorted(ids)
    if not some:
        return Raw("0")
    return Raw("1") if len(some) == len(asked) else Raw(f"(j.id IN ({','.join(map(str, some))}))")

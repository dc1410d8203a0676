"""One transaction on PostgreSQL, in two trips: statements go out together, as a pipeline."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol, TypeVar

import psycopg

from ..._errors import StoreAway, StoreError
from ...jobs.commands import NONCES_KEPT, Command
from ..relational.changes import Changes
from ..relational.direct import Direct, possible
from ..relational.part import Place
from ..relational.session import Answer, Asked, Session, Unknown
from .arrays import columns, flags, numbers
from .connection import Timed
from .direct import Step

__all__ = ["PostgresSession", "Writing"]

_R = TypeVar("_R")

_PLACES: Final = {Place.DUE: "due", Place.RUN: "run", Place.FINISHED: "finished"}
_LOOK: Final = 0.1  # seconds between looks what became of a commit


class Writing(Protocol):
    """What a session needs of its store."""

    def writing(self, until: float) -> Timed:
        """Return the connection that writes, to be closed by whom it fails."""

    def translated(self) -> AbstractContextManager[None]:
        """Raise what PostgreSQL says as one of our errors."""

    def status(self, transaction: str, born: str, until: float) -> str | None:
        """Return what became of a transaction whose connection broke; "restarted" if the server is a later one."""

    def is_there(self, id: int, until: float) -> bool:
        """Return whether there is a job."""

    def known_topics(self, names: Sequence[str] | None) -> Mapping[str, int]:
        """Return the numbers of topics that are committed, of all for None."""


class PostgresSession(Session):
    """The statements of one transaction."""

    def __init__(self, store: Writing, sql: Mapping[str, str], now: int | None, until: float) -> None:
        self._store = store
        self._sql = sql
        self._now = now
        self._until = until
        self._connection: Timed | None = None
        self._moment = 0
        self._id = self._born = ""  # of the transaction, and since when the server has been up

    def direct(self, commands: Sequence[Command[Any]], topics: Mapping[str, int]) -> Direct | None:
        """Begin, and let statements do a worker's step."""
        if not possible(commands, topics):
            return None
        step = Step(commands, topics)
        self._begin(lambda: step.send(self._run))
        with self._store.translated():
            return step.outcomes(self._moment)

    def begin(self, asked: Asked) -> Answer:
        """Begin, and read and lock what is asked for."""
        if self._connection is not None:
            return self.more(asked)
        return self._begin(lambda: self._ask(asked))()

    def more(self, asked: Asked) -> Answer:
        """Read and lock more."""
        with self._pipeline():
            answer = self._ask(asked)
        return answer()

    def _begin(self, send: Callable[[], _R]) -> _R:
        """Begin, and send more in the same trip; once more if that fails on a connection that has been idle."""
        for attempt in (1, 2):
            try:
                self._connection = self._store.writing(self._until)
                return self._opened(send)
            except StoreAway:
                self.abandon()
                if attempt == 2 or time.monotonic() >= self._until:
                    raise  # else it may have been closed by the server meanwhile
        raise AssertionError

    def _opened(self, send: Callable[[], _R]) -> _R:
        with self._pipeline():
            self._start()
            moment = self._run("begin")
            sent = send()
        [(self._moment, self._id, self._born)] = moment.fetchall()
        return sent

    def _ask(self, asked: Asked) -> Callable[[], Answer]:
        """Send what reads and locks; return what returns the answer once it is there."""
        run = self._run
        notes = [
            asked.limits and run("lock_notes", names=list(asked.limits))
        ]  # first: what runs does not change meanwhile
        topics = asked.topics and run("topics_to_pause" if asked.pausing else "topics_of", names=list(asked.topics))
        ids = [
            asked.holders and run("holders", **self._names(asked.holders)),
            asked.named and run("named", **self._names(asked.named)),
        ]
        due = [asked.due and self._lock("lock_due", asked.due)]
        runs = [asked.run and self._lock("lock_run", asked.run)]
        finished = [asked.finished and run("lock_finished", ids=numbers(asked.finished))]
        due += [run("lock_due_of_topic", topic=topic, limit=limit) for topic, limit in asked.reserved]
        for topic, limit, priority in asked.lanes:
            name = "lock_due_of_lane" if priority else "lock_due_without"
            due.append(run(name, topic=topic, limit=limit, priority=priority))
        if asked.lost:
            runs.append(run("lock_lost", topics=numbers(asked.lost_of), limit=asked.lost))
        nonces = asked.nonces and run("nonces", nonces=list(asked.nonces))
        notes.append(asked.notes and run("lock_notes", names=list(asked.notes)))
        notes.append(asked.noticed and run("see_notes", names=list(asked.noticed)))
        running = asked.running and run("running_of", topics=numbers(asked.running))
        leases = asked.leases and run("next_leases", limit=asked.leases)
        finished += [run("lock_old", **purged._asdict()) for purged in asked.purged]
        looked = asked.looked and run("waiting", ids=numbers(asked.looked))
        lapsed = asked.looked and run("lapsed", ids=numbers(asked.looked))
        delayed = None
        if asked.claimed:  # last: they wait for nobody, and others may wait for them
            due.append(self._lock("claim_due", [(id, True) for id in asked.claimed]))
            runs.append(self._lock("claim_run", [(id, True) for id in asked.claimed]))
            delayed = run("due_now", ids=numbers(asked.claimed))
        return lambda: Answer(
            self._moment,
            _all([topics]),
            self._current("lock_due", _all(due)),
            self._current("lock_run", _all(runs)),
            _all(finished),
            [row[-1] for row in _all(ids)],
            _all([leases]),
            _all([nonces]),
            [row[1] for row in _all([delayed])],
            _all(notes),
            _all([running]),
            _all([looked]),
            [id for [id] in _all([lapsed])],
        )

    def _start(self) -> None:
        self._there().execute("BEGIN ISOLATION LEVEL READ COMMITTED")

    def _names(self, names: Sequence[tuple[int, str]]) -> dict[str, Any]:
        return {"topics": numbers(topic for topic, _ in names), "keys": [key for _, key in names]}

    def _lock(self, name: str, asked: Sequence[tuple[Any, ...]]) -> Any:
        return self._run(name, ids=numbers(row[0] for row in asked), bodies=flags(row[1] for row in asked))

    def _current(self, name: str, rows: list[Any]) -> list[Any]:
        """Return rows of locked jobs, without their last column: whether the job may have changed before the lock.

        Those are read again. That takes one more trip, and nobody changes them meanwhile.
        """
        changed = [(row[0], row[8] is not None) for row in rows if row[-1]]
        if changed:
            with self._store.translated():
                again = {row[0]: row for row in self._lock(name, changed).fetchall()}
            rows = [again.get(row[0], row) for row in rows]
        return [row[:-1] for row in rows]

    def bodies(self, ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the bodies of jobs."""
        with self._store.translated():
            return {id: bytes(body) for id, body in self._run("bodies", ids=numbers(ids)).fetchall()}

    def results(self, ids: Sequence[int]) -> Mapping[int, bytes]:
        """Return the results of jobs."""
        with self._store.translated():
            rows = self._run("results", ids=numbers(ids)).fetchall()
            return {id: bytes(result) for id, result in rows if result is not None}

    def numbers(self, names: Sequence[str] | None, *, add: bool = False) -> Mapping[str, int]:
        """Return the numbers of topics."""
        connection = self._connection or self._store.writing(self._until)
        name = "all_topics" if names is None else "topic_add" if add else "topics_of"
        with self._store.translated():
            rows = connection.execute(self._sql[name], {"names": None if names is None else list(names)}).fetchall()
        return {row[1]: row[0] for row in rows}

    # ---- the second trip --------------------------------------------------------------------------------------------

    def commit(self, changes: Changes, near: int | None) -> Sequence[Sequence[Any]]:
        """Write and commit; then read who looks as far as `near`."""
        connection = self._there()
        rows: Sequence[Sequence[Any]] = ()
        try:
            with self._pipeline() as pipeline:
                self._write(changes)
                connection.execute("COMMIT")
                pipeline.sync()
                if near is not None:
                    seen = self._run("near", due=near)
            if near is not None:
                rows = seen.fetchall()
        except StoreAway as error:
            self.abandon()
            if not self._happened(changes):
                raise StoreAway(f"{error}; nothing of it was stored") from error
        self._connection = None
        return rows

    def _write(self, changes: Changes) -> None:
        many = self._many
        for place, gone in changes.deleted.items():
            if gone:
                topics, ids, states = zip(*gone, strict=True)
                self._run(f"delete_{_PLACES[place]}", topics=numbers(topics), ids=numbers(ids), states=numbers(states))
        if changes.gone:
            self._run("delete_history", ids=numbers(changes.gone))
            self._run("delete_job", ids=numbers(changes.gone))
        many("insert_job", changes.new_jobs)
        many("replace_job", changes.replaced)
        for place, rows in changes.inserted.items():
            many(f"insert_{_PLACES[place]}", rows)
        for place, rows in changes.updated.items():
            many(f"update_{_PLACES[place]}", rows)
        many("insert_result", changes.results)
        self._write_lanes(changes)
        many("insert_history", changes.attempts)
        many("delete_key", changes.freed)
        many("insert_key", changes.taken)
        many("insert_deduped", changes.deduped)
        many("insert_count", changes.counts)
        many("pause", changes.paused)
        many("insert_nonce", changes.nonces)
        if changes.forgets:
            self._run("forget_nonces", kept=NONCES_KEPT, limit=changes.forgets)
        many("insert_note", changes.new_notes)
        many("update_note", changes.changed_notes)
        if changes.gone_notes:
            self._run("delete_notes", names=changes.gone_notes)
        if changes.forgets_notes:
            self._run("forget_notes", limit=changes.forgets_notes)
        for worker, topics in changes.announced.items():
            self._run("announce", worker=worker, topics=_json(topics))

    def _write_lanes(self, changes: Changes) -> None:
        self._many("insert_priority", changes.priorities)
        self._many("set_lane", changes.lanes)
        if changes.laneless:
            self._run("delete_lane", ids=numbers(changes.laneless))

    def _happened(self, changes: Changes) -> bool:
        """Whether the commit, in which the connection broke, took place. Unknown if that cannot be learned."""
        while True:
            status = self._store.status(self._id, self._born, self._until)
            if status == "restarted":
                if changes.new_jobs:  # nobody else has their ids
                    return self._store.is_there(changes.new_jobs[0][0], self._until)
                raise Unknown("the server broke down in a commit, and whether it happened is not known")
            if status != "in progress":
                return status == "committed"
            if time.monotonic() >= self._until:
                raise Unknown("the connection broke in a commit, and whether it happened is not known yet")
            time.sleep(_LOOK)

    def abandon(self) -> None:
        """Roll back, if it has begun and not ended."""
        connection = self._connection
        self._connection = None
        if connection is None:
            return
        try:
            connection.execute("ROLLBACK")
        except (psycopg.Error, StoreError):
            connection.close()

    # ---- statements -------------------------------------------------------------------------------------------------

    def _there(self) -> Timed:
        connection = self._connection
        assert connection is not None
        return connection

    @contextmanager
    def _pipeline(self) -> Iterator[Any]:
        with self._store.translated(), self._there().pipeline() as pipeline:
            yield pipeline

    def _run(self, name: str, **values: Any) -> Any:
        return self._there().execute(self._sql[name], {"now": self._now, **values})

    def _many(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._there().execute(self._sql[name], columns(rows))


def _all(cursors: Sequence[Any]) -> list[Any]:
    return [row for cursor in cursors if cursor for row in cursor.fetchall()]


def _json(topics: Sequence[str]) -> str | None:
    return json.dumps(sorted(topics)) if topics else None

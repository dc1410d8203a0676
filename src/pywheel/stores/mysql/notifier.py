"""Wake-ups: a session of each worker waits on the server, and a writer with a hint for it ends that wait.

MySQL has no LISTEN. A worker's session runs ``SELECT sleep()`` unless there are hints for it. A writer that changes a
job near the worker's horizon commits a hint, and then ends that statement by KILL QUERY. With ``notify=off`` workers
look for hints.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from secrets import randbits
from typing import TYPE_CHECKING, Any, Final

from ..._errors import StoreError
from ..relational.notifier import RelationalNotifier
from ..relational.ringer import Hints, Jobs
from ..sql.statement import Batch, Do, Insert, Rows, Statement
from .connection import Interrupted, Timed
from .dialect import hashed

if TYPE_CHECKING:
    from .store import MysqlStore

_ALL: Final = 0  # a hint: read all again
_NOBODY: Final = -1  # a hint: look who is there
_SLEEP: Final = 30.0  # seconds of one wait on the server; a hint without a wake-up is found by a beat
_NAP: Final = 0.5  # the same while jobs are claimed: the server notices a killed client when its statement ends
_SEEN: Final = 100  # rings after which their hints are deleted at once
_NO_RING: Final = 0  # a list in a statement must not be empty
_WORKER: Final = re.compile(r"worker = x'([0-9a-f]{32})'")
_NEW: Final = "SELECT 1 FROM hint WHERE worker = :me AND ring NOT IN (:seen)"
# A wait that ends by KILL QUERY. The killer has committed its hints before: so either it finds this statement waiting,
# or the statement begins later and finds the hints.
_WAIT: Final = f"SELECT sleep(:seconds) FROM DUAL WHERE NOT EXISTS ({_NEW})"
_SLEEPERS: Final = (
    "SELECT id, info FROM information_schema.processlist WHERE info LIKE 'SELECT sleep(%' AND info LIKE '%{}hint%'"
)
_HINTS: Final = (
    "SELECT h.ring, h.job, j.next, j.topic, j.priority FROM hint h LEFT JOIN job j FORCE INDEX (PRIMARY) "
    "ON j.id = h.job AND j.state = 0 WHERE h.worker = :me AND h.ring NOT IN (:seen)"
)
_FORGET: Final = "DELETE h FROM hint h FORCE INDEX (PRIMARY) WHERE h.worker = :me AND h.ring IN (:seen)"


def ring(store: MysqlStore, hints: Hints) -> None:
    """Write hints to workers, and end their waits."""
    number = 1 + randbits(62)
    jobs = {worker: [_ALL] if ids is None else ids or [_NOBODY] for worker, ids in hints.items()}
    rows = sorted((hashed(worker), number, job) for worker in jobs for job in jobs[worker])
    texts, _ = store.dialect.texts([Insert("hint", ("worker", "ring", "job"), rows)], None)
    if len(texts) > 1:  # a worker that has read part of a ring does not look for the rest
        texts = ["BEGIN", *texts, "COMMIT"]
    if not store.notifies:
        store.raw(texts)
        return
    *_, sleepers = store.raw([*texts, _SLEEPERS.format(store.dialect.tables)])
    rung = set(map(hashed, hints))
    for id, info in sleepers:  # a wait that ended meanwhile begins again only after its worker has read the hints
        found = _WORKER.search(info)
        if found and bytes.fromhex(found[1]) in rung:
            with suppress(StoreError):
                store.raw([f"KILL QUERY {id:d}"])


class MysqlNotifier(RelationalNotifier):
    """A session that holds a lock named after the worker, and waits for hints."""

    _store: MysqlStore
    hinted = f"EXISTS ({_NEW})"

    def __init__(self, store: MysqlStore, name: str) -> None:
        super().__init__(store, name)
        # And the rings whose hints are still in the table.
        self._me = {"name": self.worker, "me": hashed(self.worker), "seen": [_NO_RING]}
        self._waits = 0.0  # seconds for which the present wait was to last
        self._told: dict[int, tuple[int, int, str, int]] = {}  # jobs, as read with their hints
        self._notes = 0  # notes of this process: a read before one may be out of date

    def _connect(self) -> Timed:
        session = self._store._connect(time.monotonic() + self._store._seconds)
        listen = self._store.dialect.texts((Do(self._store.dialect.listen, self._me),), None)[0]
        try:
            # A wait keeps no snapshot, which would prevent the server from purging deleted rows.
            session.ask(["SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED", *listen])
        except BaseException:
            session.close()
            raise
        self._waits = 0.0
        return session

    def _ask(self, *batch: Statement) -> Sequence[Any]:
        texts, _ = self._store.dialect.texts(batch, self._store.now)
        return self._store.reading(lambda connection: connection.one(texts))

    def _beating(self, beat: Do) -> Batch:
        if len(self._me["seen"]) == 1:
            return (beat,)
        forget = Do(_FORGET, self._me)
        self._me = {**self._me, "seen": [_NO_RING]}
        return (Do("START TRANSACTION"), forget, beat, Do("COMMIT"))

    # ---- hints ------------------------------------------------------------------------------------------------------

    def _due_now(self, ids: Sequence[int]) -> Iterable[tuple[int, int, str, int]]:
        told, self._told = self._told, {}
        unread = [id for id in ids if id not in told]
        read = {job[1]: job for job in super()._due_now(unread)} if unread else {}
        jobs = (told.get(id) or read.get(id) for id in ids)
        return [job for job in jobs if job is not None and job[0] is not None]

    def note(self, jobs: Jobs) -> None:
        """Note jobs that changed, with the due times they have or had, and look if one is near."""
        self._notes += 1
        super().note(jobs)

    def _hear(self, session: Timed, seconds: float) -> None:
        """Wait until the server's wait ends."""
        try:
            with self._store.translated:
                self._wait(session, seconds)
        except Interrupted:  # KILL QUERY met another statement
            self._waits = 0.0

    def _wait(self, session: Timed, seconds: float) -> None:
        session.until = time.monotonic() + self._store._seconds
        longest = _NAP if self._presence.busy else _SLEEP
        texts = self._store.dialect.texts
        if not self._waits:
            if len(self._me["seen"]) > _SEEN:
                session.ask(texts((Do(_FORGET, self._me),), None)[0])
                self._me = {**self._me, "seen": [_NO_RING]}
            session.send(texts((Do(_WAIT, {**self._me, "seconds": longest}),), None)[0][0])
            self._waits = longest
        elif self._waits > longest:
            self._waits = longest  # if this fails the wait ends by itself
            with suppress(StoreError):
                self._store.raw([f"KILL QUERY {session.thread_id():d}"])  # type: ignore[no-untyped-call]
        if session in self._select(seconds, session):
            self._waits = 0.0
            over: Sequence[Sequence[int]] = ()  # no row: there were hints already
            with suppress(Interrupted), self._store.translated:
                over = session.receive()
            if not over or over[0][0]:
                self._take()

    def _take(self) -> bool:
        """Take in the hints of complete rings, with the present state of their jobs; return whether there were any."""
        notes = self._notes
        [rows] = self._store.run(Rows("ring job next topic priority", _HINTS, self._me))
        if not rows:
            return False
        self._me = {**self._me, "seen": [*self._me["seen"], *{row[0] for row in rows}]}
        jobs = {row[1] for row in rows}
        if _ALL in jobs:
            self.heard(None)
        if _NOBODY in jobs:
            self.heard(())
        names = self._store.topic_names({row[3] for row in rows if row[3] is not None})
        told = {id: (due, id, names.get(topic, ""), priority) for _, id, due, topic, priority in rows}
        self._told = told if notes == self._notes else {}
        if max(jobs) > _ALL:
            self.heard(job for job in jobs if job > _ALL)
        return True

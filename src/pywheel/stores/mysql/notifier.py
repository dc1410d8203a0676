"""Wake-ups: a session of each worker waits on the server, and who has a hint for it ends that wait.

MySQL has no LISTEN. A worker's session runs ``SELECT sleep()`` unless there are hints for it. Who changes a job near
its horizon commits a hint, and then ends that statement by KILL QUERY. With ``notify=off`` workers look for hints.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from ..._errors import StoreError
from ..relational.connections import leave_alone
from ..relational.notifier import RelationalNotifier
from .connection import Interrupted, Timed
from .dialect import hashed
from .workers import ALL

if TYPE_CHECKING:
    from .store import MysqlStore

__all__ = ["MysqlNotifier"]

_SLEEP: Final = 30.0  # seconds of one wait on the server; a hint without a wake-up is found by a beat
_NAP: Final = 0.5  # the same while jobs are claimed: the server sees that a client was killed when its statement ends
_SEEN: Final = 100  # rings after which their hints are deleted at once
_FIELDS: Final = 7  # of a worker's row
_NO_RING: Final = 0  # a list in a statement has something in it
_NEAR: Final = 2.0  # seconds for which more is expected after a hint, or before a job is due
_LOOKS: Final = (0.02, 1.0)  # seconds between looks for hints: while something is near, and at most


class MysqlNotifier(RelationalNotifier):
    """A session that holds a lock named after the worker, and waits for hints."""

    def __init__(self, store: MysqlStore, name: str) -> None:
        super().__init__(store._presence, name)
        self._store = store
        self._hash = hashed(self.worker)
        self._ear: Timed | None = None
        self._waits = 0.0  # for how many seconds the wait that is under way was to last
        self._seen = [_NO_RING]  # rings whose hints are still there
        self._look = _LOOKS[0]
        self._came = 0.0  # when a hint came last
        self._told: dict[
            int, tuple[int, int, str, int]
        ] = {}  # due time, id, topic and priority of jobs, as read with their hints
        self._notes = 0  # of this process: what was read before one may be old

    def _sql(self, statement: str, /, **values: object) -> str:
        return self._store._sql(statement, now=self._store.now, hash=self._hash, **values)

    # ---- the row ----------------------------------------------------------------------------------------------------

    def _enter(self) -> int:
        if self._ear is None:
            self._ear = self._connect()
        _, found = self._store.run([self._sql("worker_add", name=self.worker), self._sql("stopped")])
        [[stirred]] = found.rows
        return int(stirred)

    def _connect(self) -> Timed:
        store = self._store
        until = time.monotonic() + store._seconds
        ear = store._connect(until)
        try:
            with store.translated():
                ear.ask(
                    [
                        # A wait keeps no snapshot, which would keep the server from clearing away what was deleted.
                        "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
                        self._sql("listen", lock=store.lock),
                    ]
                )
        except BaseException:
            ear.close()
            raise
        self._waits = 0.0
        self._rung = self._reload = True
        return ear

    def _write(self, *, beat: int | None = None, horizon: int | None = None, stopped: int | None = None) -> bool:
        entered = self._ear is not None
        if beat is not None:
            return self._beat(beat) and entered
        text = self._sql("publish", horizon=horizon) if stopped is None else self._sql("quiet", stirred=stopped)
        [result] = self._store.run([text])
        return result.matched == 1 and entered

    def _beat(self, behind: int) -> bool:
        """Write the beat, and take in what the answer says of all that a worker asks now and then."""
        store = self._store
        seen, self._seen = self._seen, [_NO_RING]
        texts = [self._sql("beat", behind=behind)]
        if len(seen) > 1:
            texts = ["START TRANSACTION", self._sql("forget_hint", seen=seen), *texts, "COMMIT"]
        texts.append(self._sql("watch", lock=store.lock, topics=sorted(map(hashed, self._spare)), seen=self._seen))
        sent = time.monotonic()
        rows = store.run_one(texts)
        received = time.monotonic()
        if not rows:
            return False
        self._presence.take(sorted((row[:_FIELDS] for row in rows), key=itemgetter(0)))
        now, lease, self._first, hinted = rows[0][_FIELDS:]
        store._heard(now, sent, received)
        store.leases.found(lease, sent)
        if hinted:  # whoever was about to end the wait may have died
            self._take()
        mine = next((row for row in rows if row[0] == self.worker), None)
        if mine is not None and mine[_FIELDS - 1]:  # the lock is free: the session has ended, unseen from here
            self._deaf()
            return False
        return mine is not None

    def _leave(self) -> None:
        with suppress(StoreError):
            self._store.run([self._sql("worker_remove")])
        self._deaf()

    def _deaf(self) -> None:
        ear, self._ear = self._ear, None
        if ear is not None:
            ear.end()

    def abandoned(self) -> None:
        """Be over, in a forked child: row and session are the parent's."""
        super().abandoned()
        leave_alone(self._ear)

    # ---- hints ------------------------------------------------------------------------------------------------------

    def _due_now(self, ids: Sequence[int]) -> Iterable[tuple[int, int, str, int]]:
        told, self._told = self._told, {}
        unread = [id for id in ids if id not in told]
        read = {job[1]: job for job in self._store._due_now(unread)} if unread else {}
        jobs = (told.get(id) or read.get(id) for id in ids)
        return [job for job in jobs if job is not None and job[0] is not None]

    def note(self, dues: Mapping[int, int]) -> None:
        """Note jobs that are, or were until now, due then."""
        self._notes += 1
        super().note(dues)

    def _stirred(self) -> int:
        return self._store._stirred()

    def _listen(self, seconds: float) -> None:
        ear = self._ear
        if ear is None:  # it broke: the next beat makes another one
            self._select(min(seconds, 0.5))
            return
        try:
            with self._store.translated():
                if self._store.notifies:
                    self._wait(ear, seconds)
                else:
                    self._poll(seconds)
        except Interrupted:  # in the middle of something else
            self._waits = 0.0
        except StoreError:
            self._deaf()
            self._rung = self._reload = True

    def _wait(self, ear: Timed, seconds: float) -> None:
        """Wait until the server's wait ends."""
        ear.until = time.monotonic() + self._store._seconds
        longest = _NAP if self._presence.busy else _SLEEP
        if not self._waits:
            if len(self._seen) > _SEEN:
                ear.ask([self._sql("forget_hint", seen=self._seen)])
                self._seen = [_NO_RING]
            ear.send(self._sql("sleep", seconds=longest, seen=self._seen))
            self._waits = longest
        elif self._waits > longest:
            self._waits = longest  # if this fails it ends by itself
            with suppress(StoreError):
                self._store.run([f"KILL QUERY {ear.thread_id():d}"])  # type: ignore[no-untyped-call]
        if self._select(seconds, ear.fileno()):
            self._waits = 0.0
            over: Sequence[Sequence[int]] = ()  # no row: there were hints already
            with suppress(Interrupted), self._store.translated():
                over = ear.receive().rows
            if not over or over[0][0]:
                self._take()

    def _poll(self, seconds: float) -> None:
        """Look for hints now and then: often while something is near, or came of late."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            near = seconds < _NEAR or now - self._came < _NEAR
            self._look = _LOOKS[0] if near else min(2 * self._look, _LOOKS[1])
            woken, _, _ = select.select([self._ears], [], [], min(self._look, max(until - now, 0)))
            if woken:
                return
            self._take()
            if self._rung or time.monotonic() >= until:
                return

    def _take(self) -> None:
        """Take in the hints that are there, of rings that are complete, with what is known of their jobs."""
        store, notes = self._store, self._notes
        rows = store._read("hints", hash=self._hash, seen=self._seen)
        if not rows:
            return
        self._came = time.monotonic()
        self._seen += {row[0] for row in rows}
        jobs = {row[1] for row in rows}
        if ALL in jobs:
            self.heard(None)
        if min(jobs) < ALL:
            self.heard(())
        names = store.topic_names({row[3] for row in rows if row[3] is not None})
        told = {id: (due, id, names.get(topic, ""), priority) for _, id, due, topic, priority in rows}
        self._told = told if notes == self._notes else {}
        if max(jobs) > ALL:
            self.heard(job for job in jobs if job > ALL)

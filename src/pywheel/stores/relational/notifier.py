"""The ear of one worker on a server's store."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from ..._errors import StoreAway, StoreError, StoreReadOnly
from ...jobs.checks import FURTHEST
from ...jobs.job import Due, slice_of
from ..left_alone import leave_alone
from ..notifier import Hints
from ..ownership import owners
from ..presence import ServerNotifier
from ..sql.statement import Batch, Do, Rows, Select, Statement
from .presence import SEEN
from .ringer import Jobs

if TYPE_CHECKING:
    from .store import RelationalStore

_KEPT: Final = 10_000  # hints
_FURTHER: Final = 30_000  # ms added to a horizon as it is written, so that it is written less often
_NEAR: Final = 2.0  # seconds for which more news is expected after a hint, or before a job is due
_LOOKS: Final = (0.02, 1.0)  # seconds between looks for hints: while something is near, and at most
_MINE: Final = "member WHERE name = :name"
_FIELDS: Final = 7  # of a worker's row
_PRIORITIES: Final = [(priority,) for priority in range(-9, 10)]
# All that a worker asks about once a second: the workers, the time, the end of the next lease, the first due time of
# some topics, and whether there are hints for it.
_WATCH: Final = f"""
    SELECT {SEEN}, %s, n.* FROM (
        SELECT {{now}} AS moment, %s AS lease, (
            SELECT min((
                SELECT j.next FROM job j WHERE j.state = 0 AND j.topic = t.id AND j.priority = r.priority
                    AND j.next >= w.next ORDER BY j.next LIMIT 1
            ))
            FROM {{w: name, next}} {{then}} topic t ON t.name = w.name
            {{then}} {{r: priority}} ON r.priority = 0 OR t.lanes >> (9 + r.priority) & 1 = 1 WHERE t.paused = 0
        ) AS first, %s AS hinted
    ) n {{then}} member w ON true
"""
_CLEAR: Final = 20  # beats between looks for workers that are gone


class RelationalNotifier(ServerNotifier):
    """A row in the table of workers, and the database's means to wake a client."""

    hinted = "false"
    """An expression for whether there are hints that this worker has not read."""

    def __init__(self, store: RelationalStore, name: str) -> None:
        super().__init__(f"{name}@{token_hex(4)}", store._presence)
        self._store: Any = store
        self._me: dict[str, Any] = {"name": self.worker, "me": self.worker}
        """The names of this worker in statements: as in its row, and as in hints."""
        self._session: Any = None
        """A connection that hears the server's news."""
        self._lock = threading.RLock()  # the thread that closes it may not be the one that asks
        self._entered: Any = None  # the session that this worker's row names
        self._written = -1  # the horizon that others see
        self._stopped: int | None = None  # the last pause after which nothing starts here, as others see it
        self._noted: dict[int, None] = {}  # jobs that changed, in order
        self._first: int | None = None  # the first due time of some topics, as of the last beat
        self._beats = 0
        self._look = _LOOKS[0]
        self._came = 0.0  # the time of the last hint that a poll found

    # ---- what a database does ---------------------------------------------------------------------------------------

    @abstractmethod
    def _connect(self) -> Any:
        """Return a new session that hears the server's news."""

    @abstractmethod
    def _ask(self, *batch: Statement) -> Sequence[Any]:
        """Run statements that concern this worker's row; return the rows of the last."""

    @abstractmethod
    def _hear(self, session: Any, seconds: float) -> None:
        """Wait for `seconds`, or until `_ears` or the database has something; take it in (`heard`)."""

    @abstractmethod
    def _take(self) -> bool:
        """Take in the hints that are there; return whether there were any."""

    # ---- the row ----------------------------------------------------------------------------------------------------

    def _heard_by(self) -> Any:
        """Return the session, a new one if it broke: then hints were missed."""
        if self._session is None or not self._session.ready:
            self._deaf()
            with self._store.translated:
                self._session = self._connect()
            self._read_all()
        return self._session

    def _deaf(self) -> None:
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.end()

    def _enter(self) -> None:
        """Make this worker's row, and listen."""
        columns = self._store.dialect.session
        session = self._heard_by()
        text = (
            f"INSERT INTO member (name, beat, horizon, behind, stopped, {', '.join(columns)}) VALUES "
            "(:name, {now}, :horizon, 0, "
            "(SELECT coalesce(least(:stopped, coalesce(max(stirred), 0)), max(stirred), 0) FROM topic), "
            f"{', '.join(columns.values())}) {{else name: beat, horizon, behind, stopped, {', '.join(columns)}}}"
        )
        # A row that is made anew says what it has said; an emptied store has begun to count pauses anew.
        said = {"horizon": self._written, "stopped": self._stopped}
        values = {**self._me, **said, "listens": self._store.notifies}
        [(stopped,)] = self._ask(Do(text, values), Select(f"SELECT stopped FROM {_MINE}", self._me))
        self._stopped, self._entered = int(stopped), session
        self._read = max(self._read, self._stopped)

    def _set(self, column: str, value: int) -> bool:
        """Write a column of the row; return whether the row is there, with this session."""
        write = Do(f"UPDATE member SET {column} = :value WHERE name = :name", {**self._me, "value": value})
        found = self._ask(write, Select(f"SELECT 1 FROM {_MINE}", self._me))
        return bool(found) and self._session is self._entered

    def _beat(self, behind: int, topics: Collection[str]) -> bool:
        """Write the beat, and take in the answer to all that a worker asks now and then."""
        beat = Do("UPDATE member SET beat = {now}, behind = :behind WHERE name = :name", {**self._me, "behind": behind})
        leases, known = self._store.leases, self._store._known
        heads = [(topic, known.head_of(topic)) for topic in topics]
        sent = time.monotonic()
        looks = leases.due(sent)
        values = {**self._me, "w": heads, "r": _PRIORITIES, "since": leases.since() if looks else FURTHEST}
        dialect = self._store.dialect
        watch = _WATCH % (dialect.gone, dialect.first_lease, self.hinted)
        rows = self._ask(*self._beating(beat), Select(watch, values))
        received = time.monotonic()
        if not rows:
            return False
        self._presence.take(row[:_FIELDS] for row in rows)
        now, lease, self._first, hinted = rows[0][_FIELDS:]
        self._store.heard(now, sent, received)
        if looks:
            leases.looked(lease, now, sent)
        if hinted:  # the process that was to end the wait may have died
            self._take()
        mine = next((row for row in rows if row[0] == self.worker), None)
        if mine is not None and mine[_FIELDS - 1]:  # the session has ended without an error here
            self._deaf()
        return mine is not None and self._session is self._entered is not None

    def _beating(self, beat: Do) -> Batch:
        """Return the statements that write a beat."""
        return (beat,)

    def _leave(self) -> None:
        with suppress(StoreError):
            self._ask(Do("DELETE FROM hint WHERE worker = :me", self._me), Do(f"DELETE FROM {_MINE}", self._me))
        self._deaf()

    def _due_now(self, ids: Sequence[int]) -> Iterable[tuple[int, int, str, int]]:
        """Return due time, id, topic and priority of the delayed jobs among some, in the order of the ids."""
        text = "SELECT j.id, j.next, j.topic, j.priority FROM job j WHERE j.id {in ids} AND +j.state = 0"
        [rows] = self._store.run(Rows("id next topic priority", text, {"ids": sorted(ids)}))
        names = self._store.topic_names({row[2] for row in rows})
        found = {id: (due, id, names[topic], priority) for id, due, topic, priority in rows}
        return [found[id] for id in ids if id in found]

    def _listen(self, seconds: float) -> None:
        if self._rung:
            return
        session = self._session
        if session is None:  # it broke: the next beat makes another one
            self._select(min(seconds, 0.5))
            return
        try:
            with self._store.translated:
                if self._store.notifies:
                    self._hear(session, seconds)
                else:
                    self._poll(seconds)
        except (StoreError, ValueError, AttributeError) as error:  # it broke, or was closed meanwhile
            if isinstance(error, AttributeError) and not self._over:  # PyMySQL raises it for a socket that was closed
                raise
            self._deaf()
            self._read_all()

    def _poll(self, seconds: float) -> None:
        """Look for hints now and then: often while something is near, or a hint came lately."""
        until = time.monotonic() + seconds
        while True:
            now = time.monotonic()
            near = seconds < _NEAR or now - self._came < _NEAR
            self._look = _LOOKS[0] if near else min(2 * self._look, _LOOKS[1])
            if self._select(min(self._look, max(until - now, 0))):
                return
            if self._take():
                self._came = time.monotonic()
            if self._rung or time.monotonic() >= until:
                return

    # ---- for the presence -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Enter this worker among those that are present."""
        try:
            self._enter()
        except StoreAway:  # an idle connection had been closed, or this one broke
            self._deaf()
            self._enter()
        self._reload = self._rung = False  # there is no news from before the beginning
        self._presence.local[self.worker] = self

    def note(self, jobs: Jobs) -> None:
        """Note jobs that changed, with the due times they have or had, and look if one is near."""
        near = [id for _, id, due in jobs if due <= self._horizon]
        if near:
            noted = self._noted
            noted.update(dict.fromkeys(near))
            if len(noted) > _KEPT:
                self._noted = {}
            if noted is not self._noted:  # or `hints` has just taken them, perhaps without these
                self._reload = True
            self._rung = True
            self.wake()

    def rung(self, *, reload: bool) -> None:
        """Let the worker look."""
        self._reload |= reload
        self._presence.stale |= not reload
        self._rung = True
        self.wake()

    def heard(self, ids: Iterable[int] | None) -> None:
        """Take in another process's news: ids of jobs; None to read all again; no ids to look who is there."""
        self._rung = True
        if ids is None:
            self._reload = True
            return
        noted = dict.fromkeys(ids)
        self._noted.update(noted)
        self._presence.stale |= not noted

    # ---- for the worker ---------------------------------------------------------------------------------------------

    def publish(self, horizon: int) -> None:
        """Set the horizon. Others see one that is further out, so that it need not be written each time."""
        self._horizon = horizon
        if self._over:
            return
        if not horizon <= self._written <= horizon + 4 * _FURTHER:
            self._present(partial(self._set, "horizon", horizon + _FURTHER))
            self._written = horizon + _FURTHER

    def _say(self, behind: int, topics: Collection[str]) -> int | None:
        self._present(partial(self._beat, behind, topics))
        self._presence.tell_of_the_dead()
        self._beats += 1
        if self._beats % _CLEAR == 0:
            self._presence.clear_away()
        return self._first

    def _present(self, write: Callable[[], bool]) -> None:
        """Write into the row; make it anew if others have deleted it, or the connection broke."""
        try:
            if not write():
                self._enter()
                self._read_all()
                write()
        except StoreReadOnly:  # the address may lead to another server
            self._deaf()
            raise

    def hints(self) -> Hints:
        self._open()
        reload, self._reload = self._reload, False
        noted, self._noted = self._noted, {}
        try:
            if reload:
                [[(self._read,)]] = self._store.run(Select("SELECT coalesce(max(stirred), 0) FROM topic"))
                self._store._known.heads.forget()
            jobs = self._due_now(list(noted)) if noted else ()
        except BaseException:
            self._reload = True
            raise
        tables: dict[str, tuple[str, ...]] = {}
        mine = []
        for due, id, topic, priority in jobs:
            self._store._known.changed(topic, due)
            if topic not in tables:
                tables[topic] = owners(topic, self._presence.roster().handling(topic))
            if tables[topic] and tables[topic][slice_of(due)] == self.worker:
                mine.append(Due(due, id, topic, priority))
        return Hints(mine, reload)

    def ring(self, worker: str) -> None:
        with suppress(StoreError):
            self._presence.hint({worker: set()})

    def quiet(self) -> None:
        if not self._over:
            self._present(partial(self._set, "stopped", self._read))
            self._stopped = self._read

    def close(self) -> None:
        """Stop listening and leave. Others were told when this returns, so that the process may end."""
        if not self._closed:
            self.end()
            self._presence.flush()

    def end(self) -> None:
        """Stop listening and leave. Others are told soon."""
        if self._closed:
            return
        self._closed = True
        self._presence.local.pop(self.worker, None)
        if not self._presence.closed:
            self._leave()
            self._presence.tell_all((self.worker,))
        self.wake()

    def abandoned(self) -> None:
        """End this notifier in a forked child: row and session are the parent's."""
        self._closed = True
        leave_alone(self._session)

"""Wake-ups by LISTEN and NOTIFY: a session of each worker listens on a channel of its own.

Behind a pooler no session is a worker's own. Then (``notify=off``) hints are rows, and workers look for them.
"""

from __future__ import annotations

import select
import time
from collections.abc import Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg

from ..._errors import StoreError
from ..relational.notifier import RelationalNotifier
from .connection import Timed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .store import PostgresStore

__all__ = ["LookingNotifier", "PostgresNotifier", "channel"]

_NEAR: Final = 2.0  # seconds for which more is expected after a hint, or before a job is due
_LOOKS: Final = (0.02, 1.0)  # seconds between looks for hints: while something is near, and at most


def channel(tables: str, worker: str) -> str:
    """Return the name of a worker's channel: up to 63 bytes, of which the last are its own."""
    return f"pywheel_{tables.replace(chr(34), '')}"[:40] + worker.rpartition("@")[2]


class PostgresNotifier(RelationalNotifier):
    """A session that listens, and writes the worker's row without waiting for the disk."""

    def __init__(self, store: PostgresStore, name: str) -> None:
        super().__init__(store._presence, name)
        self._store = store
        self._sql = store._sql
        self._session: Timed | None = None
        self._listens: int | None = 0  # the process of the server behind the session; None: no matter

    @contextmanager
    def _use(self) -> Iterator[Timed]:
        """Give the session; make it anew if it broke: then hints were missed."""
        with self._store.translated():
            connection = self._session
            if connection is None or connection.closed:
                connection = self._connect()
            connection.until = time.monotonic() + self._store._seconds
            yield connection

    def _connect(self) -> Timed:
        connection = self._store._connect(time.monotonic() + self._store._seconds, light=True)
        try:
            connection.execute(f'LISTEN "{channel(self._store._tables, self.worker)}"')
        except BaseException:
            connection.close()
            raise
        connection.add_notify_handler(self._told)
        self._session = connection
        self._reload = True
        self._rung = True
        return connection

    def _told(self, notify: psycopg.Notify) -> None:
        self._hear(notify.payload)

    def _hear(self, payload: str) -> None:
        self.heard(None if payload == "!" else map(int, payload.split(",")) if payload else ())

    def _run(self, connection: Timed, name: str, **values: Any) -> list[Any]:
        return connection.execute(self._sql[name], {"now": self._store.now, "name": self.worker, **values}).fetchall()

    # ---- the row ----------------------------------------------------------------------------------------------------

    def _enter(self) -> int:
        with self._use() as connection:
            connection.execute(self._sql["worker_remove"], {"name": self.worker})
            [(stirred,)] = self._run(connection, "worker_add", listens=self._listens is not None)
            if self._listens is not None:
                self._listens = connection.info.backend_pid
            return int(stirred)

    def _write(self, *, beat: int | None = None, horizon: int | None = None, stopped: int | None = None) -> bool:
        values: dict[str, Any] = {"now": self._store.now, "name": self.worker}
        with self._use() as connection:
            # Else the row tells others of a session that broke.
            entered = self._listens in (None, connection.info.backend_pid)
            if beat is not None:
                return self._beat(connection, beat) and entered
            if horizon is not None:
                row = connection.execute(self._sql["publish"], {**values, "horizon": horizon})
            else:
                row = connection.execute(self._sql["quiet"], {**values, "stirred": stopped})
            return row.rowcount == 1 and entered

    def _beat(self, connection: Timed, behind: int) -> bool:
        """Write the beat, and take in what the answer says of all that a worker asks now and then."""
        sent = time.monotonic()
        rows = self._run(connection, "beat", behind=behind, topics=list(self._spare))
        received = time.monotonic()
        self._presence.take([row[:7] for row in rows])
        if not rows:
            return False
        now, found, lease, self._first = rows[0][7:]
        self._store._heard(now, sent, received)
        self._store.leases.found(lease, sent)
        return bool(found)

    def _leave(self) -> None:
        with suppress(StoreError), self._use() as connection:
            connection.execute(self._sql["worker_remove"], {"name": self.worker})
        if self._session is not None:
            with suppress(psycopg.Error):
                self._session.close()

    # ---- hints ------------------------------------------------------------------------------------------------------

    def _due_now(self, ids: Sequence[int]) -> Iterable[tuple[int, int, str, int]]:
        return self._store._due_now(ids)

    def _stirred(self) -> int:
        return self._store._stirred()

    def _listen(self, seconds: float) -> None:
        connection = self._session
        if connection is None or connection.closed:
            self._select(min(seconds, 0.5))
            return
        try:
            # What came behind the answer to a statement has been read already.
            if not self._take_in(connection) and self._select(seconds, connection.fileno()):
                connection.pgconn.consume_input()
                self._take_in(connection)
        except (psycopg.Error, OSError, ValueError):  # it broke, or was closed meanwhile: the next beat makes it anew
            connection.close()

    def _take_in(self, connection: Timed) -> bool:
        """Take in what libpq has read; return whether there was something."""
        some = False
        while (notify := connection.pgconn.notifies()) is not None:
            self._hear(notify.extra.decode())
            some = True
        return some


class LookingNotifier(PostgresNotifier):
    """One that looks for hints in a table: often while something is near, or came of late; else once a second."""

    def __init__(self, store: PostgresStore, name: str) -> None:
        super().__init__(store, name)
        self._listens = None
        self._look = _LOOKS[0]
        self._came = 0.0  # when a hint came last

    def _connect(self) -> Timed:
        self._session = self._store._connect(time.monotonic() + self._store._seconds)
        self._reload = self._rung = True
        return self._session

    def _listen(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        near = seconds < _NEAR
        while (now := time.monotonic()) < until:
            near = near or now - self._came < _NEAR
            self._look = _LOOKS[0] if near else min(2 * self._look, _LOOKS[1])
            woken, _, _ = select.select([self._ears], [], [], min(self._look, until - now))
            if woken or self._take():
                return

    def _take(self) -> bool:
        """Take in the hints that are there; return whether there were any."""
        try:
            with self._use() as connection:
                hints = self._run(connection, "take_hints")
        except StoreError:  # the next beat says so
            return True
        for (payload,) in hints:
            self._hear(payload)
            self._came = time.monotonic()
        return bool(hints)

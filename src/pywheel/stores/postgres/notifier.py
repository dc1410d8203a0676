"""Wake-ups by LISTEN and NOTIFY: a session of each worker listens on a channel of its own.

Behind a pooler no session is a worker's own. Then (``notify=off``) hints are rows, and workers look for them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from ..relational.notifier import RelationalNotifier
from ..relational.ringer import Hints
from ..sql.statement import Select, Statement
from .connection import Timed

if TYPE_CHECKING:
    from .store import PostgresStore

_MOST: Final = 350  # ids of up to 20 bytes: the server takes 8 000 at once
# Workers without a session of their own look for rows. The commit need not wait for the disk, as it holds up other
# notifications.
_NOTIFY: Final = """
    WITH n AS MATERIALIZED (
        SELECT *, set_config('synchronous_commit', 'off', true)
        FROM unnest(:workers::text[], :channels::text[], :payloads::text[]) AS n (worker, channel, payload)
    ), h AS (
        INSERT INTO hint (worker, payload)
        SELECT n.worker, n.payload FROM n JOIN member w ON w.name = n.worker WHERE w.pid IS NULL
    )
    SELECT pg_notify(n.channel, n.payload) FROM n JOIN member w ON w.name = n.worker WHERE w.pid IS NOT NULL
"""


def _channel(store: PostgresStore, worker: str) -> str:
    """Return the name of a worker's channel: up to 63 bytes, the last of them its own."""
    return f"pywheel_{store.dialect.tables.replace(chr(34), '')}"[:40] + worker.rpartition("@")[2]


def ring(store: PostgresStore, hints: Hints) -> None:
    """Notify workers, or leave rows for them."""
    said = [(worker, payload) for worker, ids in hints.items() for payload in _payloads(ids)]
    values = {
        "workers": [worker for worker, _ in said],
        "channels": [_channel(store, worker) for worker, _ in said],
        "payloads": [payload for _, payload in said],
    }
    store.reading(lambda connection: connection.execute(store.dialect.text(_NOTIFY), values))


def _payloads(ids: set[int] | None) -> list[str]:
    """Return messages for a worker: ids, as many as fit; "!" to read all again; "" to look who is there."""
    if ids is None:
        return ["!"]
    some = sorted(ids)
    return [",".join(map(str, some[at : at + _MOST])) for at in range(0, len(some) or 1, _MOST)]


class PostgresNotifier(RelationalNotifier):
    """A session that listens, and writes the worker's row without waiting for the disk."""

    _store: PostgresStore

    def _connect(self) -> Timed:
        listens = self._store.notifies
        session = self._store._connect(time.monotonic() + self._store._seconds, light=listens)
        if listens:
            try:
                session.execute(f'LISTEN "{_channel(self._store, self.worker)}"')
            except BaseException:
                session.close()
                raise
            session.add_notify_handler(lambda notify: self._told(notify.payload))
        return session

    def _told(self, payload: str) -> None:
        self.heard(None if payload == "!" else map(int, payload.split(",")) if payload else ())

    def _ask(self, *batch: Statement) -> Sequence[Any]:
        with self._lock, self._store.translated:
            session = self._heard_by()
            session.until = time.monotonic() + self._store._seconds
            return self._store.send(session, batch, self._store.now)[-1]  # type: ignore[no-any-return]

    def _hear(self, session: Timed, seconds: float) -> None:
        # libpq has already read notifications that came behind the answer to a statement.
        if not self._take_in(session) and session in self._select(seconds, session):
            session.pgconn.consume_input()
            self._take_in(session)

    def _take_in(self, session: Timed) -> bool:
        """Take in the notifications that libpq has read; return whether there were any."""
        some = False
        while (notify := session.pgconn.notifies()) is not None:
            self._told(notify.extra.decode())
            some = True
        return some

    def _take(self) -> bool:
        """Take in the hints that are there; return whether there were any."""
        hints = self._ask(Select("DELETE FROM hint WHERE worker = :me RETURNING payload", self._me))
        for (payload,) in hints:
            self._told(payload)
        return bool(hints)

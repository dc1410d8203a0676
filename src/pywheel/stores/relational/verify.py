"""Checking the tables of a server against each other, in a transaction."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..sql import verify as tables
from ..sql.statement import Batch, Do, drive
from ..sql.transaction import Names, Tally
from ..verify import IDS, Finding
from ..verify import verified as repaired
from .lanes import TRIES
from .session import Conflict

if TYPE_CHECKING:
    from .store import RelationalStore


def verified(store: RelationalStore, connection: Any, *, repair: bool) -> list[Finding]:
    """Return the faults of the tables, all of one moment; with `repair`, mend them and say which are mended."""
    dialect = store.dialect
    both = ("job", "finished")
    given = " UNION ALL ".join(f"SELECT id FROM {table} WHERE id > {dialect.last_id}" for table in both)
    ids = [tables.Check(IDS, given, tuple(map(dialect.raise_ids, both)))]

    def send(batch: Batch) -> list[Any]:
        with store.translated:
            return store.send(connection, batch, store.now)

    def find() -> list[Finding]:
        return drive(send, tables.find(Names("topic"), dialect.tallies(), ids))

    def mend() -> None:
        tally = Tally()
        tally.rows = drive(send, tables.mend(dialect.tallies(), ids))
        send(dialect.counted(tally))

    send((*dialect.snapshot, *dialect.plans))
    found = find()
    send((Do("COMMIT"),))
    for attempt in range(TRIES if repair and found else 0):
        try:
            send((*dialect.alone, *dialect.plans))
            found = repaired(find, mend)
            send((Do("COMMIT"),))
            break
        except Conflict:
            if attempt + 1 == TRIES:
                raise
            send((Do("ROLLBACK"),))
            time.sleep(0.01 * attempt)
    return found

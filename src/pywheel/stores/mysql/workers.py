"""What MySQL does for the workers, beside each one's own notifier."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from secrets import randbits
from typing import TYPE_CHECKING, Any, Final

from ..._errors import StoreError
from ..relational.presence import WorkerQueries
from ..relational.ringer import Hints
from .dialect import hashed, in_parts
from .statements import Raw

if TYPE_CHECKING:
    from .store import MysqlStore

__all__ = ["ALL", "NOBODY", "Workers"]

ALL: Final = 0
"""A hint: read all again."""
NOBODY: Final = -1
"""A hint: look who is there."""
_WORKER: Final = re.compile(r"worker = x'([0-9a-f]{32})'")


class Workers(WorkerQueries):
    """Rows of workers, and hints to them."""

    def __init__(self, store: MysqlStore) -> None:
        self._store = store

    def roster(self) -> list[Sequence[Any]]:
        """Return the rows of all workers."""
        return sorted(self._store._read("roster", lock=self._store.lock), key=itemgetter(0))

    def pause_of(self, topic: str) -> tuple[bool, int] | None:
        """Return whether a topic is paused, and since which number."""
        rows = self._store._read("pause_of", hash=hashed(topic))
        return (bool(rows[0][0]), int(rows[0][1])) if rows else None

    def forget(self, age: int) -> None:
        """Delete the rows of workers that are gone."""
        self._store._clear_away(age)

    def near(self, due: int) -> list[Sequence[Any]]:
        """Return the rows of all workers, if one of them looks as far as this."""
        return self._store._read("near", due=due)

    def ring(self, hints: Hints) -> None:
        """Write hints to workers, and end their waits."""
        store, sql = self._store, self._store._sql
        ring = 1 + randbits(62)
        parts = in_parts(sorted((hashed(worker), ring, job) for worker in hints for job in _jobs(hints[worker])))
        texts = [sql("hint", rows=Raw(some)) for some in parts]
        if len(texts) > 1:  # who reads some of a ring does not look for the rest
            texts = ["BEGIN", *texts, "COMMIT"]
        if not store.notifies:
            store.run(texts)
            return
        *_, sleepers = store.run([*texts, sql("sleepers")])
        rung = set(map(hashed, hints))
        for id, info in sleepers.rows:  # one that ended meanwhile waits again only after it has read the hints
            if _sleeper(info) in rung:
                with suppress(StoreError):
                    store.run([f"KILL QUERY {id:d}"])


def _jobs(ids: set[int] | None) -> Iterator[int]:
    if ids is None:
        yield ALL
    elif ids:
        yield from ids
    else:
        yield NOBODY


def _sleeper(info: str) -> bytes | None:
    found = _WORKER.search(info)
    return bytes.fromhex(found[1]) if found else None

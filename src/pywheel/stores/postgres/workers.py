"""What PostgreSQL does for the workers on a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..relational.presence import WorkerQueries
from .notifier import channel

if TYPE_CHECKING:
    from .store import PostgresStore

__all__ = ["PostgresWorkers"]

_PAYLOAD: Final = 7_000  # bytes; the server takes 8 000


class PostgresWorkers(WorkerQueries):
    """What PostgreSQL does for the workers."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def roster(self) -> list[Sequence[Any]]:
        """Return the rows of all workers."""
        return [row[:7] for row in self._store._read("roster")]

    def pause_of(self, topic: str) -> tuple[bool, int] | None:
        """Return whether a topic is paused, and since which number."""
        rows = self._store._read("pause_of", topic=topic)
        return (bool(rows[0][0]), int(rows[0][1])) if rows else None

    def forget(self, age: int) -> None:
        """Delete the rows of workers that are gone."""
        with self._store._use() as connection:
            connection.execute(self._store._sql["forget_workers"], {"age": age, "now": self._store.now})

    def near(self, due: int) -> list[Sequence[Any]]:
        """Return the rows of all workers, if one of them looks as far as this."""
        return self._store._read("near", due=due)

    def ring(self, hints: dict[str, set[int] | None]) -> None:
        """Notify workers, or leave them a row."""
        said = [(worker, payload) for worker, ids in hints.items() for payload in _payloads(ids)]
        tables = self._store._tables
        self._store._read(
            "notify",
            workers=[worker for worker, _ in said],
            channels=[channel(tables, worker) for worker, _ in said],
            payloads=[payload for _, payload in said],
        )


def _payloads(ids: set[int] | None) -> Iterator[str]:
    """Yield what a worker is told: ids, as many as fit; "!" for all; "" for who is there."""
    if ids is None:
        yield "!"
        return
    some: list[str] = []
    size = 0
    for id in sorted(ids):
        text = str(id)
        if size + len(text) > _PAYLOAD:
            yield ",".join(some)
            some, size = [], 0
        some.append(text)
        size += len(text) + 1
    yield ",".join(some)

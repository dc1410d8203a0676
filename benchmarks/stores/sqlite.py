"""A SQLite file, beside which the servers are measured."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from typing import Self

from benchmarks.host import fsync_p50
from benchmarks.jobs.floor import Floor, RawInserts
from benchmarks.jobs.steady import held_on_sqlite
from benchmarks.stores.place import Place, memory_folder


class Sqlite(Place):
    """A file in a folder of its own."""

    def __init__(self, *, durable: bool = True) -> None:
        self._durable = durable
        self._stack = ExitStack()
        self._count = 0

    def __enter__(self) -> Self:
        folder = tempfile.TemporaryDirectory(prefix="pywheel-bench-") if self._durable else memory_folder()
        self._folder = Path(self._stack.enter_context(folder))
        self._connection = self._stack.enter_context(closing(sqlite3.connect(":memory:")))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self) -> str:
        self._count += 1
        return f"sqlite:///{self._folder}/jobs{self._count}.db"

    def version(self) -> str:
        return sqlite3.sqlite_version

    def fsync(self) -> float:
        return fsync_p50(self._folder)

    def ask(self) -> None:
        self._connection.execute("SELECT 1").fetchone()

    def floor(self) -> Floor:
        return RawInserts(self._folder)

    def held(self, url: str) -> AbstractContextManager[object]:
        return held_on_sqlite(url)

    def processor_seconds(self) -> float:
        return 0

    def size(self) -> float:
        return sum(file.stat().st_size for file in self._folder.glob("jobs*.db"))

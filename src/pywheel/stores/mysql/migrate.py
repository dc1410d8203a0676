"""The tables of a store on MySQL and MariaDB."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pymysql

from ..._errors import StoreBusy
from ..relational import migrate
from ..schema import Schema
from .connection import Timed
from .dialect import MysqlDialect

_OPTIONS: Final = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {}"
_COLLATIONS: Final = {True: "utf8mb4_nopad_bin", False: "utf8mb4_0900_bin"}  # MariaDB's, MySQL's
_MISSING: Final = 1146  # ER_NO_SUCH_TABLE
_LOCKED: Final = 1205  # ER_LOCK_WAIT_TIMEOUT
_LIMIT: Final = "SET SESSION lock_wait_timeout = "
_AGAIN: Final = "-- While this waits for a table, others wait behind it. An error 1205: run all of this again."
_LONGEST: Final = 3_600  # seconds to wait for another process that makes tables


class Migration(migrate.Migration):
    """Statements that may be run again: each is a transaction."""

    connection: Timed
    dialect: MysqlDialect
    limit = 1

    def found(self) -> Schema:
        text = f"SELECT name, value FROM {self.dialect.tables}number WHERE name IN ('schema', 'least')"
        try:
            [found] = self.connection.ask([text])
        except pymysql.Error as error:
            if error.args[0] == _MISSING:
                return Schema(0, 0)
            raise
        numbers = {str(name): int(value) for name, value in found}
        version = numbers.get("schema", 0)
        return Schema(version, numbers.get("least", version))

    @contextmanager
    def alone(self, shown: str) -> Iterator[None]:
        """Hold a lock of the server. After an error the session ends, and the lock with it."""
        lock = f"left(concat('pywheel.migrate.{self.dialect.tables}', database()), 64)"
        patience = max(math.floor(min(self.connection.until - time.monotonic(), _LONGEST)) - 1, 1)
        [held] = self.connection.ask([f"SELECT get_lock({lock}, {patience})"])
        if held[0][0] != 1:
            raise StoreBusy(f"{shown}: another process is making the tables: try again")
        yield
        self.connection.ask([f"DO release_lock({lock})"])

    def run(self, version: int) -> bool:
        try:
            self.connection.ask(self._statements(version))
        except pymysql.Error as error:
            if error.args[0] != _LOCKED:
                raise
            return False
        return True

    def script(self, version: int) -> str:
        return f"{_AGAIN}\n" + "".join(f"{statement};\n\n" for statement in self._statements(version))

    def _statements(self, version: int) -> list[str]:
        steps = [f"{_LIMIT}{self.limit}"]
        for script in migrate.scripts(self.dialect)[version:]:
            bare = "\n".join(line.partition("--")[0].rstrip() for line in script.splitlines()) + "\n"
            text = bare.replace("{options}", _OPTIONS.format(_COLLATIONS[self.connection.mariadb]))
            steps += [part.strip() for part in text.split(";\n")][:-1]
        # Last: a client that finds the version then finds all of its tables.
        numbers = f"('least', {self.made.least}), ('schema', {self.made.version})"
        steps.append(f"REPLACE INTO {self.dialect.tables}number (name, value) VALUES {numbers}")
        return [*steps, f"{_LIMIT}DEFAULT"]

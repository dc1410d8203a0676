"""The statements for those who wait for hints, and of what a store knows of itself, and those that make the tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from .dialect import NOW, MysqlDialect, literal

__all__ = ["Raw", "Statements", "migrations", "scripts"]

_OPTIONS: Final = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE {}"
_COLLATIONS: Final = {True: "utf8mb4_nopad_bin", False: "utf8mb4_0900_bin"}  # MariaDB's, MySQL's
_MARKS: Final = {
    "{seen}": "w.name, w.topics, w.beat, w.horizon, w.behind, w.stopped, "
    "IF(w.server = {server}, is_used_lock(concat(%(lock)s, hex(w.hash))) IS NULL, 0)",
    "{priorities}": str(list(range(-9, 10))),
    "{now}": "%(now)s",
    "{server}": "concat_ws(':', @@hostname, @@port, @@server_id)",
}


class Raw(str):
    """Text that is part of a statement as it is: never from outside."""

    __slots__ = ()


class Statements:
    """The statements for tables whose names begin so."""

    def __init__(self, tables: str) -> None:
        self._texts = _texts(tables)

    def __call__(self, name: str, /, **values: Any) -> str:
        """Return a statement with its values in it. Without a time given, it has the server's."""
        given = {"now": NOW} | {
            key: _literal(value) for key, value in values.items() if value is not None or key != "now"
        }
        return self._texts[name] % given


def _literal(value: Any) -> str:
    if type(value) is Raw:
        return value
    if isinstance(value, list) and value and type(value[0]) is bytes:
        return ",".join(map(literal, value))
    return literal(value)


@lru_cache(maxsize=64)
def _texts(tables: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for part in (files(__package__) / "sql" / "workers.sql").read_text("utf-8").split("-- name: ")[1:]:
        title, _, text = part.partition("\n")
        text = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
        for mark, meaning in {**_MARKS, "{p}": tables}.items():
            text = text.replace(mark, meaning)
        found[title.strip()] = text
    return found


def scripts() -> list[str]:
    """Return the scripts that lead from one version to the next, from version 0 on."""
    return [MysqlDialect("{p}").schema()]


def migrations(prefix: str, *, mariadb: bool) -> list[list[str]]:
    """Return their statements."""
    options = _OPTIONS.format(_COLLATIONS[mariadb])
    return [
        [part.strip() for part in _bare(script).replace("{p}", prefix).replace("{options}", options).split(";\n")][:-1]
        for script in scripts()
    ]


def _bare(script: str) -> str:
    """Return a script without its comments."""
    return "\n".join(line.partition("--")[0].rstrip() for line in script.splitlines()) + "\n"

"""The SQL of this store, read once from the .sql files beside it. A statement follows a line ``-- name: its_name``.

MySQL prepares statements only one by one, and runs many at once only as text. So values become text here, in the one
form that can be nothing but a value, whatever a server's `sql_mode` and character set: whole numbers, and hexadecimal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from hashlib import blake2b
from importlib.resources import files
from typing import Any, Final

__all__ = ["NOW", "Raw", "Statements", "hashed", "hashes", "in_json", "in_parts", "migrations", "rows", "scripts"]

_FOLDER: Final = files(__package__) / "sql"
_LONG: Final = 1 << 19  # characters of an INSERT: a server takes a million bytes at least, unless somebody changed it
_OPTIONS: Final = "ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
_PARTS: Final = {
    "{job}": "j.id, j.topic, j.created, j.name, j.ttr, j.max_attempts, j.headers, length(j.body)",
    "{run}": "r.attempt, r.begun, r.started, r.lease, r.max_attempts, r.backoff, r.worker",
    "{finished}": "f.attempt, f.started, f.worker, f.state, f.outcome, f.ended, f.silent",
    # Where a job stands: in one of these.
    "{places}": "LEFT JOIN {p}due d FORCE INDEX (PRIMARY) ON d.topic = j.topic AND d.id = j.id "
    "LEFT JOIN {p}run r FORCE INDEX (PRIMARY) ON r.id = j.id "
    "LEFT JOIN ((SELECT 0 AS state UNION ALL SELECT 1 UNION ALL SELECT 2) s "
    "STRAIGHT_JOIN {p}finished f FORCE INDEX (PRIMARY)) ON f.topic = j.topic AND f.state = s.state AND f.id = j.id",
    "{recount}": "SELECT topic, sum(state IS NULL) AS live, sum(state <=> 0) AS done, sum(state <=> 2) AS dead, "
    "sum(state <=> 1) AS cancelled FROM (SELECT topic, NULL AS state FROM {p}due "
    "UNION ALL SELECT topic, NULL FROM {p}run UNION ALL SELECT topic, state FROM {p}finished) p GROUP BY topic",
    "{ids}": "(SELECT id FROM JSON_TABLE('[%(ids)s]', '$[*]' COLUMNS (id bigint PATH '$')) v) w",
    "{hashes}": "(SELECT unhex(x) AS hash FROM JSON_TABLE('[%(hashes)s]', '$[*]' COLUMNS (x char(32) PATH '$')) v) w",
    "{seen}": "w.name, w.topics, w.beat, w.horizon, w.behind, w.stopped, "
    "IF(w.server = {server}, is_used_lock(concat(%(lock)s, hex(w.hash))) IS NULL, 0)",
    "{mine}": "(%(shards)s >> (id & 31)) & 1 = 1",
    "{now}": "%(now)s",
    # Which priorities jobs of a topic had, as bits: `jobs.limits.lane`.
    "{lanes}": "(SELECT CAST(bit_or(1 << (r.priority + 9)) AS SIGNED) FROM {p}priority r WHERE r.topic = {p}topic.id)",
    "{plain}": "(NOT EXISTS (SELECT 1 FROM {p}priority WHERE topic = %(topic)s) "
    "OR NOT EXISTS (SELECT 1 FROM {p}lane l WHERE l.id = {p}due.id AND l.due = {p}due.due))",
    "{server}": "concat_ws(':', @@hostname, @@port, @@server_id)",
} | {f"{{past.{t}}}": ", ".join(f"{t}.{c}" for c in "due claims forgiven lost passed error".split()) for t in "drf"}

_UP: Final = {"{>}": ">", "{<=}": "<=", "{asc}": "ASC", "{min}": "min"}
_DOWN: Final = {"{>}": "<", "{<=}": ">=", "{asc}": "DESC", "{min}": "max"}


class Raw(str):
    """Text that is part of a statement as it is: never from outside."""

    __slots__ = ()


NOW: Final = Raw("(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) DIV 1000)")
"""The server's time, ms since 1970, at the beginning of a statement."""


def literal(value: Any) -> str:
    """Return a value as it stands in a statement; a sequence as a list."""
    kind = type(value)
    if kind is int:
        return str(value)
    if value is None:
        return "NULL"
    if kind is str:
        return f"_utf8mb4 x'{value.encode().hex()}'"
    if kind is bytes:
        return f"x'{value.hex()}'"
    if kind is Raw:
        return value  # type: ignore[no-any-return]
    if kind is bool or isinstance(value, IntEnum):
        return str(int(value))
    if kind is float:
        return repr(value)
    return ",".join(map(literal, value)) or "null"  # as JSON has it too


def rows(values: Iterable[Sequence[Any]]) -> Raw:
    """Return rows as they stand after VALUES."""
    return Raw(",".join(map(_row, values)))


def in_parts(values: Iterable[Sequence[Any]]) -> Iterator[Raw]:
    """Yield rows in parts that are not too long for one statement."""
    some: list[str] = []
    size = 0
    for text in map(_row, values):
        if some and size + len(text) > _LONG:
            yield Raw(",".join(some))
            some, size = [], 0
        some.append(text)
        size += len(text)
    if some:
        yield Raw(",".join(some))


def _row(row: Sequence[Any]) -> str:
    return "(" + ",".join(map(literal, row)) + ")"


def hashed(name: str) -> bytes:
    """Return what a name is found by."""
    return blake2b(name.encode(), digest_size=16).digest()


def hashes(names: Iterable[str]) -> list[bytes]:
    """Return what names are found by, in the order in which they are locked."""
    return sorted(map(hashed, names))


def in_json(hashes: Iterable[bytes]) -> Raw:
    """Return hashes as they stand in a list in JSON."""
    return Raw(",".join(f'"{each.hex()}"' for each in hashes))


class Statements:
    """The statements for tables whose names begin so."""

    def __init__(self, tables: str) -> None:
        self._texts = _texts(tables)

    def __call__(self, name: str, /, **values: Any) -> str:
        """Return a statement with its values in it. Without a time given, it has the server's."""
        given = {"now": NOW} | {
            key: literal(value) for key, value in values.items() if value is not None or key != "now"
        }
        return self._texts[name] % given


@lru_cache(maxsize=64)
def _texts(tables: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    open_ = f"(SELECT paused FROM {tables}topic WHERE id = %(topic)s) = 0"
    for name in ("load", "store", "direct", "read", "page", "reading", "workers", "verify"):
        for part in (_FOLDER / f"{name}.sql").read_text("utf-8").split("-- name: ")[1:]:
            title, _, text = part.partition("\n")
            text = "\n".join(line for line in text.splitlines() if not line.startswith("--")).strip()
            for mark, meaning in {**_PARTS, "{open}": open_, "{p}": tables}.items():
                text = text.replace(mark, meaning)
            found[title.strip()] = text
    found["page_head"] = found["look"].replace("length(j.body), j.body,", "NULL, NULL,")  # without bodies
    due = found["lock_due_of_topic"]
    found["lock_due_of_topic"] = due.replace("{lane}", "TRUE")
    found["lock_due_without"] = due.replace("{lane}", "NOT (l.due <=> d.due)")
    for name in [name for name in found if name.startswith("page_")]:
        text = found[name]
        for end, words in (("", _UP), ("_down", _DOWN)):
            found[name + end] = text
            for mark, word in words.items():
                found[name + end] = found[name + end].replace(mark, word)
    # A claim leaves out what others lock: a transaction that lasts holds up its own jobs alone.
    found["claim_due"] = found["lock_due"] + " SKIP LOCKED"
    found["claim_run"] = found["lock_run"].replace("{lost}", "r.lease <= %(now)s") + " SKIP LOCKED"
    found["lock_run"] = found["lock_run"].replace("{lost}", "TRUE")
    return found


def scripts() -> list[str]:
    """Return the scripts that lead from one version to the next, from version 0 on."""
    folder = _FOLDER / "migrations"
    return [entry.read_text("utf-8") for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)]


def migrations(prefix: str) -> list[list[str]]:
    """Return their statements."""
    return [
        [part.strip() for part in _bare(script).replace("{p}", prefix).replace("{options}", _OPTIONS).split(";\n")][:-1]
        for script in scripts()
    ]


def _bare(script: str) -> str:
    """Return a script without its comments."""
    return "\n".join(line.partition("--")[0].rstrip() for line in script.splitlines()) + "\n"

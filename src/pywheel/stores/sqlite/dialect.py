"""SQLite's forms of statements, and the carrier that runs them on a connection.

Lists of values go as JSON. Rows come as one row with their columns as JSON: between two rows of a result, busy handlers
would take the interpreter for milliseconds each, in the turn to write.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any, ClassVar, Final

from ..._errors import StoreCorrupt
from ..sql.dialect import Dialect, lists_of
from ..sql.schema import TABLES, TYPES
from ..sql.statement import Batch, Do, Drop, Each, Insert, NewNames, Rows, Select, Steps, WriteJobs
from ..sql.transaction import LIVE, NEVER, Tally, Transaction

_UPDATE: Final = "UPDATE job SET "
_COLUMN: Final = re.compile(r"\bw\.(\w+)")
_ALIKE: Final = 8  # statements that one change may become: handlers may take the interpreter at each
AT_ONCE: Final = 25
"""Rows of one INSERT: fewer steps than `executemany` takes."""
_LONG: Final = 256 << 10  # characters of a column that are parsed at once: some 3 ms
_FEW: Final = 4  # rows that are returned one by one
TAIL: Final = 1_024


class SqliteDialect(Dialect):
    """SQLite's dialect. Nobody else writes meanwhile: nothing is locked, and the time is known."""

    kinds: ClassVar[Mapping[str, str]] = {
        "big": "INTEGER", "int": "INTEGER", "small": "INTEGER", "text": "TEXT", "name": "TEXT", "bytes": "BLOB",
        "binary": "BLOB", "serial": "INTEGER PRIMARY KEY", "primary": "PRIMARY KEY", "clustered": " WITHOUT ROWID",
        "ended": "NOT NULL UNIQUE",  # rows in the order of their ends: in that of the ids each would write its own page
    }  # fmt: skip
    lock = ""
    skip = ""
    then = "CROSS JOIN"

    def now(self) -> str:
        """Return the parameter that each statement gets."""
        return ":now"

    def draw(self) -> str:
        return "(random() / 9223372036854775808.0)"

    def source(self, name: str, columns: Sequence[str]) -> str:
        """Return rows of a JSON text: arrays, or plain values if there is one column."""
        if len(columns) == 1:
            return f"(SELECT value AS {columns[0]} FROM json_each(:{name})) {name}"
        chosen = ", ".join(f"value ->> {place} AS {column}" for place, column in enumerate(columns))
        return f"(SELECT {chosen} FROM json_each(:{name})) {name}"

    def among(self, name: str) -> str:
        return f"IN (SELECT value FROM json_each(:{name}))"

    def announce(self, tx: Transaction, worker: str, topics: str | None) -> Steps[None]:
        """Store which topics a worker handles, and delete the rows of workers that have gone without a word."""
        text = "INSERT INTO member (worker, topics) VALUES (:worker, :topics) {else worker: topics}"
        forget = "DELETE FROM member WHERE worker = :worker"
        yield (Do(text if topics else forget, {"worker": worker, "topics": topics}),)
        [found] = yield (Rows("worker", "SELECT worker FROM member"),)
        gone = [{"worker": one} for [one] in found if one not in tx.changes.announced and tx.gone(one)]
        yield (Each(forget, gone),)

    # ---- counts -----------------------------------------------------------------------------------------------------
    # A single plain put is one statement, and touches no other row. So a put changes no count: `counts` includes puts
    # up to an id. Readers count the later jobs, the tail, themselves. The tail is added once it is long.

    def count(self, tx: Transaction) -> Steps[None]:
        """Write the changes of the counts, and add the tail once it is long."""
        if ends_tail(tx.tally.new):
            yield from self._fold(tx)
        elif tx.tally.rows:
            yield self._added(tx.tally)

    def _fold(self, tx: Transaction) -> Steps[None]:
        """Add the tail to the counts."""
        tally = tx.tally
        [tail] = yield (Select(_COUNT_TAIL, {"first": tally.new[0][0] if tally.new else NEVER}),)
        for topic, jobs in (*tail, *tally.put.items()):
            tally.add(topic, LIVE, jobs)
        if tail or tally.new:
            yield (Do(f"UPDATE counted SET job = {_HIGHEST}"),)
        tally.new = []
        yield self._added(tally)

    def _added(self, tally: Tally) -> Batch:
        """Return the statement that adds to the counts."""
        text = (
            "INSERT INTO counts (topic, live, done, cancelled, dead) VALUES (:topic, :live, :done, :cancelled, :dead) "
            "ON CONFLICT (topic) DO UPDATE SET live = live + excluded.live, done = done + excluded.done, "
            "cancelled = cancelled + excluded.cancelled, dead = dead + excluded.dead"
        )
        names = ("topic", "live", "done", "cancelled", "dead")
        rows = [dict(zip(names, (topic, *row), strict=True)) for topic, row in tally.rows.items() if any(row)]
        tally.rows = {}
        return (Each(text, rows),)

    def tallies(self) -> Sequence[Select]:
        """Return the queries for the counts, and for the tail."""
        tail = f"SELECT topic, jobs, 0, 0, 0 FROM ({_COUNT_TAIL})"
        return (Select(f"SELECT topic, {_COUNTS} FROM counts"), Select(tail, {"first": NEVER}))

    def before_forgetting(self, tx: Transaction, highest: int) -> Steps[None]:
        """Add the tail to the counts, as the jobs may be in it, and record that ids up to here were given."""
        yield from self._fold(tx)
        text = "UPDATE counted SET forgotten = :highest WHERE forgotten < :highest"
        yield (Do(text, {"highest": highest}),)

    # ---- forms ------------------------------------------------------------------------------------------------------

    def as_one_row(self, columns: str, text: str) -> str:
        """Return a SELECT with one row, which has the columns of another SELECT.

        First come all columns of numbers, and the lengths of bytes, in one JSON text. A JSON text for each column of
        text follows, then the bytes of each column of bytes, joined.
        """
        numbers, texts, blobs = _by_kind(columns)
        listed = [f"json_group_array({name})" for name in [*numbers, *[f"length({name})" for name in blobs]]]
        parts = [f"json_array({', '.join(listed)})", *[f"json_group_array({name})" for name in texts]]
        parts += [f"CAST(group_concat({name}, '') AS BLOB)" for name in blobs]
        return f"SELECT {', '.join(parts)} FROM ({text})"

    def changed(self, change: WriteJobs, *, alike: bool, few: bool) -> tuple[str, str]:
        """Return the query for the rows to be changed, "" if none is needed, and the change.

        `alike`: the list has ids alone, and the values of its other columns are bound as ``:w_column``. `few`: the
        change returns the rows that it wrote.
        """
        job = f"FROM {change.source} CROSS JOIN job j ON j.id = w.id WHERE {change.where}"
        update = f"FROM {change.source} WHERE j.id = w.id AND {change.where}"
        if alike:
            update = f"WHERE j.id {{in w}} AND {change.where}"
            job = f"FROM job j {update}"
        chosen = ", ".join(f"{value} AS {name}" for name, value in change.returns.items())
        look = self.as_one_row(" ".join(change.returns), f"SELECT {chosen} {job}") if chosen and not few else ""
        write = f"{change.write} {job}"
        if change.write.startswith(_UPDATE):
            write = f"UPDATE job AS j SET {change.write.removeprefix(_UPDATE)} {update}"
        if chosen and few:
            write += f" RETURNING {', '.join(change.returns)}"
        if alike:
            look, write = _COLUMN.sub(r":w_\1", look), _COLUMN.sub(r":w_\1", write)
        return self.text(look), self.text(write)


def ends_tail(new: Sequence[Sequence[Any]]) -> bool:
    """Whether the tail is long once these rows are stored."""
    return bool(new) and new[-1][0] // TAIL > (new[0][0] - 1) // TAIL


_OF_JOBS: Final = "coalesce((SELECT max(id) FROM job), 0), coalesce((SELECT max(id) FROM finished), 0)"
_HIGHEST: Final = f"max({_OF_JOBS}, (SELECT forgotten FROM counted))"
"""The highest id that was given; NULL if `counted` has lost its row."""
NOTE_HIGHEST: Final = (
    f"INSERT INTO counted SELECT h.id, h.id FROM (SELECT max({_OF_JOBS}) AS id) h "
    "WHERE NOT EXISTS (SELECT 1 FROM counted)"
)
"""The statement that writes the row of `counted` if there is none."""
_GUESSED: Final = f"iif(? = {_HIGHEST}, ?, 'wrong')"
"""An id, if the highest one is the value bound before it; else a value of a type that no id has (MISMATCH)."""
_COUNTS: Final = ", ".join(f"CAST({one} AS INTEGER)" for one in ("live", "done", "cancelled", "dead"))
"""The counts as SQLite adds to them: a text that hands have written there counts as the number that it begins with."""
_COUNT_TAIL: Final = (
    "SELECT topic, count(*) AS jobs FROM (SELECT topic FROM job WHERE id > (SELECT job FROM counted) AND id < :first "
    "UNION ALL SELECT topic FROM finished WHERE id > (SELECT job FROM counted) AND id < :first) GROUP BY topic"
)

SQLITE: Final = SqliteDialect()
SCHEMA: Final = SQLITE.text(
    TABLES.replace("next, id)", "next)")  # an index of `job` ends with the id anyway, and would have it twice
    + """
CREATE TABLE counts (
    topic INTEGER PRIMARY KEY,
    live INTEGER NOT NULL,
    done INTEGER NOT NULL,
    cancelled INTEGER NOT NULL,
    dead INTEGER NOT NULL
);
-- Up to which id jobs are counted, and the highest id of a job that was forgotten: no id is given twice.
CREATE TABLE counted (job INTEGER NOT NULL, forgotten INTEGER NOT NULL);
INSERT INTO counted VALUES (0, 0);
CREATE TABLE member (
    worker TEXT PRIMARY KEY,
    topics TEXT NOT NULL              -- JSON: names
) WITHOUT ROWID;
"""
)


class Ids:
    """Gives ids above the highest that was ever given.

    `guess` is the highest that this process has given. `check`, or the insert, finds out whether it still is.
    """

    def __init__(self, highest: int | None = None) -> None:
        self.guess = highest
        self.highest = highest

    def take(self, count: int) -> Sequence[int] | None:
        """Return `count` ids, None if the highest is not known."""
        if self.highest is None:
            return None
        first = self.highest + 1
        self.highest += count
        return range(first, first + count)

    def check(self, carrier: Carrier) -> None:
        """Raise WrongGuess if others have given ids meanwhile. In a transaction."""
        if self.guess is not None and carrier.send((Select(f"SELECT {_HIGHEST}"),)) != [[(self.guess,)]]:
            raise WrongGuess

    def __call__(self, count: int) -> Steps[Sequence[int]]:
        """Return `count` ids."""
        if self.highest is None:
            [[[self.highest]]] = yield (Select(f"SELECT {_HIGHEST}"),)
        ids = self.take(count)
        if ids is None:
            raise StoreCorrupt(
                "the highest id is unknown, as the table `counted` is empty: run pywheel verify --repair"
            )
        return ids


class WrongGuess(Exception):
    """Another process has given ids meanwhile: nothing was stored."""


class Columns(Sequence[tuple[Any, ...]]):
    """Rows kept by column: the garbage collector need not walk through thousands of tuples."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Sequence[Sequence[Any]]) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self._columns, strict=True)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [*self][place]
        return tuple([column[place] for column in self._columns])


class Carrier:
    """Runs statements on a connection."""

    __slots__ = ("_changed", "_execute", "_many", "now")

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        self._execute: Callable[..., Any] = connection.execute
        self._many: Callable[..., Any] = connection.executemany
        self._changed: Sequence[int] | None = None  # ids of the rows of the last change, if known
        self.now = now

    def send(self, batch: Batch) -> list[Any]:
        """Run statements in order; return the rows of each."""
        return [_SEND[type(statement)](self, statement) for statement in batch]

    def _bound(self, text: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a text, with its lists as JSON. Values of the same names are always lists there."""
        lists = _LISTS.get(text)
        if lists is None:
            lists = _LISTS[text] = [name for name, value in values.items() if type(value) is list]
        bound = {**values, "now": self.now}
        for name in lists:
            bound[name] = _listed(bound[name])
        return bound

    def _select(self, statement: Select) -> list[Any]:
        bound = self._bound(statement.text, statement.values)
        return self._execute(SQLITE.text(statement.text), bound).fetchall()  # type: ignore[no-any-return]

    def _rows(self, statement: Rows) -> Columns:
        columns, text = statement.columns, statement.text
        sql = SQLITE.kept((columns, text), lambda: SQLITE.text(SQLITE.as_one_row(columns, text)))
        return self._read(sql, columns, self._bound(text, statement.values))

    def _read(self, sql: str, columns: str, bound: dict[str, Any]) -> Columns:
        first, *others = self._execute(sql, bound).fetchone()
        listed = _parsed(first)
        if not others:
            return Columns(listed)
        numbers, texts, in_order = _layout(columns)
        read = listed[:numbers] + [_parsed(column) for column in others[:texts]]
        for sizes, joined in zip(listed[numbers:], others[texts:], strict=True):
            ends = [*accumulate([size or 0 for size in sizes])]
            parts = zip(sizes, [0, *ends], ends, strict=False)  # [0, *ends] has one more
            read.append([None if size is None else joined[at:end] for size, at, end in parts])
        return Columns(in_order(read))

    def _do(self, statement: Do) -> list[Any]:
        self._execute(SQLITE.text(statement.text), self._bound(statement.text, statement.values))
        return []

    def _drop(self, statement: Drop) -> list[Any]:
        text, ids = "DELETE FROM job WHERE id {in ids}", self._changed
        if ids is None:
            text, ids = "DELETE FROM job WHERE id IN (SELECT f.id FROM finished f WHERE f.id {in ids})", statement.ids
        if ids:
            self._execute(SQLITE.text(text), {"ids": json.dumps(ids)})
        return []

    def _new_names(self, statement: NewNames) -> list[Any]:
        self._many(f"INSERT INTO {statement.table} (name) VALUES (?)", [(name,) for name in statement.names])
        return []

    def _each(self, statement: Each) -> list[Any]:
        if len(statement.values) == 1:
            self._execute(SQLITE.text(statement.text), self._bound(statement.text, statement.values[0]))
        elif statement.values:
            self._many(SQLITE.text(statement.text), [{**values, "now": self.now} for values in statement.values])
        return []

    def _insert(self, statement: Insert) -> list[Any]:
        rows = statement.rows
        for at in range(0, len(rows), AT_ONCE):
            part = rows[at : at + AT_ONCE]
            self._execute(_inserting(statement.table, statement.columns, len(part)), [*chain.from_iterable(part)])
        return []

    def _change(self, statement: WriteJobs) -> Sequence[Any]:
        """Change rows with equal values by one statement, unless that would be many.

        A change of a few rows returns them itself. For more rows a query comes first, which returns them as one row.
        """
        some = statement.values["w"]
        alike = _alike(some)
        key = (statement.write, statement.where, statement.source, len(alike) <= _ALIKE, len(some) <= _FEW)
        look, write = SQLITE.kept(key, lambda: SQLITE.changed(statement, alike=key[3], few=key[4]))
        parts = [statement.values]
        if key[3]:
            names = SQLITE.kept(statement.source, lambda: [f"w_{one}" for one in lists_of(statement.source)["w"][1:]])
            parts = [
                {**statement.values, "w": ids, **dict(zip(names, values, strict=True))} for values, ids in alike.items()
            ]
        parted: list[Sequence[Any]] = []
        for part in parts:
            bound = self._bound(write, part)
            if not look:
                parted.append(self._execute(write, bound).fetchall())
            elif found := self._read(look, " ".join(statement.returns), bound):
                self._execute(write, bound)
                parted.append(found)
        rows = parted[0] if len(parted) == 1 else [*chain.from_iterable(parted)]
        self._changed = [row[0] for row in rows] if statement.returns else None
        return rows


def insert_at_once(connection: sqlite3.Connection, insert: Insert, guess: int | None) -> None:
    """Insert jobs, AT_ONCE at most: a transaction by itself. WrongGuess if `guess` is not the highest id any more."""
    rows = insert.rows
    values = rows[0] if len(rows) == 1 else chain.from_iterable(rows)
    try:
        if guess is None:
            connection.execute(_inserting("job", insert.columns, len(rows)), [*values])
        else:
            connection.execute(_inserting("job", insert.columns, len(rows), _GUESSED), [guess, *values])
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_MISMATCH:
            raise WrongGuess from error
        raise


@cache
def _inserting(table: str, columns: tuple[str, ...], rows: int, first: str = "?") -> str:
    """Return the INSERT of `rows` rows. `first` stands for the first value of the first row."""
    others = ", ?" * (len(columns) - 1)
    values = ", ".join([f"({first}{others})", *[f"(?{others})"] * (rows - 1)])
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {values}"


def _alike(rows: Sequence[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[int]]:
    """Return the ids of rows by their other values."""
    ids, *columns = zip(*rows, strict=True)
    if all(len({*column}) == 1 for column in columns):
        return {rows[0][1:]: list(ids)}
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        found.setdefault(row[1:], []).append(row[0])
    return found


def _by_kind(columns: str) -> tuple[list[str], list[str], list[str]]:
    """Return the columns of numbers, of text, and of bytes."""
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    for name in columns.split():
        found[{"text": 1, "name": 1, "bytes": 2}.get(TYPES.get(name, ""), 0)].append(name)
    return found


@cache
def _layout(columns: str) -> tuple[int, int, Callable[[list[Any]], Sequence[Any]]]:
    """Return the number of columns of numbers and of text, and a function that puts columns by kind in order."""
    numbers, texts, blobs = _by_kind(columns)
    by_kind = [*numbers, *texts, *blobs]
    places = [by_kind.index(name) for name in columns.split()]
    return len(numbers), len(texts), itemgetter(*places) if len(places) > 1 else list


_LISTS: Final[dict[str, list[str]]] = {}  # the names of the lists among the values of each text
_decoded: Final = json.JSONDecoder().raw_decode  # json.loads also looks for spaces, which SQLite does not write


def _parsed(listed: str) -> list[Any]:
    """Return the values of a JSON text; very many one by one, as one call would keep other threads from running."""
    if len(listed) < _LONG:
        return _decoded(listed)[0]  # type: ignore[no-any-return]
    values, at = [], 1
    while at < len(listed) - 1:
        value, end = _decoded(listed, at)
        values.append(value)
        at = end + 1
    return values


def _listed(rows: list[Any]) -> str:
    """Return a list of values as JSON: rows, or plain values where the rows have one column."""
    if rows and type(rows[0]) is tuple and len(rows[0]) == 1:
        rows = [value for [value] in rows]
    return json.dumps(rows)


_SEND: Final[dict[type, Callable[[Carrier, Any], Sequence[Any]]]] = {
    Select: Carrier._select,
    Rows: Carrier._rows,
    Do: Carrier._do,
    Drop: Carrier._drop,
    Each: Carrier._each,
    NewNames: Carrier._new_names,
    Insert: Carrier._insert,
    WriteJobs: Carrier._change,
}

"""PostgreSQL's forms of statements, and their values: lists of values are arrays."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final

from ..relational.dialect import MORE, Later, ServerDialect, is_number
from ..sql.dialect import lists_of
from ..sql.rows import TAKEN, listed
from ..sql.schema import TABLES, TYPES
from ..sql.statement import Do, Drop, Each, Insert, NewNames, Select, Statement, WriteJobs
from .pipeline import Asked

_BEGAN: Final = "floor(extract(epoch FROM a.backend_start) * 1000)"
NOW = "coalesce(:now::bigint, floor(date_part('epoch', now()) * 1000)::bigint)"
_INDEX: Final = re.compile(r"\bINDEX ([a-z_]+) ON\b")
_SEQUENCE: Final = re.compile(r"\bSEQUENCE ([a-z_]+)")
_OF_LIST: Final = re.compile(r"\bw\.(\w+)")
_BYTES: Final = re.compile(r"(%\(\w+\))s::bytea\b")  # bytes are sent as they are
_HELD: Final = "(j.next, j.id) >= (SELECT next, id FROM held)"
_TAKE: Final = f"""
WITH c AS MATERIALIZED (
    SELECT j.id, j.next, j.lost, length(j.body) AS size FROM job j
    WHERE (SELECT t.paused = 0 AND t.lanes = :lanes FROM topic t WHERE t.id = :topic)
        AND j.state = 0 AND j.topic = :topic AND j.priority = :priority
        AND j.next >= :first AND j.next <= {{now}}
    ORDER BY j.next, j.id LIMIT :most {{skip j}}
), n AS MATERIALIZED (
    SELECT set_config('pywheel.looked', count(*)::text, true),
        coalesce(max(lost), 0) = 0 AND coalesce(sum(size), 0) <= :bytes AS all_of_them FROM c
), held AS MATERIALIZED (
    SELECT next, id FROM c OFFSET :begin LIMIT 1
)
UPDATE job j SET state = 1, claims = j.claims + 1, due = j.next, started = {{now}}, worker = :worker,
    begun = CASE WHEN {_HELD} THEN 0 ELSE 1 END,
    next = {{now}} + CASE WHEN {_HELD} THEN :hold ELSE :slack + coalesce(nullif(j.ttr, 0), :ttr) END,
    backoff = CASE WHEN j.claims + 1 - j.unspent < coalesce(nullif(j.max_attempts, 0), :tries) THEN
        round((:delays::bigint[])[greatest(least(j.claims + 1 - j.unspent, :last), 1)] * (1 + :jitter * {{draw}}))
    END
WHERE (SELECT all_of_them FROM n) AND j.id = ANY(ARRAY(SELECT id FROM c))
RETURNING {listed(TAKEN, "j", attempt="j.claims - j.unspent")}
"""


class PostgresDialect(ServerDialect):
    """The tables of one store."""

    take = _TAKE
    looked = "current_setting('pywheel.looked')::int"
    bytes_in_lists = 1 << 24

    kinds: ClassVar[Mapping[str, str]] = {
        **ServerDialect.kinds,
        "text": "text",
        "name": 'text COLLATE "C"',
        "bytes": "bytea",
        "binary": "bytea",
        "serial": "int GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "primary": "PRIMARY KEY",
        "ended": "PRIMARY KEY",
        "row": "",
        "member": 'name text COLLATE "C" PRIMARY KEY',
        # The session that listens: others see at once that its process has ended.
        "session": "pid int, began bigint",
    }

    database = "current_database()"
    durability = (
        "CASE WHEN current_setting('fsync') = 'off' THEN 'memory' "
        "WHEN current_setting('synchronous_commit') = 'off' THEN 'everysec' ELSE 'fsync' END"
    )
    room = (
        "SELECT current_setting('server_version'), sum(pg_table_size(to_regclass(t)))::bigint, "
        "sum(pg_indexes_size(to_regclass(t)))::bigint FROM unnest(string_to_array(:tables, ',')) AS t"
    )
    snapshot = (Do("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),)
    # A store's connections want plans that find few rows by their keys; these transactions read all.
    plans = (
        Select(
            "SELECT set_config('plan_cache_mode', 'auto', true), set_config('enable_seqscan', 'on', true), "
            "set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true)"
        ),
    )
    fold = """
        WITH part AS (
            DELETE FROM tally WHERE ctid = ANY(ARRAY(SELECT ctid FROM tally LIMIT 2000 FOR UPDATE SKIP LOCKED))
            RETURNING topic, live, done, cancelled, dead
        )
        INSERT INTO tally (topic, live, done, cancelled, dead)
        SELECT topic, sum(live), sum(done), sum(cancelled), sum(dead) FROM part GROUP BY topic
    """
    session: ClassVar[dict[str, str]] = {
        "pid": "CASE WHEN :listens THEN pg_backend_pid() END",
        "began": f"(SELECT {_BEGAN} FROM pg_stat_activity a WHERE a.pid = pg_backend_pid())",
    }
    # The index entries of jobs that have ended stay while any transaction may see them. If topics are few, the look
    # begins behind those entries in each topic.
    first_lease = """
        CASE WHEN (SELECT count(*) FROM (SELECT FROM topic LIMIT 17) few) < 17 THEN (
            SELECT min((
                SELECT j.next FROM job j WHERE j.state = 1 AND j.topic = t.id AND j.priority = r.priority
                    AND j.next >= :since ORDER BY j.next LIMIT 1
            )) FROM topic t JOIN generate_series(-9, 9) AS r (priority)
            ON r.priority = 0 OR t.lanes >> (9 + r.priority) & 1 = 1
        ) ELSE (SELECT min(next) FROM job WHERE state = 1 AND next >= :since) END
    """
    known_by = "name"
    # The start time of another role's session may be hidden.
    gone = (
        "w.pid IS NOT NULL AND NOT EXISTS ("
        f"SELECT 1 FROM pg_stat_activity a WHERE a.pid = w.pid AND coalesce({_BEGAN} = w.began, true))"
    )

    def __init__(self, tables: str) -> None:
        super().__init__(tables)
        self.last_id = f"(SELECT last_value FROM {tables}id)"
        locked = ", ".join(f"{tables}{name}" for name in ("topic", "job", "finished", "attempt", "tally"))
        self.alone = (Do("BEGIN"), Do(f"LOCK TABLE {locked} IN SHARE ROW EXCLUSIVE MODE"))

    def named(self, text: str) -> str:
        """Return SQL with the tables' real names, and values as psycopg takes them."""
        prefix = self.tables.rpartition(".")[2]
        text = _INDEX.sub(lambda match: f"INDEX {prefix}{match[1]} ON", text)
        text = _SEQUENCE.sub(lambda match: f"SEQUENCE {self.tables}{match[1]}", text)
        return _BYTES.sub(r"\1b::bytea", super().named(text))

    def now(self) -> str:
        """Return the time at which the transaction began: all of its statements must judge a lease alike.

        In a transaction of a caller's own, and under a test's clock, the time comes with each statement.
        """
        return NOW

    def source(self, name: str, columns: Sequence[str]) -> str:
        """Return a table made of arrays, one for each column."""
        kinds = [self.kinds[TYPES[column]].partition(" ")[0] for column in columns]
        some = ", ".join(f":{name}_{column}::{kind}[]" for column, kind in zip(columns, kinds, strict=True))
        return f"unnest({some}) AS {name} ({', '.join(columns)})"

    def each(self, table: str, alias: str, condition: str) -> str:
        """Return a query that runs for each row. A plan made while there are few jobs would join all, also later."""
        return f"CROSS JOIN LATERAL (SELECT * FROM {table} {alias} WHERE {condition} OFFSET 0) {alias}"

    def among(self, name: str) -> str:
        return f"= ANY(:{name}::bigint[])"

    @property
    def pausing(self) -> str:
        """Return the statement that pauses or resumes a topic, and gives the change a number."""
        return f"UPDATE topic SET paused = :paused, stirred = nextval('{self.tables}stir') WHERE id = :topic"

    def raise_ids(self, table: str) -> str:
        highest = f"greatest({self.last_id}, (SELECT max(id) FROM {table}))"
        return f"SELECT setval('{self.tables}id', {highest}) WHERE EXISTS (SELECT FROM {table})"

    # ---- forms ------------------------------------------------------------------------------------------------------

    def said(self, one: Statement, now: int | None) -> list[Asked]:
        """Return the SQL of a statement: mostly one text. Its rows are those of the last."""
        if isinstance(one, Each):
            text = self.text(one.text)
            return [(text, {**values, "now": now}) for values in one.values]
        if isinstance(one, Drop):
            return []  # a WriteJobs has deleted them
        if isinstance(one, Insert):
            return [self._insert(one, now)] if one.rows else []
        if isinstance(one, NewNames):
            text = f"INSERT INTO {one.table} (name) SELECT name FROM {{w: name}} ORDER BY name ON CONFLICT DO NOTHING"
            values: Mapping[str, Any] = {"w": [(name,) for name in one.names]}
        elif isinstance(one, WriteJobs):
            text, values = self.kept((one.write, one.source, one.where), lambda: self._changed(one)), one.values
        else:
            text, values = one.text, one.values
        return [(self.text(text), self.bound(text, values, now))]

    def bound(self, text: str, values: Mapping[str, Any], now: int | None) -> dict[str, Any]:
        """Return the values of a statement, lists as arrays."""
        lists = self.kept(("lists", text), lambda: lists_of(text))
        bound: dict[str, Any] = {"now": now}
        for name, value in values.items():
            if type(value) is not list:
                bound[name] = value
            elif (columns := lists.get(name)) is None:
                bound[name] = numbers(value)
            else:
                some = list(zip(*value, strict=True)) if value else [()] * len(columns)
                for column, part in zip(columns, some, strict=True):
                    bound[f"{name}_{column}"] = numbers(part) if is_number(column) else list(part)
        return bound

    def _changed(self, one: WriteJobs) -> str:
        if one.write.startswith("UPDATE job SET "):
            values = one.write.removeprefix("UPDATE job SET ")
            text = f"UPDATE job AS j SET {values} FROM {one.source} WHERE j.id = w.id AND {one.where}"
            returns = ", ".join(f"j.{column}" for column in one.returns)
        elif one.write.startswith("INSERT INTO finished"):
            # One step instead of two: the rows are locked and deleted, and their old values are inserted.
            told = "".join(f", w.{name} AS w_{name}" for name in sorted({*_OF_LIST.findall(one.write)}))
            gone = f"DELETE FROM job AS j USING {one.source} WHERE j.id = w.id AND {one.where} RETURNING j.*{told}"
            write = _OF_LIST.sub(r"j.w_\1", one.write)
            text = f"WITH gone AS ({gone}) {write} FROM gone j"
            returns = ", ".join(one.returns)
        else:
            text = f"{one.write} FROM {one.source} JOIN job j ON j.id = w.id WHERE {one.where} {{lock j}}"
            returns = ", ".join(one.returns)
        return f"{text} RETURNING {returns}" if returns else text

    def _insert(self, one: Insert, now: int | None) -> Asked:
        forms, values = _formed(one, now)
        returning = one.columns[:1] if one.unless_taken else ()
        key = (one.table, one.columns, forms, one.unless_taken)
        return self.kept(key, lambda: self.text(self._inserting(one, forms, returning))), values

    def put(self, one: Insert, now: int | None) -> Asked:
        """Return one statement that inserts jobs and counts them, and with `unless_taken` returns the stored ids."""
        forms, values = _formed(one, now)
        values["jobs"] = len(one.rows)
        key = ("put", one.columns, forms, one.unless_taken)
        return self.kept(key, lambda: self.text(self._putting(one, forms))), values

    def _putting(self, one: Insert, forms: Sequence[str]) -> str:
        into = "INSERT INTO tally (topic, live, done, cancelled, dead)"
        if not one.unless_taken and forms[one.columns.index("topic")] == "one":
            return f"WITH n AS ({self._inserting(one, forms, ())}) {into} VALUES (:topic::int, :jobs::bigint, 0, 0, 0)"
        insert = self._inserting(one, forms, ("id", "topic"))
        count = f"{into} SELECT topic, count(*), 0, 0, 0 FROM n GROUP BY topic"
        return f"WITH n AS ({insert}){f', c AS ({count}) SELECT id FROM n' if one.unless_taken else f' {count}'}"

    def _inserting(self, one: Insert, forms: Sequence[str], returning: tuple[str, ...]) -> str:
        chosen, lists, names = [], [], []
        for name, form in zip(one.columns, forms, strict=True):
            type_ = self.kinds[TYPES[name]].partition(" ")[0]
            if form.startswith("one"):
                value = f":{name}::{type_}"
            else:
                value = f"w.{name}"
                lists.append(f":{name}::{type_}[]")
                names.append(name)
            if form.endswith("later"):
                value = f"{value} + {{now}}"
            elif form == "list mixed":
                lists.append(f":{name}_later::boolean[]")
                names.append(f"{name}_later")
                value = f"{value} + CASE WHEN w.{name}_later THEN {{now}} ELSE 0 END"
            chosen.append(value)
        into = f"INSERT INTO {one.table} ({', '.join(one.columns)})"
        if lists:
            text = f"{into} SELECT {', '.join(chosen)} FROM unnest({', '.join(lists)}) AS w ({', '.join(names)})"
        else:
            text = f"{into} VALUES ({', '.join(chosen)})"
        text += " ON CONFLICT DO NOTHING" if one.unless_taken else ""
        return f"{text} RETURNING {', '.join(returning)}" if returning else text

    def schema(self) -> str:
        return self.named(re.sub(r"\{([a-z]+)\}", lambda match: self.kinds[match[1]], TABLES + MORE + _MORE))


def _formed(one: Insert, now: int | None) -> tuple[tuple[str, ...], dict[str, Any]]:
    """Return the forms of columns, and their values: one for all rows, or a list."""
    if len(one.rows) == 1:
        [row] = one.rows
        return _forms_of(*map(type, row)), {**dict(zip(one.columns, row, strict=True)), "now": now}
    columns = list(zip(*one.rows, strict=True))
    forms = ("list", *map(_form, one.columns[1:], columns[1:]))  # at least one must be a list
    values: dict[str, Any] = {"now": now}
    for name, column, form in zip(one.columns, columns, forms, strict=True):
        if form.startswith("one"):
            values[name] = int(column[0]) if form == "one later" else column[0]
        else:
            values[name] = numbers(column) if is_number(name) else list(column)
        if form == "list mixed":
            values[f"{name}_later"] = numbers(type(value) is Later for value in column)
    return forms, values


@lru_cache(256)
def _forms_of(*kinds: type) -> tuple[str, ...]:
    """Return the forms of the columns of one row."""
    return tuple("one later" if kind is Later else "one" for kind in kinds)


def _form(name: str, column: Sequence[Any]) -> str:
    kinds = set(map(type, column))
    later = "" if Later not in kinds else " later" if len(kinds) == 1 else " mixed"
    alike = len(kinds) == 1 and (is_number(name) or column[0] is None) and column.count(column[0]) == len(column)
    return f"one{later}" if alike else f"list{later}"


def numbers(values: Iterable[int | None]) -> str:
    """Return integers as the text of an array: psycopg would adapt them one by one."""
    return "{" + str(list(values))[1:-1].replace("None", "NULL") + "}"


_MORE: Final = """
ALTER TABLE topic ADD stirred bigint NOT NULL DEFAULT 0;  -- the number of the last pause or resumption, of all topics'
-- For workers behind a pooler, who cannot listen. A crash of the server may take them: then they read all anew.
CREATE UNLOGGED TABLE hint (
    worker text COLLATE "C" NOT NULL,
    payload text NOT NULL
);
CREATE INDEX hint_worker ON hint (worker);
CREATE SEQUENCE id;
CREATE SEQUENCE stir;
CREATE TABLE schema (version int NOT NULL, least int);
INSERT INTO schema VALUES (1, 1);
-- Rows come and go: what they leave behind is to be cleared away early.
ALTER TABLE job SET (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE finished SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE attempt SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);
ALTER TABLE tally SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE member SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);
ALTER TABLE hint SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
"""

"""MySQL's forms of statements. Values are part of the text: one packet then takes many statements, prepared ones not.

So each value has the one form that can be nothing but a value, whatever a server's `sql_mode` and character set: whole
numbers, and hexadecimal. Lists of values are JSON tables. Names may be longer than an index key: they are found by 16
bytes of a hash, and then compared.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from hashlib import sha256
from typing import Any, ClassVar, Final

from ..relational.dialect import MORE, Later, ServerDialect, is_number
from ..sql.dialect import lists_of
from ..sql.rows import TAKEN, listed
from ..sql.schema import TABLES
from ..sql.statement import Batch, Do, Drop, Each, Insert, NewNames, Rows, Select, Statement, WriteJobs

NOW: Final = "(timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(3)) DIV 1000)"
"""The server's time, ms since 1970, at the beginning of a statement."""
MOMENT: Final = "@pywheel_now"
"""One time for all statements of a packet that begins with `SET_MOMENT`."""
SET_MOMENT: Final = f"SET {MOMENT} = {NOW}"
_LONG: Final = 1 << 19  # characters of an INSERT: a server takes a million bytes at least by default

_RESERVED: Final = re.compile(r"(?<![:\w`])(key)\b")
_NAMED: Final = re.compile(r"\b(\w\.)?(name|key|nonce) = (:\w+|w\.\w+)")
_FORGET: Final = re.compile(r"DELETE FROM (\w+) WHERE (\w+) IN \(SELECT \w+ FROM \((.+)\) o\)")
_DROP: Final = re.compile(r"DELETE FROM (\w+) WHERE (id|job) IN \(:ids\)")
_LOCKED: Final = re.compile(r"\bFROM (\w+) j WHERE j\.id IN \(:ids\)")
_IDS: Final = "JSON_TABLE('[:ids]', '$[*]' COLUMNS (id bigint PATH '$')) i"
"""The ids as a table. A server may read a whole table instead of rows by their ids, and then waits for each row that
another session has locked. A join with the ids prevents that."""
_PLANS: Final = (
    (re.compile(r"\b(FROM \w+) j WHERE j\.id (?=IN\b|= )"), r"\1 j FORCE INDEX (PRIMARY) WHERE j.id "),
    (re.compile(r"\b(STRAIGHT_JOIN \w+) (\w) ON (\w\.id = w\.id)"), r"\1 \2 FORCE INDEX (PRIMARY) ON \3"),
    (re.compile(r"\b(STRAIGHT_JOIN \w+) (\w) ON ([^()]*\b\2\.hash = )"), r"\1 \2 FORCE INDEX (hash) ON \3"),
    (re.compile(r"\b(FROM \w+) j (WHERE j\.topic = :topic AND j\.hash = )"), r"\1 j FORCE INDEX (hash) \2"),
    (re.compile(r"\b(FROM \w+) j (WHERE j\.state = \d AND j\.(?:topic|next)\b)"), r"\1 j FORCE INDEX (job_next) \2"),
)
_TAKEN_IDS: Final = "JSON_TABLE(@pywheel_ids, '$[*]' COLUMNS (place FOR ORDINALITY, id bigint PATH '$')) w"
_DUE: Final = """job j WHERE j.state = 0 AND j.topic = :topic AND j.priority = :priority
    AND j.next >= :first AND j.next <= {now}
    AND (SELECT t.paused = 0 AND t.lanes = :lanes FROM topic t WHERE t.id = :topic)"""
# MySQL locks the index entries that it reads, and the job after the last due one: others could not claim, move or
# cancel that job. So the look locks nothing. It looks at more jobs than wanted, as others may have locked the first
# ones. If they have locked all of those, it reports that there are some, and the claim looks once more, with locks. It
# uses SELECT, as SET locks what it reads. In the UPDATE the backoff comes first, and `due` before `next`: an expression
# may see the values that were set before it.
_TAKE: Final = f"""
SELECT count(*), json_arrayagg(c.id ORDER BY c.next, c.id),
    coalesce(max(c.lost), 0) = 0 AND coalesce(sum(c.size), 0) <= :bytes
INTO @pywheel_looked, @pywheel_ids, @pywheel_whole FROM (
    SELECT j.id, j.next, j.lost, length(j.body) AS size
    FROM (SELECT j.id FROM {_DUE} ORDER BY j.next, j.id LIMIT :reach) o
    STRAIGHT_JOIN {_DUE.replace("WHERE", "FORCE INDEX (PRIMARY) ON j.id = o.id WHERE", 1)}
    LIMIT :most FOR UPDATE SKIP LOCKED
) c;
SELECT IF(@pywheel_whole, @pywheel_ids, NULL),
    IF(@pywheel_looked < :most, (SELECT count(*) FROM (SELECT j.id FROM {_DUE} LIMIT :most) r), @pywheel_looked)
INTO @pywheel_ids, @pywheel_looked;
UPDATE {_TAKEN_IDS} STRAIGHT_JOIN job j ON j.id = w.id
SET j.backoff = IF(j.claims + 1 - j.unspent < coalesce(nullif(j.max_attempts, 0), :tries), round(
        json_value('[:delays]', concat('$[', greatest(least(j.claims + 1 - j.unspent, :last), 1) - 1, ']'))
        * (1 + :jitter * {{draw}})
    ), NULL),
    j.state = 1, j.claims = j.claims + 1, j.due = j.next, j.started = {{now}}, j.worker = :worker,
    j.begun = w.place <= :begin,
    j.next = {{now}} + IF(w.place <= :begin, :slack + coalesce(nullif(j.ttr, 0), :ttr), :hold);
SELECT {listed(TAKEN, "j", attempt="j.claims - j.unspent")}
FROM {_TAKEN_IDS} STRAIGHT_JOIN job j ON j.id = w.id
"""
_LEAVE: Final = f" ON DUPLICATE KEY UPDATE id = IF(id = values(id), id + {2**63 - 1}, id)"
"""The end of an INSERT that leaves a job out if its key is taken. If another job has its id, the sum is an error."""
_SERVER: Final = "concat_ws(':', @@hostname, @@port, @@server_id)"
_FILLED: Final = re.compile(r"\b(started bigint|worker int|backoff bigint)")
"""Columns that a claim writes: with values from the beginning, a row does not grow, and pages are not split."""
_SET: Final = re.compile(r"(^|, )([a-z_]+)(?= = )")


class MysqlDialect(ServerDialect):
    """The tables of one store."""

    looked = "@pywheel_looked"

    kinds: ClassVar[Mapping[str, str]] = {
        **ServerDialect.kinds,
        "text": "longtext",
        "name": "mediumtext",
        "bytes": "longblob",
        "binary": "varbinary(800)",
        "serial": "int NOT NULL AUTO_INCREMENT PRIMARY KEY",
        "primary": "NOT NULL PRIMARY KEY",
        "ended": "NOT NULL PRIMARY KEY",
        "row": "seq bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, ",
        "member": "id int NOT NULL AUTO_INCREMENT PRIMARY KEY, name mediumtext NOT NULL",
        "session": "server varbinary(400)",  # where its session holds the lock named after it
    }
    lock = "FOR UPDATE"
    skip = "FOR UPDATE SKIP LOCKED"
    then = "STRAIGHT_JOIN"
    bytes_in_lists = 1 << 17

    database = "lower(database())"  # servers differ in its case
    durability = "IF(@@innodb_flush_log_at_trx_commit = 1, 'fsync', 'everysec')"
    room = (
        "SELECT version(), cast(sum(data_length) AS signed), cast(sum(index_length) AS signed) "
        "FROM information_schema.tables WHERE table_schema = database() AND find_in_set(table_name, :tables)"
    )
    snapshot = (Do("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"), Do("START TRANSACTION READ ONLY"))
    alone = (Do("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"), Do("START TRANSACTION"))  # reads lock
    fold = f"""
        BEGIN;
        SELECT json_arrayagg(seq) INTO @pywheel_ids
        FROM (SELECT seq FROM tally ORDER BY seq LIMIT 2000 FOR UPDATE SKIP LOCKED) c;
        INSERT INTO tally (topic, live, done, cancelled, dead)
        SELECT t.topic, sum(t.live), sum(t.done), sum(t.cancelled), sum(t.dead)
        FROM {_TAKEN_IDS} STRAIGHT_JOIN tally t FORCE INDEX (PRIMARY) ON t.seq = w.id GROUP BY t.topic;
        DELETE t FROM {_TAKEN_IDS} STRAIGHT_JOIN tally t FORCE INDEX (PRIMARY) ON t.seq = w.id;
        COMMIT
    """
    session: ClassVar[dict[str, str]] = {"server": _SERVER}
    known_by = "hash"
    leftovers = (Do(f"DELETE FROM request WHERE at < {NOW} - 86400000 LIMIT 10000"),)

    def __init__(self, tables: str) -> None:
        super().__init__(tables)
        self.last_id = "(SELECT value FROM number WHERE name = 'id')"
        # Named locks are the server's, not the database's.
        lock = f"concat('pywheel.', left(sha2(concat(database(), '.{tables}'), 256), 16), '.', hex({{}}))"
        self.listen = f"SELECT get_lock({lock.format(':me')}, 0)"
        """The statement that takes the lock named after a worker."""
        self.gone = f"IF(w.server = {_SERVER}, is_used_lock({lock.format('w.hash')}) IS NULL, 0)"
        self.returning = False
        """Whether an INSERT can return the rows that it wrote, as MariaDB's does."""

    @property
    def take(self) -> str:  # type: ignore[override]
        """Return the statement that claims due jobs, on MariaDB."""
        return _TAKE if self.returning else ""

    def named(self, text: str) -> str:
        """Return SQL with the tables' real names, as a format for literals."""
        text = _FORGET.sub(r"DELETE t FROM (\3 FOR UPDATE SKIP LOCKED) o STRAIGHT_JOIN \1 t ON t.\2 = o.\2", text)
        text = _DROP.sub(rf"DELETE t FROM {_IDS} STRAIGHT_JOIN \1 t FORCE INDEX (PRIMARY) ON t.\2 = i.id", text)
        if self.lock in text:
            text = _LOCKED.sub(rf"FROM {_IDS} STRAIGHT_JOIN \1 j FORCE INDEX (PRIMARY) ON j.id = i.id WHERE true", text)
        text = text.replace("j.passed = 0", "j.spare = 0")  # the index has this column
        text = _NAMED.sub(_by_hash, text)
        for found, forced in _PLANS:
            text = found.sub(forced, text)
        return super().named(_RESERVED.sub(r"`\1`", text))

    def now(self) -> str:
        """Return the time of the packet; a test's clock comes with each statement."""
        return ":now"

    def source(self, name: str, columns: Sequence[str]) -> str:
        """Return rows of a JSON text."""
        paths = ", ".join(
            f"{column} {'bigint' if is_number(column) else 'longtext CHARACTER SET utf8mb4'} PATH '$[{place}]'"
            for place, column in enumerate(columns)
        )
        return f"JSON_TABLE(:{name}, '$[*]' COLUMNS ({paths})) {name}"

    def among(self, name: str) -> str:
        return f"IN (:{name})"

    def instead(self, key: str, columns: Sequence[str]) -> str:  # noqa: ARG002
        """Return the end of an INSERT that overwrites. MariaDB has only values(), which MySQL deprecates."""
        return f"ON DUPLICATE KEY UPDATE {', '.join(f'{one} = values({one})' for one in columns)}"

    @property
    def pausing(self) -> str:
        """Return the statements that pause or resume a topic, and give the change a number."""
        stir = "UPDATE number SET value = last_insert_id(value + 1) WHERE name = 'stir'"
        return f"{stir};UPDATE topic SET paused = :paused, stirred = last_insert_id() WHERE id = :topic"

    def draw(self) -> str:
        return "(2 * rand() - 1)"

    def raise_ids(self, table: str) -> str:
        highest = f"greatest(value, (SELECT coalesce(max(id), 0) FROM {table}))"
        return f"UPDATE number SET value = {highest} WHERE name = 'id'"

    # ---- forms ------------------------------------------------------------------------------------------------------

    def texts(self, batch: Batch, now: int | None) -> tuple[list[str], list[int | None]]:
        """Return the texts to send, and for each statement the place of its rows in the answer, None without rows."""
        moment = MOMENT if now is None else str(now)
        texts: list[str] = []
        places: list[int | None] = []
        for one in batch:
            some, place = self._said(one, moment)
            places.append(None if place is None else len(texts) + place)
            texts += some
        if now is None and len(texts) == 1:
            texts[0] = texts[0].replace(MOMENT, NOW)
        elif now is None and any(MOMENT in text for text in texts):
            texts.insert(0, SET_MOMENT)
            places = [None if place is None else place + 1 for place in places]
        return texts, places

    def _said(self, one: Statement, moment: str) -> tuple[list[str], int | None]:
        """Return the texts of a statement, and the place of the one that gives its rows."""
        if isinstance(one, Insert):
            return self._insert(one, moment)
        if isinstance(one, WriteJobs):
            return self._change(one, moment)
        if isinstance(one, Drop):
            finished = f"{_IDS} {{then}} finished f FORCE INDEX (PRIMARY) ON f.id = i.id"
            text = f"DELETE j FROM {finished} {{then}} job j FORCE INDEX (PRIMARY) ON j.id = f.id"
            return ([self.text(text) % {"ids": literal(one.ids)}] if one.ids else []), None
        if isinstance(one, NewNames):
            rows = ",".join(f"({literal(name)})" for name in sorted(one.names))
            return [self.text(f"INSERT IGNORE INTO {one.table} (name) VALUES ") + rows], None
        if isinstance(one, Each):
            text = self.text(one.text)
            return [text % self._bound(one.text, values, moment) for values in one.values], None
        text = self.text(one.text) % self._bound(one.text, one.values, moment)
        if not isinstance(one, Select | Rows):
            return text.split(";"), None
        texts = text.split(";\n")
        return texts, len(texts) - 1

    def _bound(self, text: str, values: Mapping[str, Any], moment: str) -> dict[str, str]:
        """Return the values of a statement as literals."""
        lists = self.kept(("lists", text), lambda: lists_of(text))
        bound = {name: _in_json(value) if name in lists else literal(value) for name, value in values.items()}
        bound["now"] = moment
        return bound

    def _change(self, one: WriteJobs, moment: str) -> tuple[list[str], int | None]:
        look, write = self.kept((one.write, one.source, one.where, self.returning), lambda: self._changed(one))
        bound = self._bound(one.source, one.values, moment)
        texts = [text % bound for text in (look, write) if text]
        return texts, 0 if one.returns else None

    def _changed(self, one: WriteJobs) -> tuple[str, str]:
        """Return the statement that locks and reads, "" if the other does that, and the one that writes."""
        joined = f"FROM {one.source} {{then}} job j ON j.id = w.id WHERE {one.where} FOR UPDATE"
        look = ""
        if one.write.startswith("UPDATE job SET "):
            values = _SET.sub(r"\1j.\2", one.write.removeprefix("UPDATE job SET "))
            write = f"UPDATE {one.source} {{then}} job j ON j.id = w.id SET {values} WHERE {one.where}"
        else:
            write = f"{one.write} {joined}".replace("w.result", "from_base64(w.result)")
            if one.returns and self.returning:
                return "", self.text(f"{write} RETURNING {', '.join(one.returns)}")
        if one.returns:
            look = f"SELECT {', '.join(one.returns.values())} {joined}"
        return look and self.text(look), self.text(write)

    def _insert(self, one: Insert, moment: str) -> tuple[list[str], int | None]:
        """Return INSERTs. A job whose key is taken is left out; in other tables a row that is there is a conflict."""
        if not one.rows:
            return [], None
        texts = list(self.inserts(one, moment))
        if not one.unless_taken:
            return texts, None
        [chosen] = one.columns[:1]
        if one.table == "job":
            texts.append(
                self.text(f"SELECT {chosen} FROM {one.table} j WHERE j.id IN (:ids)")
                % {"ids": literal([row[0] for row in one.rows])}
            )
        else:
            texts.append(" UNION ALL ".join(f"SELECT {literal(row[0])}" for row in one.rows))
        return texts, len(texts) - 1

    def inserts(self, one: Insert, moment: str, *, plain: bool = False) -> Iterator[str]:
        """Yield INSERTs of rows, in parts short enough for one statement; `plain`: a row that is there is an error."""
        into = self.text(f"INSERT INTO {one.table} ({', '.join(one.columns)}) VALUES ") % ()
        end = _LEAVE if one.unless_taken and one.table == "job" and not plain else ""
        for some in in_parts(one.rows, moment):
            yield f"{into}{some}{end}"

    def counting(self, one: Insert) -> list[str]:
        """Return the statement that counts jobs that were put."""
        counts = sorted(Counter([row[1] for row in one.rows]).items())
        into = self.text("INSERT INTO tally (topic, live, done, cancelled, dead) VALUES ")
        return [into + ",".join(f"({topic},{jobs},0,0,0)" for topic, jobs in counts)]

    def counting_those_there(self, one: Insert) -> list[str]:
        """Return a statement that counts the stored jobs among some, and one that returns their ids."""
        some = "FROM job j WHERE j.id IN (:ids)"
        into = "INSERT INTO tally (topic, live, done, cancelled, dead)"
        texts = f"{into} SELECT j.topic, count(*), 0, 0, 0 {some} GROUP BY j.topic", f"SELECT j.id {some}"
        ids = {"ids": literal([row[0] for row in one.rows])}
        return [self.text(text) % ids for text in texts]

    # ---- tables -----------------------------------------------------------------------------------------------------

    def schema(self) -> str:
        """Return the script that creates the tables. Each statement may be run again; each table has ``{options}``."""
        text = re.sub(r" *--.*", "", TABLES + MORE + _MORE)
        indexes: dict[str, list[str]] = {}
        for name, table, columns in re.findall(r"CREATE INDEX (\w+) ON (\w+) \((.*?)\)", text):
            if not columns.startswith("topic, key"):
                indexes.setdefault(table, []).append(f"KEY {name} ({columns})")
        statements = []
        for table, columns in re.findall(r"CREATE TABLE (\w+) \(\n(.*?)\n\)", text, re.DOTALL):
            body = re.sub(r"\{([a-z]+)\}", lambda match: self.kinds[match[1]], columns.replace(" UNIQUE", ""))
            if table == "job":
                body = _FILLED.sub(r"\1 DEFAULT 0", body)
            more = [*_HASHES.get(table, ()), *indexes.get(table, ())]
            body = _RESERVED.sub(r"`\1`", ",\n    ".join([body, *more]))
            statements.append(f"CREATE TABLE IF NOT EXISTS {self.tables}{table} (\n{body}\n) {{options}}")
        statements.append(f"INSERT IGNORE INTO {self.tables}number (name, value) VALUES ('id', 0), ('stir', 0)")
        return "".join(f"{statement};\n\n" for statement in statements)


def _by_hash(match: re.Match[str]) -> str:
    of, column, value = match[1] or "", match[2], match[3]
    equal = f"{value} COLLATE utf8mb4_bin" if value.startswith("w.") else value
    return f"{of}hash = {_hash_of(value)} AND {of}{column} = {equal}"


def _hash_of(value: str) -> str:
    return f"unhex(left(sha2({value}, 256), 32))"


def hashed(name: str) -> bytes:
    """Return the bytes by which a name is found."""
    return sha256(name.encode()).digest()[:16]


def _in_json(rows: Sequence[Sequence[Any]]) -> str:
    """Return rows as JSON in hexadecimal, from which MariaDB makes a table faster than from a text."""
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"), default=_in_base64)
    return f"_utf8mb4 x'{text.encode().hex()}'"


def _in_base64(value: bytes) -> str:
    return b2a_base64(value, newline=False).decode()


# ---- literals -------------------------------------------------------------------------------------------------------


def literal(value: Any, moment: str = "") -> str:
    """Return a value as a literal; a sequence of numbers as a list."""
    kind = type(value)
    if kind is int:
        return str(value)
    if value is None:
        return "NULL"
    if kind is bytes:
        return f"x'{value.hex()}'" if value else "''"
    if kind is Later:
        return f"{moment}+{int(value)}" if value else moment
    if kind is str:
        return f"_utf8mb4 x'{value.encode().hex()}'" if value else "_utf8mb4''"
    if kind is bool or isinstance(value, IntEnum):
        return str(int(value))
    if kind is float:
        return repr(value)
    return str(list(value))[1:-1] or "null"  # null is valid in JSON as well


def in_parts(rows: Iterable[Sequence[Any]], moment: str) -> Iterator[str]:
    """Yield rows for VALUES, in parts short enough for one statement."""
    columns = [_column(column, moment) for column in zip(*rows, strict=True)]
    for some in parted(map(",".join, zip(*columns, strict=True)), _LONG, "),("):
        yield f"({some})"


def parted(texts: Iterable[str], most: int, between: str) -> Iterator[str]:
    """Yield texts joined, as many as fit into `most` characters each: mostly all of them at once."""
    texts = list(texts)
    if sum(map(len, texts)) + len(texts) * len(between) <= most:
        if texts:
            yield between.join(texts)
        return
    some: list[str] = []
    size = 0
    for text in texts:
        if some and size + len(text) > most:
            yield between.join(some)
            some, size = [], 0
        some.append(text)
        size += len(text) + len(between)
    if some:
        yield between.join(some)


def _column(values: Sequence[Any], moment: str) -> list[str]:
    """Return the values of a column as literals. The usual types need no call for each value."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return list(map(str, values))
    if kinds == {bytes}:
        return [f"x'{value.hex()}'" if value else "''" for value in values]
    if kinds == {Later}:
        return [f"{moment}+{value!r}" for value in values] if any(values) else [moment] * len(values)
    return [literal(value, moment) for value in values]


_HASH: Final = f"hash binary(16) GENERATED ALWAYS AS ({_hash_of('{}')}) STORED"
_NAME: Final = [_HASH.format("name"), "UNIQUE KEY hash (hash)"]
_HASHES: Final[Mapping[str, Sequence[str]]] = {
    "topic": [*_NAME, "stirred bigint NOT NULL DEFAULT 0"],
    "worker": _NAME,
    "member": _NAME,
    "nonce": [_HASH.format("nonce"), "UNIQUE KEY hash (hash)"],
    # Only one live job keeps a key: in all others `spare` differs.
    "job": [
        _HASH.format("key"),
        "spare bigint GENERATED ALWAYS AS (CASE WHEN passed = 0 THEN 0 ELSE id END) STORED",
        "UNIQUE KEY hash (topic, hash, spare)",
    ],
    "finished": [_HASH.format("key"), "KEY hash (topic, hash, id)"],
}
"""The hash columns and indexes of names, by table."""
_MORE: Final = """
-- What workers are told: a job; 0 to read all again; -1 to look who is there. Rings are told apart by their numbers.
CREATE TABLE hint (
    worker binary(16) NOT NULL,
    ring bigint NOT NULL,
    job bigint NOT NULL,
    PRIMARY KEY (worker, ring, job)
);
-- The transactions of each client of late: one whose connection broke in its commit is looked for here.
CREATE TABLE request (
    client binary(16) NOT NULL,
    number bigint NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (client, number)
);
CREATE TABLE number (
    name varchar(8) CHARACTER SET ascii NOT NULL PRIMARY KEY,
    value bigint NOT NULL
);
"""

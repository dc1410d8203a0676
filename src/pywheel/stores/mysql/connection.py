"""Connections to MySQL and MariaDB. Every wait for an answer has a limit, and every error is one of pywheel's."""

from __future__ import annotations

import math
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from struct import Struct
from typing import Any, Final

import pymysql
from pymysql.connections import TEXT_TYPES, MySQLResult
from pymysql.constants import CLIENT, COMMAND, FIELD_TYPE, SERVER_STATUS

from ..._errors import BadJob, NotAStore, PywheelError, StoreAway, StoreBusy, StoreError, StoreFull, StoreReadOnly
from ...jobs.handler import MOST_AT_ONCE
from ..relational.session import Conflict, MetLock
from .dialect import parted

_OLDEST: Final = {"MariaDB": (10, 6), "MySQL": (8, 0)}
_CONNECT: Final = 5.0  # seconds to wait for a connection
_ROOM: Final = 1_024  # bytes of a packet that are not its statements
_SHORT: Final = 1 << 15  # bytes of statements that are faster as one: of longer ones the server keeps another copy
_IDLE: Final = 3  # seconds that a transaction may wait for its next statement
_LISTED: Final = 2 * MOST_AT_ONCE * 20  # bytes of a list of ids; a worker claims a buffer besides what runs at once
_ALL: Final = 2**64 - 1  # rows; DEFAULT would be what the server begins sessions with
_LOCKS: Final = 2  # seconds to wait for one lock: then the transaction begins anew
_NULL: Final = 0xFB
_WIDTHS: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}
_COLUMN: Final = Struct("<xHIB")  # character set, length, type
_BINARY: Final = 63
_INTS: Final = (FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.INT24)


class AlreadyThere(Conflict):
    """A row with this key is there already."""

    @property
    def primary(self) -> bool:
        """Whether the key is the primary one."""
        return "PRIMARY" in str(self.__cause__)


class LockWait(MetLock, Conflict):
    """Another transaction has held a lock for too long."""


class Interrupted(StoreBusy):
    """Another session ended a statement by KILL QUERY."""


_Given = Sequence[Sequence[Any]]
_Column = tuple[str | None, type[int] | None]  # the encoding, None for bytes; int for whole numbers
_COLUMNS: Final[dict[bytes, _Column]] = {}
_MOST_COLUMNS: Final = 1_000  # queries repeat: their columns are mostly the same


def _column(said: bytes) -> _Column:
    """Return the encoding and type of a column, from the server's description; that starts with six texts."""
    at = 0
    for _ in range(6):
        size = said[at]
        at += 1 + size if size < _NULL else 3 + int.from_bytes(said[at + 1 : at + 3], "little")
    charset, _, kind = _COLUMN.unpack_from(said, at)
    return None if kind in TEXT_TYPES and charset == _BINARY else "utf8", int if kind in _INTS else None


class _Rows(MySQLResult):
    """The rows of an answer, read without PyMySQL's calls for each value: a drain takes a third less time.

    Descriptions of columns are cached: a worker's step takes a tenth less.
    """

    def _get_descriptions(self) -> None:
        assert self.connection is not None
        read: Any = self.connection._read_packet
        self.converters = []
        for _ in range(self.field_count):
            said = read().get_all_data()
            found = _COLUMNS.get(said)
            if found is None:
                found = _column(said)
                if len(_COLUMNS) < _MOST_COLUMNS:
                    _COLUMNS[said] = found
            self.converters.append(found)
        read()  # the packet that ends the descriptions
        self.description = ()

    def _read_row_from_packet(self, packet: Any) -> tuple[Any, ...]:
        data: bytes = packet.get_all_data()
        row: list[Any] = []
        at = 0
        for encoding, converter in self.converters:
            size = data[at]
            at += 1
            if size == _NULL:
                row.append(None)
                continue
            if size > _NULL:  # the size is in the next bytes
                width = _WIDTHS[size]
                size = int.from_bytes(data[at : at + width], "little")
                at += width
            value = data[at : at + size]
            at += size
            row.append(int(value) if converter is int else value if encoding is None else value.decode(encoding))
        return tuple(row)


class Timed(pymysql.Connection):
    """A connection that is closed if an answer does not come in time: the server may be stopped, or cut off."""

    _result: Any
    _sock: Any
    _execute_command: Any
    _force_close: Any
    until: float = math.inf
    packet: int = 1 << 20  # bytes that the server takes at once
    mariadb = False
    _asking = False

    def connect(self, sock: socket.socket | None = None) -> None:
        """Connect. NotAStore if a package is missing. PyMySQL would leak a Unix socket that nobody listens to."""
        with ExitStack() as failed:
            if sock is None and self.unix_socket:
                sock = failed.enter_context(socket.socket(socket.AF_UNIX))
                sock.settimeout(self.connect_timeout)
                sock.connect(self.unix_socket)
                self.host_info = "Localhost via UNIX socket"
                self._secure = True  # as in PyMySQL: a password may be sent
            try:
                super().connect(sock)
            except RuntimeError as error:  # without TLS, MySQL's passwords are sent encrypted only
                raise NotAStore(f"{error}: pip install cryptography, or connect by TLS") from error
            failed.pop_all()

    def _read_query_result(self, unbuffered: bool = False) -> int:  # noqa: ARG002
        self._result = None
        result: Any = _Rows(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return int(result.affected_rows)

    def ask(self, statements: Sequence[str]) -> list[_Given]:
        """Run statements in order, in one trip if they fit; return the rows of each. None runs after one that fails."""
        results: list[_Given] = []
        packets = list(self._packets(statements))
        self._asking = True
        try:
            for text in packets:
                self._limit()
                self.query(text)
                results.append(self._given())
                while self._result.has_next:
                    self.next_result()
                    results.append(self._given())
        except pymysql.Error:  # the server's last answer to these statements
            self._asking = False
            raise
        self._asking = False
        return results

    def one(self, statements: Sequence[str]) -> _Given:
        """Run statements, of which at most one returns rows; return its rows.

        MariaDB gets short ones as one statement: that spares an answer for each, half of a put's time here.
        """
        if self.mariadb and len(statements) > 1 and sum(map(len, statements)) < _SHORT:
            statements = [f"BEGIN NOT ATOMIC {';'.join(statements)}; END"]
        return next((rows for rows in reversed(self.ask(statements)) if rows), ())

    @property
    def ready(self) -> bool:
        """Whether nothing is under way: no answer, which an interrupt may have cut short, and no transaction."""
        return self.open and not self._asking and not self.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS

    def send(self, statement: str) -> None:
        """Send a statement without waiting for its result."""
        self._limit()
        self._execute_command(COMMAND.COM_QUERY, statement.encode())

    def receive(self) -> _Given:
        """Return the rows of the statement sent."""
        self._limit()
        self.next_result()
        return self._given()

    def end(self) -> None:
        """Close the connection without a farewell, as its state is unknown."""
        self._force_close()

    def roll_back(self) -> None:
        """Roll back; close the connection if that fails, or if an answer is still on its way."""
        try:
            if self._asking:
                self.end()
            else:
                self.ask(["ROLLBACK"])
        except (pymysql.Error, StoreError, OSError):
            self.end()

    def fileno(self) -> int:
        """Return the descriptor on which answers come."""
        return int(self._sock.fileno())

    def _limit(self) -> None:
        left = min(max(self.until - time.monotonic(), 0.001), 1e6)
        # Rounded to quarters of a second: mostly the same value, so that the socket need not be set, which takes long.
        self._read_timeout = self._write_timeout = left if left < 1 else math.ceil(4 * left) / 4

    def _given(self) -> _Given:
        return self._result.rows or ()

    def _packets(self, statements: Sequence[str]) -> Iterator[str]:
        most = self.packet - _ROOM
        for statement in statements:
            if len(statement) > most:
                raise BadJob(
                    f"a job takes {len(statement):,} bytes on its way to a server that takes {self.packet:,}: "
                    "let max_allowed_packet be larger there"
                )
        return parted(statements, most, ";")


def connect(until: float, **options: Any) -> Timed:
    """Return a new connection. StoreAway, NotAStore."""
    left = max(min(until - time.monotonic(), _CONNECT), 1)
    connection = Timed(
        **options,
        charset="utf8mb4",
        autocommit=None,  # the server's setting at first; the one below follows
        connect_timeout=math.ceil(left),
        read_timeout=math.ceil(left),
        write_timeout=math.ceil(left),
        client_flag=CLIENT.MULTI_STATEMENTS,
        conv=dict.fromkeys(_INTS, int),
    )
    connection.until = until
    try:
        version = str(connection.get_server_info())  # type: ignore[no-untyped-call]
        _check_version(version)
        connection.mariadb = "MariaDB" in version
        lists = "in_predicate_conversion_threshold" if connection.mariadb else "range_optimizer_max_mem_size"
        # Long lists of ids stay ranges of the primary key, read and locked in its order.
        settings = f"sql_mode = 'STRICT_ALL_TABLES', innodb_lock_wait_timeout = {_LOCKS}, {lists} = 0"
        # A list that is cut names other jobs; and a DBA may have limits for people who type.
        settings += f", group_concat_max_len = {_LISTED}, sql_select_limit = {_ALL}, sql_safe_updates = 0"
        if connection.mariadb:  # a client that is stopped or cut off in a transaction keeps its locks no longer
            settings += f", idle_transaction_timeout = {_IDLE}"
        *_, [[connection.packet]] = connection.ask(
            [
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                f"SET SESSION autocommit = 1, completion_type = 0, {settings}",
                "SELECT @@max_allowed_packet",
            ]
        )
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(said: str) -> None:
    """Refuse a server that is too old. MariaDB may put 5.5.5- before its own version."""
    kind = "MariaDB" if "MariaDB" in said else "MySQL"
    found = re.match(r"(?:5\.5\.5-)?([0-9]+)\.([0-9]+)", said)
    if found and (int(found[1]), int(found[2])) < _OLDEST[kind]:
        raise NotAStore(f"this is {kind} {found[1]}.{found[2]}: the store needs MySQL 8.0 or MariaDB 10.6")


_AWAY: Final = "is the server up, and the address right?"
_SAYINGS: Final[tuple[tuple[str, type[PywheelError], str], ...]] = (
    ("1213 1690", Conflict, "others changed the same all the time: try again"),
    ("1205", LockWait, "others changed the same all the time: try again"),
    ("1062", AlreadyThere, "others changed the same all the time: try again"),
    ("1317", Interrupted, "somebody ended it by KILL QUERY: try again"),
    ("1045 1698 1251 2059 1862 1820 3118 4151", NotAStore, "give the right user and password, in the address"),
    ("1130", NotAStore, "let the user come from this host"),
    ("1049 1046", NotAStore, "create the database, or give another"),
    ("1044 1142 1143 1227 1370 1095", StoreReadOnly, "grant what docs/stores-mysql.md lists"),
    ("1290 1792 1836 4105", StoreReadOnly, "this is a replica, or read-only: give the primary's address"),
    ("1114 1021 1041 1037 1038", StoreFull, "make room on the server"),
    ("1040 1203 1226", StoreBusy, "let max_connections be larger on the server, or begin fewer workers"),
    ("3024 1969 3572", StoreBusy, "try again"),
    ("1146 1054", NotAStore, "run `pywheel migrate`"),
    ("1153 2020 1301", BadJob, "let max_allowed_packet be larger on the server"),
    ("1264 1366 1406 1118", BadJob, "the server does not take it"),
    ("1665", NotAStore, "let binlog_format be ROW or MIXED on the server"),
    ("1053 1077 1079 1152 1158 1159 1160 1161 1184 1927 1129", StoreAway, _AWAY),
)
_KINDS: Final = {int(number): (kind, todo) for numbers, kind, todo in _SAYINGS for number in numbers.split()}
_FULL: Final = re.compile(r"errno: 28|error 28|No space left|error: 168|Disk full", re.IGNORECASE)


def meaning(error: pymysql.Error, hide: Callable[[object], str]) -> tuple[type[PywheelError], str, str]:
    """Return the pywheel error for a driver's error, its message, and the advice. `hide` takes passwords out."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    said = hide(error.args[-1] if error.args else type(error).__name__) or type(error).__name__
    if _FULL.search(said):
        return StoreFull, said, "make room on the server"
    # Errors with the driver's numbers, or with none, come from the connection.
    of_server = 1_000 <= number < 2_000 or not isinstance(error, pymysql.OperationalError | pymysql.InterfaceError)
    kind, todo = _KINDS.get(number, (StoreError, "") if of_server else (StoreAway, _AWAY))
    return kind, said, todo

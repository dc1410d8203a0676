"""Statements that go to the server together, each prepared at its first use.

They are sent by libpq's own calls: a cursor of psycopg takes five times as long for a short statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any, Final

import psycopg
from psycopg import generators
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import PQGen  # type: ignore[attr-defined]
from psycopg.postgres import register_default_adapters
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

Asked = tuple[str, Mapping[str, Any]]
"""A statement, with ``%(name)s`` for values, ``%(name)b`` for values sent as they are, and the values."""
Row = tuple[Any, ...]
_Key = tuple[str, tuple[int, ...]]  # a statement, and the types of its values
_Bound = tuple[_Key, Sequence[Any], Sequence[Format]]  # with the values, and their formats

ADAPTERS: Final = AdaptersMap(psycopg.adapters)
"""Psycopg's own loaders and dumpers, whatever others a program registers for all its connections."""
register_default_adapters(ADAPTERS)

_VALUE: Final = re.compile(r"%\((\w+)\)([sb])|%%")
_FORMATS: Final = {"s": PyFormat.AUTO, "b": PyFormat.BINARY}
_MOST: Final = 200  # statements that a session keeps prepared
_FAILED: Final = frozenset({ExecStatus.FATAL_ERROR, ExecStatus.PIPELINE_ABORTED})
# Errors of a prepared statement whose columns have other types by now, or that somebody has dropped.
_OUTDATED: Final = (psycopg.errors.FeatureNotSupported, psycopg.errors.InvalidSqlStatementName)


class Pipeline:
    """Sends statements on a connection, and reads their results."""

    def __init__(self, pgconn: PGconn, *, prepares: bool) -> None:
        self._pgconn = pgconn
        self._prepares = prepares
        self._names: dict[_Key | None, bytes] = {}  # of prepared statements
        self._numbers = count(1)
        self._adapter = Transformer(ADAPTERS)

    def answers(self, statements: Sequence[Asked]) -> PQGen[list[list[Row]]]:
        """Send statements; return the rows of each. None runs after one that fails, whose error this raises."""
        return self._answers([self._bound(*asked) for asked in statements])

    def _bound(self, text: str, values: Mapping[str, Any]) -> _Bound:
        text, names, formats = numbered(text)
        adapter = self._adapter
        dumped = adapter.dump_sequence([values[name] for name in names], formats)
        return (text, adapter.types or ()), dumped, adapter.formats or ()

    def _answers(self, statements: Sequence[_Bound]) -> PQGen[list[list[Row]]]:
        pgconn = self._pgconn
        sent: list[_Key | None] = []
        results: list[PGresult] = []
        pgconn.enter_pipeline_mode()
        try:
            for one in statements:
                sent += self._sent(*one)
            pgconn.pipeline_sync()
            yield from generators.send(pgconn)
            yield from self._read(results)
        except psycopg.OperationalError:
            if all(result.status != ExecStatus.FATAL_ERROR for result in results):
                raise  # else the server has said why it closed the connection
        finally:
            with suppress(psycopg.Error):  # it broke, or an interrupt came before all was read: then it is closed
                pgconn.exit_pipeline_mode()
        failed = [place for place, result in enumerate(results) if result.status in _FAILED]
        if failed:
            for key in sent[failed[0] :]:
                self._names.pop(key, b"")  # it was not prepared
            error = error_from_result(results[failed[0]])
            if isinstance(error, _OUTDATED):
                self._names.clear()
            raise error
        return [self._rows(result) for key, result in zip(sent, results, strict=False) if key is None]

    def _sent(self, key: _Key, values: Sequence[Any], formats: Sequence[Format]) -> tuple[_Key | None, ...]:
        """Send a statement; return for each coming result the statement that it prepares, None for rows."""
        text, types = key
        name = self._names.get(key)
        if name is not None:
            self._pgconn.send_query_prepared(name, values, formats, Format.BINARY)
            return (None,)
        if not self._prepares or len(self._names) >= _MOST:
            self._pgconn.send_query_params(text.encode(), values, types, formats, Format.BINARY)
            return (None,)
        name = self._names[key] = b"pywheel_%d" % next(self._numbers)
        self._pgconn.send_prepare(name, text.encode(), types)
        self._pgconn.send_query_prepared(name, values, formats, Format.BINARY)
        return (key, None)

    def _read(self, results: list[PGresult]) -> PQGen[None]:
        """Read all results, up to that of the sync."""
        while not results or results[-1].status != ExecStatus.PIPELINE_SYNC:
            some = yield from generators.fetch_many(self._pgconn)
            if not some:
                raise psycopg.OperationalError("the connection was lost")
            results += some

    def _rows(self, result: PGresult) -> list[Row]:
        if result.status != ExecStatus.TUPLES_OK:
            return []
        self._adapter.set_pgresult(result)
        return self._adapter.load_rows(0, result.ntuples, tuple)


@lru_cache(1_024)
def numbered(text: str) -> tuple[str, tuple[str, ...], tuple[PyFormat, ...]]:
    """Return a statement with ``$1`` for its first value, the names of all values, and their formats."""
    names: dict[str, PyFormat] = {}

    def number(match: re.Match[str]) -> str:
        if match[1] is None:
            return "%"
        names.setdefault(match[1], _FORMATS[match[2]])
        return f"${[*names].index(match[1]) + 1}"

    text = _VALUE.sub(number, text)
    return text, tuple(names), tuple(names.values())

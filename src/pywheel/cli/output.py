"""What the commands print: tables for people, JSON for programs, errors in one line."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..jobs.job import Attempt, Job

__all__ = ["attempt_record", "emit", "fail", "job_record", "short_body", "table", "when"]

_LONGEST = 60  # characters of a body in a table


def emit(value: Any, *, as_json: bool, text: str | Table) -> None:
    """Print a value as JSON, or a text or table that says the same."""
    if as_json:
        print(json.dumps(value, ensure_ascii=True))
    elif isinstance(text, Table):
        Console(highlight=False).print(text)
    else:
        print(text)


def fail(message: str) -> None:
    """Print an error in one line."""
    print(f"pywheel: {' '.join(message.split())}", file=sys.stderr)


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    """Return a table; nothing in it is taken as markup."""
    result = Table(*titles, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        result.add_row(*(Text(_printable(str(cell))) for cell in row))
    return result


def when(milliseconds: int | None) -> str:
    """Return a time as ISO 8601 in UTC."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # beyond the year 9999
        return f"{milliseconds} ms"


def job_record(job: Job) -> dict[str, Any]:
    """Return a job as JSON can say it; a body that is no UTF-8 goes as base64."""
    record: dict[str, Any] = job._asdict()
    del record["body"]
    try:
        record["body"] = job.body.decode()
    except UnicodeDecodeError:
        record["body_base64"] = base64.b64encode(job.body).decode()
    return {**record, "trace_id": job.trace_id}


def attempt_record(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt as JSON can say it."""
    return attempt._asdict()


def short_body(job: Job) -> str:
    """Return the beginning of a body."""
    text = job.body[: 4 * _LONGEST].decode("utf-8", "replace")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _printable(text: str) -> str:
    """Return a text without characters that would move the cursor."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)

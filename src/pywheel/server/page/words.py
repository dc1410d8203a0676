"""Times, durations, numbers and bodies in readable form."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from markupsafe import Markup

from ...jobs.bodies import is_encrypted
from ...jobs.job import Job
from ..api.records import moment_out

NOTHING: Final = "\N{EN DASH}"  # the text for a missing figure
_NARROW: Final = "\u202f"  # no-break: 12 431
_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))


def _unless_a_word(found: re.Match[str]) -> str:
    """Return the placeholder of an id; a long word without a digit is none."""
    return "…" if any(map(str.isdigit, found[0])) else found[0]


_SHAPES: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"0x[0-9a-fA-F]+"), "0x…"),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "…"),
    (re.compile(r"\b[0-9a-zA-Z_-]{16,}\b"), _unless_a_word),  # looks at each character once, however long the word
    (re.compile(r"[0-9]+(?:[.,:][0-9]+)*"), "#"),
)
_GROUP: Final = 200  # characters by which errors are grouped
_NO_ERROR: Final = "no error was given"
_MOST: Final = 64 << 10  # bytes of a body that are shown
_HEX: Final = 4 << 10
_JSON: Final = 1 << 20  # bytes up to which a body is read as JSON
_BEGINNING: Final = 10_000  # bytes that decide whether a body without JSON is text


def number(value: int) -> str:
    """Return a number with narrow spaces: 12 431."""
    return f"{value:,}".replace(",", _NARROW)


def pace(value: float | None) -> str:
    """Return jobs a second, with as many digits as are known."""
    if value is None:
        return NOTHING
    if value == 0:
        return "0"
    if value < 10:
        return f"{value:.1f}"
    return number(round(value))


def late(value: int | None) -> str:
    """Return a lateness, to the ms below a second."""
    if value is None:
        return NOTHING
    return f"{value}{_NARROW}ms" if value < 1_000 else length(value)


def length(value: int) -> str:
    """Return a duration in ms by its two largest units: 1 h 5 min."""
    if value < 1_000:
        return f"{value}{_NARROW}ms"
    if value < 10_000:
        return f"{value / 1000:.1f}".removesuffix(".0") + f"{_NARROW}s"
    for (unit, worth), (smaller, part) in pairwise((*_UNITS, ("ms", 1))):
        if value >= worth:
            count, rest = value // worth, value % worth // part
            return f"{number(count)}{_NARROW}{unit}" + (f" {rest}{_NARROW}{smaller}" if rest and part > 1 else "")
    return f"{value}{_NARROW}ms"


def ago(moment: int, now: int) -> str:
    """Return how far a moment is from now: in 5 min, 3 h 2 min ago."""
    away = moment - now
    if abs(away) < 1_000:
        return "now"
    whole = abs(away) // 1_000 * 1_000
    return f"in {length(whole)}" if away > 0 else f"{length(whole)} ago"


def iso(moment: int) -> str:
    """Return a moment as RFC 3339 in UTC, to the ms."""
    return moment_out(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z") if moment >= 0 else ""


def stamp(moment: int) -> str:
    """Return a moment with its zone: 2026-11-22 15:21:14.120 UTC."""
    return f"{moment_out(moment):%Y-%m-%d %H:%M:%S}.{moment % 1000:03d} UTC"


def when(moment: int | None, now: int) -> Markup:
    """Return a moment as an element: relative, with the absolute time on hover, to which the script adds local time."""
    if moment is None:
        return Markup(NOTHING)
    text = Markup('<time datetime="{}" title="{}">{}</time>')
    return text.format(iso(moment), stamp(moment), ago(moment, now))


def first_line(text: str | None, most: int = 160) -> str:
    """Return one line of a long text: the last line of a traceback, else the first."""
    lines = [line for line in (text or "").splitlines() if line.strip()]
    if not lines:
        return ""
    line = lines[-1] if lines[0].startswith("Traceback ") else lines[0]
    return line if len(line) <= most else f"{line[: most - 1]}…"


def error_group(error: str | None) -> str:
    """Return the common part of errors of one kind, never empty: digits and ids are replaced by placeholders."""
    text = first_line(error, 2_000)
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text[:_GROUP] or _NO_ERROR


# ---- bodies ---------------------------------------------------------------------------------------------------------


class Body(NamedTuple):
    """The readable form of a body."""

    kind: str  # JSON, text, bytes, encrypted, empty
    text: str
    size: int  # bytes
    cut: bool  # whether more follows


def shown(data: bytes) -> Body:
    """Return a body or a result as JSON, text or hexadecimal. O(what is shown), and O(body) for JSON."""
    kind, value = _kind(data)
    text, room = "", _MOST
    if kind == "JSON":
        text = _pretty(value)
    elif kind == "text":
        text = data[: _MOST + 1].decode("utf-8", "replace")
    elif kind == "bytes":
        text, room = "\n".join(data[start : start + 16].hex(" ") for start in range(0, min(len(data), _HEX), 16)), _HEX
    cut = len(text) > _MOST or (kind != "JSON" and len(data) > room)
    return Body(kind, text[:_MOST], len(data), cut)


def _kind(data: bytes) -> tuple[str, Any]:
    """Return the kind of a body, and for JSON its value."""
    if not data:
        return "empty", None
    if is_encrypted(data):
        return "encrypted", None
    if len(data) <= _JSON:
        with contextlib.suppress(ValueError, RecursionError):
            return "JSON", json.loads(data)
    try:
        text = data[:_BEGINNING].decode("utf-8", "strict" if len(data) <= _BEGINNING else "ignore")
    except UnicodeDecodeError:
        return "bytes", None
    return "bytes" if any(character < " " and character not in "\t\n\r" for character in text) else "text", None


def _pretty(value: object) -> str:
    """Return indented JSON, little more than is shown of it: deep nesting would grow without bound."""
    parts, length = [], 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        parts.append(part)
        length += len(part)
        if length > _MOST:
            break
    return "".join(parts)


def typed(body: bytes) -> str | None:
    """Return a body as editable text, or None if a form would change it."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\r" in text or "\0" in text or is_encrypted(body) else text


def preview(job: Job) -> str:
    """Return the beginning of a body in one line."""
    if not job.body:
        return ""
    if is_encrypted(job.body):
        return "encrypted"
    text = job.body[:96].decode("utf-8", "replace").replace("\n", " ")
    return text if text.isprintable() else job.body[:24].hex(" ")

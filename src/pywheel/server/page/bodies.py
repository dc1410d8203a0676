"""The body of a job as it can be read."""

from __future__ import annotations

import contextlib
import json
from typing import Final, NamedTuple

from ...jobs.bodies import is_encrypted
from ...jobs.job import Job

__all__ = ["Body", "preview", "shown", "typed"]

MOST: Final = 64 << 10  # bytes that are shown
_HEX: Final = 4 << 10
_JSON: Final = 1 << 20  # bytes up to which a body is read as JSON
_BEGINNING: Final = 10_000  # bytes by which a body that is no JSON is told to be text


class Body(NamedTuple):
    """What to show of a body."""

    kind: str  # JSON, text, bytes, encrypted, empty
    view: str  # json, text, hex, none
    views: tuple[str, ...]  # the others that make sense
    text: str
    size: int  # bytes
    cut: bool  # whether it is longer


def shown(data: bytes, wanted: str = "") -> Body:
    """Return a body, or a result, as JSON, text or hexadecimal, as wanted or else as it is. O(what is shown).

    O(body) for JSON.
    """
    kind, views, pretty = _looked_at(data)
    view = wanted if wanted in views else (views[0] if views else "none")
    text, room = "", MOST
    if view == "json":
        text = pretty
    elif view == "text":
        text = data[: MOST + 1].decode("utf-8", "replace")
    elif view == "hex":
        text, room = _dump(data[:_HEX]), _HEX
    cut = len(text) > MOST or (view != "json" and len(data) > room)
    return Body(kind, view, views, text[:MOST], len(data), cut)


def _looked_at(data: bytes) -> tuple[str, tuple[str, ...], str]:
    """Return what a body is, how it can be shown, and if it is JSON, as that."""
    if not data:
        return "empty", (), ""
    if is_encrypted(data):
        return "encrypted", (), ""
    if len(data) <= _JSON:
        with contextlib.suppress(ValueError, RecursionError):
            return "JSON", ("json", "text", "hex"), _pretty(json.loads(data))
    try:
        text = data[:_BEGINNING].decode("utf-8", "strict" if len(data) <= _BEGINNING else "ignore")
    except UnicodeDecodeError:
        return "bytes", ("hex",), ""
    if any(character < " " and character not in "\t\n\r" for character in text):
        return "bytes", ("hex", "text"), ""
    return "text", ("text", "hex"), ""


def _pretty(value: object) -> str:
    """Return JSON with indentation, a little more than is shown of it: what is nested deep would grow without bound."""
    parts, length = [], 0
    for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        parts.append(part)
        length += len(part)
        if length > MOST:
            break
    return "".join(parts)


def typed(body: bytes) -> str | None:
    """Return a body as it can be typed, None for one that a form would change."""
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


def _dump(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  {letters}")
    return "\n".join(lines)

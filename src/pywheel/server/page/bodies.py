"""The body of a job as it can be read."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from ...jobs.job import Job
from .words import size

__all__ = ["Body", "encrypted", "preview", "shown"]

_SEALED: Final = b"\x93pywheel"  # what each encrypted body begins with
MOST: Final = 64 << 10  # bytes that are shown
_HEX: Final = 4 << 10
_DEEP: Final = 10_000  # characters before which a body that is no JSON is looked at as text


class Body(NamedTuple):
    """What to show of a body."""

    kind: str  # JSON, text, bytes, encrypted, empty
    view: str  # json, text, hex, none
    views: tuple[str, ...]  # the others that make sense
    text: str
    size: str
    cut: bool  # whether it is longer


def shown(job: Job, wanted: str = "") -> Body:
    """Return a body as JSON, text or hexadecimal, as wanted or else as it is. O(what is shown)."""
    kind, views = _kind(job)
    view = wanted if wanted in views else (views[0] if views else "none")
    data, cut = job.body, False
    if view == "json":
        text = json.dumps(json.loads(data), indent=2, ensure_ascii=False)
        text, cut = text[:MOST], len(text) > MOST
    elif view == "text":
        text, cut = data[:MOST].decode("utf-8", "replace"), len(data) > MOST
    elif view == "hex":
        text, cut = _dump(data[:_HEX]), len(data) > _HEX
    else:
        text = ""
    return Body(kind, view, views, text, size(len(data)), cut)


def _kind(job: Job) -> tuple[str, tuple[str, ...]]:
    data = job.body
    if not data:
        return "empty", ()
    if encrypted(job):
        return "encrypted", ()
    if len(data) <= MOST:
        try:
            json.loads(data)
        except (ValueError, RecursionError):
            pass
        else:
            return "JSON", ("json", "text", "hex")
    try:
        text = data[:_DEEP].decode("utf-8", "strict" if len(data) <= _DEEP else "ignore")
    except UnicodeDecodeError:
        return "bytes", ("hex",)
    if any(character < " " and character not in "\t\n\r" for character in text):
        return "bytes", ("hex", "text")
    return "text", ("text", "hex")


def preview(job: Job) -> str:
    """Return the beginning of a body in one line."""
    if not job.body:
        return ""
    if encrypted(job):
        return "encrypted"
    text = job.body[:96].decode("utf-8", "replace").replace("\n", " ")
    return text if text.isprintable() else job.body[:24].hex(" ")


def encrypted(job: Job) -> bool:
    """Whether the body can be read by none without its key."""
    return job.body.startswith(_SEALED)


def _dump(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  {letters}")
    return "\n".join(lines)

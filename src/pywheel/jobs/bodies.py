"""Bodies: what a program gives, as the bytes that are stored."""

from __future__ import annotations

import json
from typing import Any

from .._errors import BadJob

__all__ = ["encoded"]


def encoded(body: Any) -> bytes:
    """Return bytes as they are, and anything else as compact JSON in UTF-8. BadJob for what JSON cannot say."""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadJob(f"the body cannot be written as JSON ({error}): give bytes, or plain data") from error

"""Bodies: a program's values as the bytes that are stored, and the mark that tells encrypted bytes from plain ones."""

from __future__ import annotations

import json
from typing import Any, Final

from .._errors import BadBody, BadJob, NoKey

MAGIC: Final = b"\x93pywheel"
"""The beginning of each encrypted body. No JSON and no other text begins so: it is not UTF-8."""
_BYTES: Final = (bytes, bytearray, memoryview)
_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def encoded(body: Any) -> bytes:
    """Return bytes as they are, and anything else as compact JSON in UTF-8. BadJob if JSON cannot express it."""
    if isinstance(body, _BYTES):
        return bytes(body)
    try:
        return _json(body).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadJob(f"the body cannot be written as JSON ({error}): give bytes, or plain data") from error


def decoded(body: bytes, what: str) -> Any:
    """Return the JSON value of bytes.

    Raises:
        BadBody: they are not JSON, or nested too deep for Python; it names `what` they are.
        NoKey: they are encrypted.
    """
    try:
        return json.loads(body)
    except RecursionError:
        raise BadBody(f"{what} is nested too deep") from None
    except ValueError as error:  # includes text that is not UTF-8
        if is_encrypted(body):
            known = f"{what} is encrypted, with key {key_of(body)!r:.80}"
            raise NoKey(f"{known}: read it with that key in PYWHEEL_KEYS, or in the queue's Keyring") from None
        raise BadBody(f"{what} is not JSON: {error}") from error


def is_encrypted(body: bytes) -> bool:
    """Whether a body is encrypted, so that its content cannot be known without the key."""
    return body.startswith(MAGIC)


def key_of(body: bytes) -> str | None:
    """Return the id of the key that a body is encrypted with, which is not a secret; None if it is plain or damaged."""
    start = len(MAGIC) + 2  # after the version and the length of the id
    if not is_encrypted(body) or len(body) < start or len(body) < start + body[start - 1]:
        return None
    return body[start : start + body[start - 1]].decode("ascii", "backslashreplace")

"""Signatures as Standard Webhooks has them: https://www.standardwebhooks.com."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable
from typing import Final

from .._errors import BadOption
from ..jobs.job import Job

__all__ = ["Secrets", "decoded", "signature"]

Secrets = str | Iterable[str] | Callable[[Job], str | Iterable[str]] | None
"""One secret, several during a rotation, or a function that says which are a job's."""

_PREFIX: Final = "whsec_"
_LENGTHS: Final = (24, 64)  # bytes, as the specification wants


def decoded(secret: str) -> bytes:
    """Return the bytes of a secret that is written as ``whsec_`` and base64.

    Raises:
        BadOption: it is written in another way, or has not 24 to 64 bytes. The message does not show it.
    """
    if not isinstance(secret, str):
        raise BadOption(f"a secret is a text such as whsec_..., not {type(secret).__name__}")
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise BadOption(f"a secret is written as {_PREFIX} and base64") from None
    least, most = _LENGTHS
    if not least <= len(key) <= most:
        raise BadOption(f"a secret has {least} to {most} bytes, this one has {len(key)}")
    return key


def signature(keys: Iterable[bytes], id: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header ``webhook-signature``: one signature for each key, with spaces between them."""
    content = b"%s.%d.%s" % (id.encode(), timestamp, body)
    return " ".join("v1," + base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys)

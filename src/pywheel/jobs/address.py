"""The address of a job's delivery: the option `to`, kept among its headers."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

from .._errors import BadJob, PywheelError

TO: Final = "to"
"""The header with the address to which an outlet delivers a job."""
LONGEST_URL: Final = 2_048  # characters
_LONGEST_NAME: Final = 255
_PLAIN: Final = re.compile(r"[!-~]+")  # printable ASCII, without the space


def checked_to(value: Any, *, error: type[PywheelError] = BadJob) -> str:
    """Return the address of a delivery: an http or https URL, or a name in an outlet's own words.

    A text with a slash or a colon is a URL. Other texts are names, such as a routing key or a stream.

    Raises:
        BadJob: or `error`: it is neither, is too long, or has a user or a password in it.
    """
    if not isinstance(value, str):
        raise error(f"to must be a str, not {type(value).__name__}")
    if "/" not in value and ":" not in value:
        if not value or len(value) > _LONGEST_NAME or not value.isprintable() or " " in value:
            raise error(f"to {value[:60]!r} is not a name: 1 to {_LONGEST_NAME} characters, none of them a space")
        return value
    if len(value) > LONGEST_URL:
        raise error(f"to has {len(value)} characters, a URL has at most {LONGEST_URL}")
    if not _PLAIN.fullmatch(value) or "\\" in value:
        raise error(f"to {_shown(value)} is not a URL: it has spaces, or characters that must be written as %xx")
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError as wrong:
        raise error(f"to {_shown(value)} is not a URL: {wrong}") from None
    if parts.scheme not in ("http", "https"):
        raise error(f"to {_shown(value)} must begin with https:// or http://")
    if "@" in parts.netloc:
        raise error("to must not have a user or a password in it: everybody who may look at jobs would see them")
    if not host:
        raise error(f"to {_shown(value)} names no host")
    return value


def _shown(url: str) -> str:
    """Return the beginning of a refused URL, without its query and a possible password."""
    before, at, after = url.partition("?")[0].rpartition("@")
    scheme = before[: before.find("://") + 3] if "://" in before else ""
    return repr(f"{scheme}***@{after}"[:60] if at else after[:60])

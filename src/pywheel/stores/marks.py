"""What stands beside a nonce: the ids of its put, and behind them a mark that says what was asked for, if any does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._errors import NonceTaken

__all__ = ["marked", "unmarked"]


def marked(ids: Sequence[int], mark: str | None) -> list[Any]:
    """Return what is kept of a put that was stored."""
    return [*ids] if mark is None else [*ids, mark]


def unmarked(kept: Sequence[Any], mark: str | None) -> list[int]:
    """Return the ids of a put that was stored before. NonceTaken: both had marks, and that was another one."""
    if not kept or isinstance(kept[-1], int):
        return list(kept)
    *ids, before = kept
    if mark is not None and mark != (before.decode() if isinstance(before, bytes) else before):
        raise NonceTaken("another put had this nonce before")
    return ids

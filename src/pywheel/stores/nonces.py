"""What is kept of a put with a nonce: the ids of its jobs, and behind them its fingerprint, if it has one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._errors import NonceTaken

__all__ = ["fingerprinted", "same_ids"]


def fingerprinted(ids: Sequence[int], fingerprint: str | None) -> list[Any]:
    """Return what is kept of a put that was stored."""
    return [*ids] if fingerprint is None else [*ids, fingerprint]


def same_ids(kept: Sequence[Any], fingerprint: str | None) -> list[int]:
    """Return the ids of a put that was stored before. NonceTaken: both puts have fingerprints, and they differ."""
    if not kept or isinstance(kept[-1], int):
        return list(kept)
    *ids, before = kept
    if fingerprint is not None and fingerprint != (before.decode() if isinstance(before, bytes) else before):
        raise NonceTaken("another put had this nonce before")
    return ids

"""How ``pywheel work`` was told to work."""

from __future__ import annotations

from typing import NamedTuple

from ..jobs.durations import Duration

__all__ = ["Terms"]


class Terms(NamedTuple):
    """How to work."""

    store: str | None
    topics: tuple[str, ...]  # none: all
    grace: Duration
    keep: Duration | None
    live: bool
    processes: int = 1

"""How ``pywheel work`` was told to work."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from ..jobs.durations import Duration
from .options import absolute
from .output import note

__all__ = ["Terms"]


class Terms(NamedTuple):
    """How to work."""

    store: str | None
    topics: tuple[str, ...]  # none: all
    grace: Duration
    keep: Duration | None
    live: bool
    processes: int = 1

    def say_where(self, who: str, url: str, topics: Iterable[str]) -> None:
        """Say which store is worked on, and that PYWHEEL_STORE names another one, if it does."""
        note(f"pywheel: {who} on {url}, topics {', '.join(sorted(topics))}")
        elsewhere = os.environ.get("PYWHEEL_STORE")
        if self.store is None and elsewhere and absolute(elsewhere) != url:
            note("pywheel: PYWHEEL_STORE names another store; it counts here with --store only")

"""How ``pywheel work`` was told to work."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .._errors import NotAStore
from ..jobs.durations import Duration
from ..stores.address import Address
from .options import absolute
from .output import note

if TYPE_CHECKING:
    from ..worker.base import WorkerOptions

__all__ = ["Terms", "how_to_end"]


class Terms(NamedTuple):
    """How to work."""

    store: str | None
    topics: tuple[str, ...]  # none: all
    grace: Duration
    keep: Duration | None
    live: bool
    processes: int = 1
    log: str = "text"
    metrics: tuple[str, int] | None = None  # host and first port
    concurrency: int | None = None

    @property
    def options(self) -> WorkerOptions:
        """What each worker is told."""
        return {
            "topics": self.topics or None,
            "concurrency": self.concurrency,
            "grace": self.grace,
            "keep": self.keep,
        }

    def say_where(self, who: str, url: str, topics: Iterable[str]) -> None:
        """Say which store is worked on, and that PYWHEEL_STORE names another one, if it does."""
        self.say(f"{who} on {url}, topics {', '.join(sorted(topics))}")
        elsewhere = os.environ.get("PYWHEEL_STORE")
        if self.store is None and elsewhere and _shown(elsewhere) != url:
            self.say("PYWHEEL_STORE names another store; it counts here with --store only")

    def say(self, text: str) -> None:
        """Say what is not a result: to a person, or as a line of the log."""
        if self.log == "json":
            logging.getLogger("pywheel.cli").info(text)
        else:
            note(f"pywheel: {text}")


def how_to_end(told_to_stop: bool) -> str:
    """Return what Ctrl-C does to a drain: one for a reload is not yet a stop."""
    return "Ctrl-C once more ends it" if told_to_stop else "Ctrl-C stops it, twice at once"


def _shown(url: str) -> str:
    """Return an address as a store shows its own."""
    try:
        return Address(url).shown if "://" in url and not url.startswith("sqlite:") else absolute(url)
    except NotAStore:
        return url

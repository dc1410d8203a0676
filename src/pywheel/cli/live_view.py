"""The live view of ``pywheel work``: counts of the store, and what its workers did."""

from __future__ import annotations

import time
from typing import Any, Final, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .._errors import StoreError
from ..client.queue import JobQueue
from ..jobs.job import State
from ..observe.tally import Tally
from .output import table

__all__ = ["LiveView", "Numbers"]

_FRAMES: Final = 2  # a second
_SHARE: Final = 0.01  # of the time may be spent with counting
_COUNT_EVERY: Final = 2.0  # seconds
_ROWS: Final = 20  # topics, where the terminal's height is not known
_FRAME_LINES: Final = 6  # all but the topics


class Numbers(Protocol):
    """What was counted, in `Tally`'s words."""

    def total(self, name: str) -> int: ...  # noqa: D102
    def percentile(self, name: str, part: float) -> float | None: ...  # noqa: D102


class LiveView:
    """Shows itself while it is entered. It costs a frame and a few sums, however many jobs there were.

    Args:
        queue: whose jobs are counted.
        numbers: what the workers did; unless given, what happens in this process.
    """

    def __init__(self, queue: JobQueue, numbers: Numbers | None = None) -> None:
        self._queue = queue
        if numbers is None:
            numbers = tally = Tally()
            queue.events.listen(tally)
        self._tally = numbers
        self._console = Console()
        self._began = time.monotonic()
        self._count_at = 0.0
        self._rows: list[tuple[Any, ...]] = []
        self._live = Live(get_renderable=self.render, console=self._console, refresh_per_second=_FRAMES)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._count_at = 0.0  # the last frame stays: with what is true at the end
        self._live.stop()

    def render(self) -> Group:
        """Return what is to be seen now."""
        began = time.monotonic()
        if began >= self._count_at:
            self._rows = self._counted()
            spent = time.monotonic() - began
            self._count_at = began + max(_COUNT_EVERY, spent / _SHARE)
        most = self._console.height - _FRAME_LINES if self._console.is_terminal else _ROWS
        shown, rest = self._rows[: max(most, 1)], len(self._rows) - max(most, 1)
        below = Text(f"and {rest} more topics" if rest > 0 else "")
        return Group(table(("topic", *State), shown), below, self._numbers())

    def _counted(self) -> list[tuple[Any, ...]]:
        """Return the counts of all topics, those with something to do first."""
        try:
            counts = self._queue.topics.counts()
        except StoreError as error:
            return [(str(error), "", "", "", "", "")]
        order = sorted(counts, key=lambda topic: (not (counts[topic].delayed or counts[topic].running), topic))
        return [(topic, *counts[topic]) for topic in order]

    def _numbers(self) -> Table:
        tally = self._tally
        totals = [str(tally.total(name)) for name in ("claimed", "done", "retried", "dead", "lease_lost")]
        parts = [tally.percentile("lateness", part) for part in (0.5, 0.99, 1.0)]
        lateness = " / ".join("-" if part is None else f"{1000 * part:.1f}" for part in parts)
        titles = ("claimed", "done", "retried", "dead", "leases lost", "late p50 / p99 / max, ms", "seconds")
        return table(titles, [(*totals, lateness, f"{time.monotonic() - self._began:.0f}")])

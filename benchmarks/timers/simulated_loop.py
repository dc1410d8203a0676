"""asyncio's own event loop with a clock that stands still until it is set."""

from __future__ import annotations

import asyncio
from typing import Any


class _NoFiles:
    """A selector with nothing to watch: it never waits."""

    def select(self, _timeout: float | None = None) -> list[Any]:
        return []


class SimulatedLoop(asyncio.BaseEventLoop):
    """BaseEventLoop as it is - its heap, its handles, its `_run_once` - on a simulated clock.

    Set `seconds`, then call `turn()`: every timer that is due runs its callback.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._selector = _NoFiles()

    def time(self) -> float:
        return self.seconds

    def turn(self) -> None:
        """Run one turn of the loop, without waiting."""
        self._run_once()  # type: ignore[attr-defined]

    def _process_events(self, event_list: list[Any]) -> None:
        pass

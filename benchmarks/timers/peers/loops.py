"""The event loops of asyncio and uvloop."""

from __future__ import annotations

import asyncio
import sys
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.timers.peers.peer import Peer, nothing


class _Loop(Peer):
    """`call_later` and `TimerHandle.cancel` of a real event loop."""

    def __init__(self) -> None:
        self.loop: Any = self.new_loop()

    @abstractmethod
    def new_loop(self) -> Any:
        """Make the loop."""

    def own_time(self, ticks: Sequence[int]) -> list[float]:
        return [tick / 1000 for tick in ticks]

    def schedule(self, when: Iterable[float]) -> list[Any]:
        call_later = self.loop.call_later
        return [call_later(delay, nothing) for delay in when]

    def cancel(self, handles: Sequence[Any]) -> int:
        for handle in handles:
            handle.cancel()
        return len(handles)

    def restart(self, handles: Sequence[Any], when: Sequence[float]) -> int:
        call_later = self.loop.call_later
        for handle, delay in zip(handles, when, strict=True):
            handle.cancel()
            call_later(delay, nothing)
        return len(handles)

    def churn(self, when: Sequence[float]) -> int:
        call_later = self.loop.call_later
        for delay in when:
            call_later(delay, nothing).cancel()
        return len(when)

    def close(self) -> None:
        self.loop.close()


class Asyncio(_Loop):
    """The event loop of the standard library."""

    def new_loop(self) -> Any:
        return asyncio.SelectorEventLoop()

    def counted_bytes(self) -> int:
        queue = self.loop._scheduled
        return sys.getsizeof(queue) + sum(map(sys.getsizeof, queue))


class Uvloop(_Loop):
    """uvloop."""

    def new_loop(self) -> Any:
        import uvloop

        return uvloop.new_event_loop()

"""Event loops, and one thread a timer: asyncio, uvloop, threading.Timer."""

from __future__ import annotations

import asyncio
import sys
import time
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from threading import Timer
from typing import Any

from benchmarks.timers.peers.peer import Deliverer, Peer, Starter, nothing
from benchmarks.timers.simulated_loop import SimulatedLoop


class _Loop(Peer):
    """`call_later` and `TimerHandle.cancel` of a real event loop."""

    def __init__(self) -> None:
        self.loop: Any = self.new_loop()
        self.came: list[Any] = []

    @abstractmethod
    def new_loop(self) -> Any:
        """Make the loop."""

    def own_time(self, ticks: Sequence[int]) -> list[float]:
        return [tick / 1000 for tick in ticks]

    def schedule(self, when: Iterable[float]) -> list[Any]:
        call_later = self.loop.call_later
        return [call_later(delay, nothing) for delay in when]

    def fill(self, when: Sequence[float], items: Sequence[Any]) -> list[Any]:
        call_later, arrive = self.loop.call_later, self.came.append
        return [call_later(delay, arrive, item) for delay, item in zip(when, items, strict=True)]

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


class SimulatedAsyncio(Asyncio, Deliverer):
    """The same on a simulated clock, so that time can be let go tick by tick."""

    def new_loop(self) -> Any:
        return SimulatedLoop()

    def deliver(self, steps: Sequence[float]) -> int:
        loop = self.loop
        turn = loop.turn
        for now in steps:
            loop.seconds = now
            turn()
        return len(self.came)


class Uvloop(_Loop, Deliverer):
    """uvloop: the clock is libuv's own, so all timers fall due first and are then delivered in one turn."""

    def new_loop(self) -> Any:
        import uvloop

        return uvloop.new_event_loop()

    def fill(self, when: Sequence[float], items: Sequence[Any]) -> list[Any]:
        soon = max(0.01, len(when) / 4e6)  # seconds: libuv counts milliseconds
        scale = soon / max(when)
        handles = super().fill([delay * scale for delay in when], items)
        self.loop.call_later(soon + 0.002, self.loop.stop)
        time.sleep(soon + 0.01)
        return handles

    def deliver(self, steps: Sequence[float]) -> int:
        self.loop.run_forever()
        return len(self.came)


class ThreadingTimer(Starter):
    """threading.Timer: one thread for each timer, so one at a time."""

    def own_time(self, ticks: Sequence[int]) -> list[float]:
        return [60 + tick / 1000 for tick in ticks]

    def churn(self, when: Sequence[float]) -> int:
        for delay in when:
            timer = Timer(delay, nothing)
            timer.start()
            timer.cancel()
            timer.join()
        return len(when)

"""Timers with callbacks: AsyncTimers beside the loop it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import pywheel
from benchmarks.timers.peers.loops import Asyncio, Uvloop


def with_an_argument(peer: Any, when: Iterable[float]) -> list[Any]:
    """Schedule timers with a callback and an argument, the same for all."""
    call_later = peer.loop.call_later
    return [call_later(delay, _take, peer) for delay in when]


def _take(_: Any) -> None:
    pass


class OnAsyncio(Asyncio):
    """`call_later`, `cancel` and `reset` of AsyncTimers, on the event loop of the standard library."""

    def __init__(self) -> None:
        self.stock = asyncio.SelectorEventLoop()
        super().__init__()

    def new_loop(self) -> Any:
        return pywheel.AsyncTimers(self.stock)

    def restart(self, handles: Sequence[Any], when: Sequence[float]) -> int:
        for handle in handles:
            handle.reset()
        return len(handles)

    def close(self) -> None:
        self.loop.stop()
        self.stock.close()


class OnEventLoop(Asyncio):
    """The timers of pywheel's own loop, used as any loop's."""

    def new_loop(self) -> Any:
        return pywheel.EventLoop()


class ByHand(OnAsyncio):
    """The same of Timers, which nothing but the program drives."""

    def new_loop(self) -> Any:
        return pywheel.Timers()


class ByHandWithAnArgument(ByHand):
    """Each timer has a callback and an argument, for the memory they take."""

    schedule = with_an_argument

    def counted_bytes(self) -> int:
        return 0


class AsyncioWithAnArgument(Asyncio):
    """The same in asyncio's loop."""

    schedule = with_an_argument


class UvloopWithAnArgument(Uvloop):
    """The same in uvloop's."""

    schedule = with_an_argument

"""The wheel and its peers: one class each, all with the same methods."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from benchmarks.timers.peers import empty_call
from benchmarks.timers.peers.drivers import (
    AsyncioWithAnArgument,
    ByHand,
    ByHandWithAnArgument,
    OnAsyncio,
    OnEventLoop,
    UvloopWithAnArgument,
)
from benchmarks.timers.peers.empty_call import EmptyCall, EmptyKeyCall
from benchmarks.timers.peers.loops import Asyncio, Uvloop
from benchmarks.timers.peers.peer import Peer
from benchmarks.timers.peers.priority_queues import Heapq, SortedContainers
from benchmarks.timers.peers.wheels import HeapqMethods, Keys, Pure, Wheel

PEERS: dict[str, Callable[[], Peer]] = {
    "TimingWheel": Wheel,
    "KeyWheel": Keys,
    "pure TimingWheel": Pure,
    "empty call": EmptyCall,
    "empty KeyWheel call": EmptyKeyCall,
    "asyncio": Asyncio,
    "uvloop": Uvloop,
    "heapq": Heapq,
    "heapq, by methods": HeapqMethods,
    "sortedcontainers": SortedContainers,
    "AsyncTimers": OnAsyncio,
    "EventLoop": OnEventLoop,
    "Timers": ByHand,
    "Timers, one argument": ByHandWithAnArgument,
    "asyncio, one argument": AsyncioWithAnArgument,
    "uvloop, one argument": UvloopWithAnArgument,
}
"""Every peer by the name it has in the results."""


def available(*names: str) -> tuple[str, ...]:
    """Return those that can be measured here: the empty calls need a compiler, uvloop is not for every system."""
    missing = {name for name in names if name.startswith("uvloop") and find_spec("uvloop") is None}
    missing |= {name for name in names if name.startswith("empty") and not empty_call.available()}
    return tuple(name for name in names if name not in missing)

"""TTLDict against cachetools.TTLCache, which threads may share only behind a lock: without one, and with it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, Stages, clock
from benchmarks.timers.settings import rounds

cachetools = pytest.importorskip("cachetools", reason="cachetools is what TTLDict is measured against")

TTL = 600
Make = Callable[[int], Any]


class Locked:
    """A TTLCache behind a lock, as the documentation of cachetools advises for threads."""

    def __init__(self, size: int) -> None:
        self._cache = cachetools.TTLCache(size, TTL)
        self._lock = threading.Lock()

    def get(self, key: str) -> Any:
        with self._lock:
            return self._cache.get(key)

    def __getitem__(self, key: str) -> Any:
        with self._lock:
            return self._cache[key]

    def __setitem__(self, key: str, value: Any) -> None:
        with self._lock:
            self._cache[key] = value


PEERS: dict[str, Make] = {
    "TTLDict": lambda size: pywheel.TTLDict(TTL),
    "TTLDict, bounded": lambda size: pywheel.TTLDict(TTL, maxsize=size),
    "TTLCache": lambda size: cachetools.TTLCache(size, TTL),
    "TTLCache, with a lock": Locked,
}


@pytest.mark.parametrize("size", (1_000, 100_000))
def test_ttl_dict(interleaved: Interleaved, size: int) -> None:
    runs = {name: partial(use, make, size) for name, make in PEERS.items()}
    interleaved.run(runs, rounds=rounds(size) // 2 + 1, size=size, workload="TTL")


@pytest.mark.parametrize("size", (1_000, 100_000))
def test_expiring(interleaved: Interleaved, size: int) -> None:
    runs = {"TTLDict": partial(expire_ttl_dict, size), "TTLCache": partial(expire_ttl_cache, size)}
    interleaved.run(runs, rounds=rounds(size) // 2 + 1, size=size, workload="TTL")


def use(make: Make, size: int) -> Stages:
    """Fill it; get, touch and set what is there, in random order; and set more keys, as many as a bounded one drops."""
    cache, keys, more = make(size), names(0, size), names(size, 2 * size)
    touch = getattr(cache, "touch", None) or partial(set_as_it_is, cache)
    stages = {"set": timed(set_all, cache, keys)}
    random.Random(5).shuffle(keys)
    stages["[]"] = timed(subscript_all, cache, keys)
    stages["get"] = timed(call_all, cache.get, keys)
    stages["touch"] = timed(call_all, touch, keys)
    stages["set again"] = timed(set_all, cache, keys)
    stages["set, when full"] = timed(set_all, cache, more)
    return {measure: (nanoseconds, size) for measure, nanoseconds in stages.items()}


def set_as_it_is(cache: Any, key: str) -> None:
    """What a cache without `touch` leaves to do."""
    cache[key] = cache[key]


def names(start: int, stop: int) -> list[str]:
    return [f"session {number}" for number in range(start, stop)]


def timed(function: Callable[..., None], *arguments: Any) -> int:
    start = clock()
    function(*arguments)
    return clock() - start


def set_all(cache: Any, keys: Iterable[str]) -> None:
    for key in keys:
        cache[key] = key


def subscript_all(cache: Any, keys: Iterable[str]) -> None:
    for key in keys:
        cache[key]


def call_all(function: Callable[[str], Any], keys: Iterable[str]) -> None:
    for key in keys:
        function(key)


def expire_ttl_dict(size: int) -> Stages:
    now = pywheel.ManualClock()
    return expire(pywheel.TTLDict(TTL, clock=now), now, size)


def expire_ttl_cache(size: int) -> Stages:
    now = pywheel.ManualClock()
    return expire(cachetools.TTLCache(size, TTL, timer=now.time), now, size)


def expire(cache: Any, now: pywheel.ManualClock, size: int) -> Stages:
    """All deadlines differ, and the keys go at a thousand moments."""
    for key in spread(size, now):
        cache[key] = key
    moments = [TTL / 1_000] * 1_001
    start = clock()
    for seconds in moments:
        now.jump(seconds)
        cache.expire()
    took = clock() - start
    assert len(cache) == 0
    return {"expire": (took, size)}


def spread(size: int, now: pywheel.ManualClock) -> Iterator[str]:
    """Yield keys while the ttl goes by."""
    for key in names(0, size):
        yield key
        now.jump(TTL / size * 0.99)

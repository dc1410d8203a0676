"""The fixture that every benchmark uses."""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from typing import Any

import pytest

import pywheel
from benchmarks import kept
from benchmarks.host import processor_seconds
from benchmarks.timers.interleaved import KEPT, Interleaved
from benchmarks.timers.settings import QUICK

_start = time.monotonic(), processor_seconds()


def pytest_sessionfinish() -> None:
    """Keep the results, except those of BENCH=quick or of the pure twin, which are not for the documentation."""
    if not KEPT:
        return
    usual = not QUICK and pywheel.implementation == "native"
    path = (kept.RESULTS if usual else kept.TRIED) / "timers.json"
    found = kept.begun(path, {name: version(name) for name in ("uvloop", "sortedcontainers", "cachetools", "aiohttp")})
    found["about"] |= {"seconds": time.monotonic() - _start[0], "others": _taken_by_others()}
    found["results"] |= KEPT
    kept.write(found, path)


def _taken_by_others() -> float | None:
    """Return the part of the processors that other programs took since the start; None where nobody knows."""
    now = processor_seconds()
    if now is None or _start[1] is None:
        return None
    all_used, ours = (after - before for before, after in zip(_start[1], now, strict=True))
    return max(0.0, all_used - ours) / (os.cpu_count() or 1) / (time.monotonic() - _start[0])


@pytest.fixture
def interleaved(benchmark: Any) -> Interleaved:
    """Measures peers in turns."""
    return Interleaved(benchmark)

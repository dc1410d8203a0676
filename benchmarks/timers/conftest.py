"""The fixture that every benchmark uses."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

import pywheel
from benchmarks.host import processor_seconds
from benchmarks.timers.interleaved import Interleaved
from benchmarks.timers.settings import QUICK

_start = time.monotonic(), processor_seconds()


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    machine_info["pywheel"] = {
        "implementation": pywheel.implementation,
        "version": pywheel.__version__,
        "quick": QUICK,
        "seconds": time.monotonic() - _start[0],
        "others": _taken_by_others(),
    }


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

"""The fixture that every benchmark uses."""

from __future__ import annotations

from typing import Any

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved
from benchmarks.timers.settings import QUICK


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    machine_info["pywheel"] = {"implementation": pywheel.implementation, "version": pywheel.__version__, "quick": QUICK}


@pytest.fixture
def interleaved(benchmark: Any) -> Interleaved:
    """Measures peers in turns."""
    return Interleaved(benchmark)

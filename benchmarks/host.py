"""What the machine itself allows, beside which every figure is to be read, and what it says of itself."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from statistics import median


def about() -> str:
    """Return what it runs on, in words."""
    return f"CPython {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"


def fsync_p50(folder: Path, rounds: int = 300) -> float:
    """Return the median seconds of a 4 KB write with fdatasync."""
    file = os.open(folder / "fsync", os.O_RDWR | os.O_CREAT)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        os.pwrite(file, b"x" * 4096, 0)
        os.fdatasync(file)
        times.append(time.perf_counter() - began)
    os.close(file)
    return median(times)


def wake_p99(rounds: int = 500) -> float:
    """Return the seconds by which a sleep of 1 ms lasts longer, at p99: no delivery can be more punctual than that."""
    late = []
    for _ in range(rounds):
        began = time.perf_counter()
        time.sleep(0.001)
        late.append(time.perf_counter() - began - 0.001)
    return sorted(late)[rounds * 99 // 100]


def processor_ticks() -> tuple[int, int]:
    """Return those that the host took from this machine so far, and all."""
    ticks = [int(text) for text in Path("/proc/stat").read_text().split()[1:9]]
    return ticks[7], sum(ticks)


def processor_seconds() -> tuple[float, float] | None:
    """Return what all programs used so far, and what this process and its children that have ended; None if unknown."""
    try:
        ticks = [int(text) for text in Path("/proc/stat").read_text().split()[1:9]]
    except OSError:
        return None
    idle, waiting = ticks[3], ticks[4]
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])

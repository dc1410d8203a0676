"""The machine's own limits, beside which every figure is to be read, and its description."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import pywheel

ROOT = Path(__file__).parents[1]


def about() -> dict[str, Any]:
    """Return the description of the machine and of the measured version."""
    folder = tempfile.gettempdir()
    return {
        "pywheel": pywheel.__version__,
        "commits": [_commit()],
        "date": datetime.now(UTC).date().isoformat(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kernel": f"{platform.system()} {platform.release()}",
        "processor": _first("/proc/cpuinfo", r"model name\s*: (.+)") or platform.processor(),
        "cores": os.cpu_count(),
        "memory": f"{int(_first('/proc/meminfo', r'MemTotal: *([0-9]+)') or 0) / 2**20:.0f} GiB",
        "files": _said("findmnt", "-n", "-o", "FSTYPE,SOURCE", "--target", folder).replace(" ", " on ", 1),
    }


def told(about: Mapping[str, Any]) -> str:
    """Return the description as a sentence."""
    commits = " and ".join(about["commits"])
    return (
        f"Measured with pywheel {about['pywheel']} (commit {commits}) on {about['date']}: {about['python']}, "
        f"{about['kernel']}, {about['processor']}, {about['cores']} cores, {about['memory']}, {about['files']}."
    )


def _first(path: str, pattern: str) -> str:
    """Return the text of a system file, or "" if it is missing."""
    try:
        found = re.search(pattern, Path(path).read_text())
    except OSError:
        return ""
    return found[1] if found else ""


def _said(*command: str) -> str:
    """Return the output of a program, or "" if it is missing."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return " ".join(done.stdout.split())


def _commit() -> str:
    """Return the commit of the measured sources, and whether they were changed since."""
    changed = " with changes" if _said("git", "status", "--porcelain", "--", "src") else ""
    return f"{_said('git', 'rev-parse', '--short=8', 'HEAD') or 'unknown'}{changed}"


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


def processor_seconds() -> tuple[float, float] | None:
    """Return the processor seconds of all programs, and of this process with its ended children; None if unknown."""
    try:
        ticks = [int(text) for text in Path("/proc/stat").read_text().split()[1:9]]
    except OSError:
        return None
    idle, waiting = ticks[3], ticks[4]
    return (sum(ticks) - idle - waiting) / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])

"""The handler that every peer runs: it writes down when a job was due and when it came."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

_PAIR = struct.Struct("dd")
_FILE = -1


def body(due: float) -> str:
    """Return 128 characters that say when the job is due."""
    return f"{due:.6f}".ljust(128)


def record(text: str) -> None:
    """Handle a job. A short append is one write, whichever thread or process does it."""
    global _FILE
    now = time.time()
    if _FILE < 0:
        _FILE = os.open(os.environ["JOBS_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(_FILE, _PAIR.pack(float(text), now))


def count(path: Path) -> int:
    """Return how many jobs came."""
    return path.stat().st_size // _PAIR.size if path.exists() else 0


def read(path: Path) -> list[tuple[float, float]]:
    """Return (due, came) of each job, in the order in which they came."""
    return sorted(_PAIR.iter_unpack(path.read_bytes()), key=lambda pair: pair[1])

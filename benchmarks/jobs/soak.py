"""Work for half an hour: nothing may grow."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

from benchmarks.jobs.floor import BODY
from benchmarks.jobs.processes import percentiles, resident, until, worker
from pywheel import JobQueue

_DRAW = random.Random(4)


def soak(folder: Path, minutes: float, rate: int = 500) -> dict[str, Any]:
    """Return sizes in MB after a sixth of the time and at the end, at so many jobs a second that are kept for 1 min."""
    path, report = folder / "soak.db", folder / "soak.json"
    url = f"sqlite:///{path}"
    sizes: list[tuple[float, float]] = []
    with JobQueue(url) as queue, worker(url, report, working={"keep": "1m"}) as process:
        began = time.monotonic()
        turns = round(minutes * 60 * 20)
        for turn in range(turns):
            queue.put_many([queue.job("t", BODY, delay=_DRAW.uniform(1, 5)) for _ in range(rate // 20)])
            if turn in (turns // 6, turns - 1):
                sizes.append((_size(path), resident(process)))
            time.sleep(max(began + turn / 20 - time.monotonic(), 0))
        until(lambda: queue.counts()["t"].delayed == queue.counts()["t"].running == 0, 0.2)
    (early, memory), (late, memory_late) = sizes
    return {
        "file MB": early / 1e6,
        "at the end": late / 1e6,
        "memory MB": memory / 1e6,
        "then": memory_late / 1e6,
        **percentiles(report),
    }


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, Path(f"{path}-wal")))

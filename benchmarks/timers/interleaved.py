"""Rounds in which every peer takes its turn, so that noise hits all alike; kept as ordinary pytest-benchmark results.

pytest-benchmark runs one function to the end and then the next. Here each round measures all of them, and the
results are handed to its statistics afterwards, so tables, JSON and `pytest-benchmark compare` work as ever.
"""

from __future__ import annotations

import copy
import gc
import time
from collections import defaultdict
from collections.abc import Callable, Container, Mapping
from typing import Any

Stages = Mapping[str, tuple[float, int]]  # measure -> (nanoseconds, operations)

_fine = time.get_clock_info("thread_time").resolution < 1e-6
clock: Callable[[], int] = time.thread_time_ns if _fine else time.perf_counter_ns
"""CPU time of this thread in nanoseconds, where the system counts it finely enough."""

ENOUGH = 20_000  # timers, for one turn

KEPT: dict[str, dict[str, Any]] = {}
"""The results so far, in the form of the file."""


class Interleaved:
    """Collects what one test measures; `benchmark` is pytest-benchmark's fixture."""

    def __init__(self, benchmark: Any) -> None:
        self._benchmark = benchmark
        benchmark._mode = "interleaved"  # or it would say that it was not used

    def run(
        self, runs: Mapping[str, Callable[[], Stages]], *, rounds: int, once: Container[str] = (), **about: Any
    ) -> None:
        """Let each of `runs` take its turn, `rounds` times over, those in `once` in the first round only.

        The garbage collector stays on. A turn of a small run is many runs: the first, which finds the caches cold, does
        not count, and the rest are added up.
        """
        warm = ENOUGH // (about.get("size") or ENOUGH)
        seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        names = list(runs)
        for number in range(rounds):
            if number == 1:
                names = [name for name in names if name not in once]
            for name in names[number % len(names) :] + names[: number % len(names)]:
                gc.collect()
                for measure, (nanoseconds, operations) in _turn(runs[name], warm).items():
                    seconds[measure, name].append(nanoseconds / operations / 1e9)
        for (measure, name), data in seconds.items():
            self.keep(measure, name, data, **about)

    def keep(self, measure: str, peer: str, seconds: list[float], *, values: Any = None, **about: Any) -> None:
        """Keep seconds an operation, one for each round, and `values` that are no times."""
        entry = copy.copy(self._benchmark)
        size = about.get("size")
        label = f"{measure}, {about['workload']}" if about.get("workload", "uniform") != "uniform" else measure
        entry.group = f"{label}, {size}" if size else label
        entry.name = peer
        entry.fullname = f"{self._benchmark.fullname}[{measure}][{peer}]"
        entry.extra_info = {"measure": measure, "peer": peer, "workload": "uniform", **about, "values": values or {}}
        stats = entry._make_stats(1)
        for second in seconds:
            stats.update(second)
        about = entry.extra_info
        name = f"{measure} | {peer} | {about.get('size', 0)} | {about['workload']}"
        KEPT[name] = {"seconds": seconds} | ({"values": values} if values else {})


def _turn(run: Callable[[], Stages], warm: int) -> Stages:
    """Run once, or, where that is little, once for nothing and then `warm` times."""
    if warm <= 1:
        return run()
    run()
    total: dict[str, tuple[float, int]] = defaultdict(lambda: (0, 0))
    for _ in range(warm):
        for measure, (nanoseconds, operations) in run().items():
            total[measure] = total[measure][0] + nanoseconds, total[measure][1] + operations
    return total

"""What `make bench-jobs` runs: every measure of the jobs, as a page.

usage: python -m benchmarks.jobs [PAGE] [--quick] [--only NAME,NAME]
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pywheel
from benchmarks.host import fsync_p50, wake_p99
from benchmarks.jobs import deliver, put

HEAD = """\
# Benchmarks of the jobs

Written by `make bench-jobs`; do not edit. pywheel {version}, CPython {python}, {system}, {cores} cores.

128-byte bodies, delays uniform 5 to 20 s unless it says otherwise, SQLite with synchronous=FULL, one client, one
worker, a handler that does nothing. What takes only some seconds is measured {rounds} times: the figure is the median,
the best stands in brackets.

Everything here waits for the disk and for the processor, so both are measured before each: *fsync* is the median of a
4 KB write with fdatasync, *wake* is how much longer a sleep of 1 ms lasts at p99, with nothing else at work. No job can
be delivered more punctually than that. *floor* is the `INSERT` of a put on a bare connection to a file with the same
tables, in turns with the put.

| measure | fsync, us | wake, ms | goal | measured |
| --- | ---: | ---: | ---: | ---: |
"""
ROUNDS = 5
LESS_IS_BETTER = {"p50", "p99", "p100"}


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, each measured once")
    parser.add_argument("--only", default="", help="names of measures")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    lines = []
    for name, rounds, goal, title, measure in measures(10 if options.quick else 1):
        if wanted and name not in wanted:
            continue
        floors, results = [], []
        for _ in range(1 if options.quick else rounds):
            with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
                floors.append((1e6 * fsync_p50(Path(folder)), 1e3 * wake_p99()))
                results.append(measure(Path(folder)))
        fsync, wake = map(median, zip(*floors, strict=True))
        lines.append(f"| {title} | {fsync:.0f} | {wake:.2f} | {goal} | {shown(results)} |")
        print(lines[-1], flush=True)
    if options.page:
        head = HEAD.format(
            version=pywheel.__version__,
            python=platform.python_version(),
            system=platform.system(),
            cores=os.cpu_count(),
            rounds=ROUNDS,
        )
        options.page.write_text(head + "\n".join(lines) + "\n")


def measures(part: int) -> list[tuple[str, int, str, str, Callable[[Path], Any]]]:
    """Return (name, rounds, goal, title, measure) of each."""
    million, hundred = 1_000_000 // part, 100_000 // part
    wait = 62  # seconds: longer than the round of an idle worker
    late = "p50 <= 1, p99 <= 3, max <= 20"
    idle = "<= 0.2/s, 0.05 %, 40 MB"
    some = ROUNDS
    return [
        ("one", some, ">= 0.90 of the floor", "`put` one by one, a second", put.one_by_one),
        ("threads8", some, "", "by 8 threads, a second", lambda f: put.by_threads(f, 8)),
        ("threads32", some, ">= 30 000", "by 32 threads, a second", lambda f: put.by_threads(f, 32)),
        ("tasks32", some, "", "by 32 asyncio tasks, a second", lambda f: put.by_tasks(f, 32)),
        ("tasks100", some, ">= 80 000", "by 100 asyncio tasks, a second", lambda f: put.by_tasks(f, 100)),
        ("many100", some, ">= 75 000", "`put_many` of 100, jobs a second", lambda f: put.by_batches(f, 100)),
        ("many1000", some, ">= 150 000", "`put_many` of 1000, jobs a second", lambda f: put.by_batches(f, 1000)),
        ("bytes", 1, "<= 195", "bytes a job", lambda f: put.bytes_a_job(f, keyed=False)),
        ("keyed", 1, "<= 245", "bytes a job with a key of 18 characters", lambda f: put.bytes_a_job(f, keyed=True)),
        ("late", 3, late, "late, 20 000 jobs, ms", lambda f: deliver.lateness(f, 20_000 // part)),
        ("near", some, "p99 <= 3", "late, put by another process due in 50 ms, ms", deliver.near),
        ("beside", some, "p99 <= 5", "late beside a producer that runs flat out, ms", deliver.beside_a_producer),
        ("drain5", some, ">= 50 000", "drain of 5 000 due, a second", lambda f: deliver.drain(f, 5_000)),
        ("drain100", some, ">= 25 000", "drain of 100 000 due, a second", lambda f: deliver.drain(f, hundred)),
        (
            "cancel",
            1,
            "<= 250 / 70 us",
            f"cancel among {million:,}, us: one by one / 500 at once",
            lambda f: _cancel(f, million),
        ),
        ("idle100k", 1, idle, f"idle, {hundred:,} far jobs", lambda f: deliver.idle(f, hundred, wait)),
        ("idle1m", 1, idle, f"idle, {million:,} far jobs", lambda f: deliver.idle(f, million, wait)),
        (
            "first",
            1,
            "<= 0.4 / 3 s",
            f"first delivery, {million:,} stored, s",
            lambda f: deliver.first_delivery(f, million),
        ),
    ]


def _cancel(folder: Path, stored: int) -> dict[str, float]:
    return {name: 1e6 * seconds for name, seconds in put.cancels(folder, stored).items()}


def shown(results: list[Any], name: str = "") -> str:
    """Return the median of the rounds, and the best of them, as text."""
    if isinstance(results[0], dict):
        return ", ".join(f"{name} {shown([result[name] for result in results], name)}" for name in results[0])
    best = min if name in LESS_IS_BETTER else max
    return number(median(results)) + (f" ({number(best(results))})" if len(results) > 1 else "")


def number(value: float) -> str:
    """Return a number as text."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())

"""What `make bench-jobs` runs: every measure of the jobs, as a page.

usage: python -m benchmarks.jobs_report [PAGE] [--quick] [--only NAME,NAME]
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pywheel
from benchmarks import jobs_deliver as deliver
from benchmarks import jobs_put as put

HEAD = """\
# Benchmarks of the jobs

Written by `make bench-jobs`; do not edit. pywheel {version}, CPython {python}, {system}, {cores} cores.

128-byte bodies, delays uniform 5 to 20 s unless it says otherwise, SQLite with synchronous=FULL, one client, one
worker, a handler that does nothing. Each measure is one run; the fsync of the disk is measured before each, as it
changes from minute to minute, and so does everything that waits for it. *Raw insert* is the statement of a put on a
bare connection to a file with the same tables, measured in turns of 100 with `put`.

| measure | fsync p50, us | goal | measured |
| --- | ---: | ---: | ---: |
"""


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs")
    parser.add_argument("--only", default="", help="names of measures")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    lines = []
    for name, goal, title, measure in measures(10 if options.quick else 1):
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
            fsync = 1e6 * put.fsync_p50(Path(folder))
            result = measure(Path(folder))
        lines.append(f"| {title} | {fsync:.0f} | {goal} | {shown(result)} |")
        print(lines[-1], flush=True)
    if options.page:
        import os

        head = HEAD.format(
            version=pywheel.__version__,
            python=platform.python_version(),
            system=platform.system(),
            cores=os.cpu_count(),
        )
        options.page.write_text(head + "\n".join(lines) + "\n")


def measures(part: int) -> list[tuple[str, str, str, Callable[[Path], Any]]]:
    """Return (name, goal, title, measure) of each."""
    million, hundred = 1_000_000 // part, 100_000 // part
    wait = 62  # seconds: longer than the round of an idle worker
    return [
        ("one", ">= 0.90 of the raw insert", "`put` one by one, a second", put.one_by_one),
        ("threads8", "", "by 8 threads, a second", lambda f: put.by_threads(f, 8)),
        ("threads32", ">= 30 000", "by 32 threads, a second", lambda f: put.by_threads(f, 32)),
        ("tasks32", "", "by 32 asyncio tasks, a second", lambda f: put.by_tasks(f, 32)),
        ("tasks100", ">= 80 000", "by 100 asyncio tasks, a second", lambda f: put.by_tasks(f, 100)),
        ("many100", ">= 75 000", "`put_many` of 100, jobs a second", lambda f: put.by_batches(f, 100)),
        ("many1000", ">= 150 000", "`put_many` of 1000, jobs a second", lambda f: put.by_batches(f, 1000)),
        ("bytes", "<= 195", "bytes a job", lambda f: put.bytes_a_job(f, keyed=False)),
        ("keyed", "<= 245", "bytes a job with a key of 18 characters", lambda f: put.bytes_a_job(f, keyed=True)),
        (
            "late",
            "p50 <= 1, p99 <= 3, max <= 20",
            "late, 20 000 jobs, ms",
            lambda f: deliver.lateness(f, 20_000 // part),
        ),
        ("near", "p99 <= 3", "late, put by another process due in 50 ms, ms", deliver.near),
        ("beside", "p99 <= 5", "late beside a producer that runs flat out, ms", deliver.beside_a_producer),
        ("drain5", ">= 50 000", "drain of 5 000 due, a second", lambda f: deliver.drain(f, 5_000)),
        ("drain100", ">= 25 000", "drain of 100 000 due, a second", lambda f: deliver.drain(f, hundred)),
        (
            "cancel",
            "<= 250 / 70 us",
            f"cancel among {million:,}, us: one by one / 500 at once",
            lambda f: _cancel(f, million),
        ),
        (
            "idle100k",
            "<= 0.2/s, 0.05 %, 40 MB",
            f"idle, {hundred:,} far jobs",
            lambda f: deliver.idle(f, hundred, wait),
        ),
        ("idle1m", "<= 0.2/s, 0.05 %, 40 MB", f"idle, {million:,} far jobs", lambda f: deliver.idle(f, million, wait)),
        (
            "first",
            "<= 0.4 / 3 s",
            f"first delivery, {million:,} stored, s",
            lambda f: deliver.first_delivery(f, million),
        ),
    ]


def _cancel(folder: Path, stored: int) -> dict[str, float]:
    return {name: 1e6 * seconds for name, seconds in put.cancels(folder, stored).items()}


def shown(result: Any) -> str:
    """Return a result as text."""
    if isinstance(result, dict):
        return ", ".join(f"{name} {shown(value)}" for name, value in result.items())
    return f"{result:,.0f}" if abs(result) >= 1000 else f"{result:.3g}"


if __name__ == "__main__":
    sys.exit(main())

"""What `make bench-jobs` runs: every measure of the jobs, as a page.

usage: python -m benchmarks.jobs [PAGE] [--quick] [--only NAME,NAME] [--soak MINUTES]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.host import fsync_p50, wake_p99
from benchmarks.jobs.measures import ROUNDS, Measure, measures
from benchmarks.report.jobs.page import cells, page
from benchmarks.report.text import row


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description="Measure the jobs, as a page.")
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, each measured once")
    parser.add_argument("--only", default="", help="names of measures")
    parser.add_argument("--soak", type=float, default=30, metavar="MINUTES", help="how long the soak lasts")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    rows = []
    for measure in measures(10 if options.quick else 1, options.soak):
        if wanted and measure.name not in wanted:
            continue
        floors, results = measured(measure, 1 if options.quick else measure.rounds)
        rows.append(cells(measure.title, measure.goal, floors, results))
        print(row(rows[-1]), flush=True)
    if options.page:
        options.page.write_text(page(rows, ROUNDS), encoding="utf-8")


def measured(measure: Measure, rounds: int) -> tuple[list[tuple[float, float]], list[Any]]:
    """Return us of an fsync and ms of a wake-up before each round, and what the rounds gave."""
    floors, results = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
            floors.append((1e6 * fsync_p50(Path(folder)), 1e3 * wake_p99()))
            results.append(measure.run(Path(folder)))
    return floors, results


if __name__ == "__main__":
    sys.exit(main())

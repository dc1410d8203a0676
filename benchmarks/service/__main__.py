"""What `make bench-service` runs: every measure of the service, as a page.

usage: python -m benchmarks.service [PAGE] [--rounds N] [--only NAME,NAME]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.host import fsync_p50, wake_p99
from benchmarks.report.jobs.page import cells
from benchmarks.report.service.page import page
from benchmarks.report.text import row
from benchmarks.service.measures import MEASURES


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description="Measure the service, as a page.")
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of measures")
    options = parser.parse_args()
    wanted = set(filter(None, options.only.split(",")))
    rows = []
    for name, (title, goal, measure) in MEASURES.items():
        if wanted and name not in wanted:
            continue
        floors, results = [], []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
                floors.append((1e6 * fsync_p50(Path(folder)), 1e3 * wake_p99()))
            results.append(measure())
            print(f"  {name}: {', '.join(f'{what} {value:,.3g}' for what, value in results[-1].items())}", flush=True)
        rows.append(cells(title, goal, floors, results))
        print(row(rows[-1]), flush=True)
    if options.page:
        whole = options.page.read_text(encoding="utf-8")
        options.page.write_text(page(whole, rows, options.rounds), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())

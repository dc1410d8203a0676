"""What `make bench-outlets` runs: every measure of the outlets, as a page.

usage: python -m benchmarks.outlets [PAGE] [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.host import about, fsync_p50, wake_p99
from benchmarks.outlets.measures import RATE, drain, lateness
from benchmarks.report.missed import missed
from benchmarks.report.scaling.page import with_table
from benchmarks.report.text import number, table
from pywheel import __version__

_PAGE: Final = """## The outlets

Written by `make bench-outlets`; do not edit. pywheel {version}, {about}.

{missed}

### What was measured

One worker process delivers signed webhooks of 128 bytes from a SQLite store with synchronous=FULL to endpoints in
another process on the same host. Measures take turns, {rounds} times each: the figure is the median, the best stands
in brackets. Before each round a 4 KB write with fdatasync took {fsync} ms, and a sleep of 1 ms lasted {wake} ms
longer at p99; the load of the {cores} processors was {load} at the beginning.

*late* is the time from the due time until the endpoint has the request, at {rate} deliveries a second to 20 endpoints
of one topic. *of a second* is the median of the p99s of all seconds. An endpoint that hangs never answers; each call
to it ends after 15 s. `concurrency` is 200, `per_host` 20. A row may say otherwise.

{table}
"""


def measures() -> dict[str, tuple[str, Callable[[Path], dict[str, float]]]]:
    """Return what is measured, with its goal."""
    return {
        "a backlog to one endpoint, deliveries a second": (
            ">= 2,000",
            lambda folder: drain(folder, 10_000),
        ),
        "late, one endpoint, ms": ("p99 <= 20", lambda folder: lateness(folder, healthy=1, seconds=10, per_host=200)),
        "late, nothing hangs, ms": ("", lambda folder: lateness(folder)),
        "late, 20 a second go to one that hangs, ms": ("p99 <= 20", lambda folder: lateness(folder, 20)),
        "late, 100 a second go to one that hangs, ms": ("p99 <= 20", lambda folder: lateness(folder, 100)),
        "the same 20 a second without shares (`per_host=10000`), ms": (
            "",
            lambda folder: lateness(folder, 20, per_host=10_000),
        ),
    }


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outlets", description="Measure the outlets, as a page.")
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    wanted, load = measures(), os.getloadavg()[0]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in wanted}
    floors: list[tuple[float, float]] = []
    for _ in range(options.rounds):
        for name, (_, measure) in wanted.items():
            with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
                floors.append((1e3 * fsync_p50(Path(folder)), 1e3 * wake_p99()))
                results[name].append(measure(Path(folder)))
            print(name, results[name][-1], flush=True)
    rows = [[name, goal, _cell(results[name])] for name, (goal, _) in wanted.items()]
    values: dict[str, Any] = {
        "version": __version__,
        "about": about(),
        "rounds": options.rounds,
        "rate": RATE,
        "cores": os.cpu_count(),
        "load": number(load),
        "fsync": number(median(fsync for fsync, _ in floors)),
        "wake": number(median(wake for _, wake in floors)),
        "missed": missed(rows, "###"),
        "table": table(("measure", "goal", "measured"), rows),
    }
    if options.page:
        whole = options.page.read_text(encoding="utf-8")
        part = _PAGE.format(**values).strip()
        options.page.write_text(with_table(whole, "outlets", part), encoding="utf-8")


def _cell(rounds: list[dict[str, float]]) -> str:
    """Return the median of each figure and the best of it."""
    words = {"deliveries": "", "second": "of a second "}
    parts = []
    for name in rounds[0]:
        values = [found[name] for found in rounds]
        best = max(values) if name == "deliveries" else min(values)
        parts.append(f"{words.get(name, name + ' ')}{number(median(values))} ({number(best)})")
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())

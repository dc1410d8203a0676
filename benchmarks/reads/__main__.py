"""What `make bench-reads` runs: stores full of jobs, and every read of the service, as tables.

usage: python -m benchmarks.reads [--jobs N] [--topics N] [--stores NAME,NAME] [--url URL] [--over MS]

With --url the store there is filled if it is empty, and is read as it is if not: so it can be kept for the next time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from itertools import islice
from statistics import median

from benchmarks.reads.fill import fill, topics_of
from benchmarks.reads.measures import Read, measures
from benchmarks.stores.places import chosen
from pywheel.stores import open

ROUNDS = 9


def main() -> None:
    """Fill, measure, and print."""
    options = _parser().parse_args()
    with ExitStack() as stack:
        if options.url:
            report("", options.url, options)
        for name, kind in () if options.url else chosen(options.stores).items():
            place = stack.enter_context(kind(durable=False))
            report(name, place.url(), options)


def report(name: str, url: str, options: argparse.Namespace) -> None:
    """Print the table of one store."""
    with open(url) as store:
        if not store.topics():
            fill(store, options.jobs, options.topics)
        counts = store.counts()
        jobs = sum(map(sum, counts.values()))
        load = os.getloadavg()[0]
        print(f"\n{name or store.url.partition(':')[0]}: {jobs} jobs, {len(counts)} topics; load {load:.1f}\n")
        print("| read | rows | best, ms | median, ms | worst, ms |\n|---|---|---|---|---|")
        for what, read in measures(store, topics_of(options.topics)[1]):
            if options.only in what:
                times, rows = timed(read)
                mark = " **" if min(times) > options.over else " "
                print(
                    f"|{mark}{what}{mark.strip()} | {rows} | {min(times):.1f} | {median(times):.1f} | {max(times):.1f} |",
                    flush=True,
                )


def timed(read: Read) -> tuple[list[float], int]:
    """Return how many ms it took each time but the first, and how many things came back."""
    found = read()
    times = []
    for _ in islice(iter(int, 1), ROUNDS):
        began = time.perf_counter()
        found = read()
        times.append((time.perf_counter() - began) * 1_000)
    jobs = getattr(found, "jobs", found)
    return times, len(jobs) if isinstance(jobs, list | dict) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reads", description="Measure what reads cost.")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--stores", default="", help="of sqlite, postgres, mysql, redis")
    parser.add_argument("--url", help="a store that is kept")
    parser.add_argument("--only", default="", help="reads whose name contains this")
    parser.add_argument("--over", type=float, default=20.0, metavar="MS", help="those that take longer are marked")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The program of `make bench-reads`: stores full of jobs, and every read of the service, as tables.

usage: python -m benchmarks.reads [--jobs N] [--topics N] [--stores NAME,NAME] [--url URL [--server PID]] [--over MS]

A busy machine makes reads wait. So each line also has the processor time, in this process and in the server. With --url
that store is filled if it is empty, and otherwise read as it is, so that it can be kept for the next time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median

from benchmarks.reads.fill import fill, topics_of
from benchmarks.reads.measures import Read, measures
from benchmarks.stores.places import chosen
from pywheel.jobs.queries import CountJobs, ListTopics
from pywheel.stores import open

ROUNDS = 100
SECONDS = 1.0


def main() -> None:
    """Fill, measure, and print."""
    options = _parser().parse_args()
    if options.url:
        report("", options.url, options)
        return
    for name, kind in chosen(options.stores).items():
        with kind(durable=False) as place:
            options.server = getattr(getattr(place, "server", None), "pid", 0)
            report(name, place.url(), options)


def report(name: str, url: str, options: argparse.Namespace) -> None:
    """Print the table of one store."""
    with open(url) as store:
        if not store.ask(ListTopics()):
            fill(store, options.jobs, options.topics)
        counts = store.ask(CountJobs())
        jobs = sum(map(sum, counts.values()))
        load = os.getloadavg()[0]
        print(f"\n{name or store.url.partition(':')[0]}: {jobs} jobs, {len(counts)} topics; load {load:.1f}\n")
        print("| read | rows | processor, ms | best, ms | median, ms |\n|---|---|---|---|---|")
        for what, read in measures(store, topics_of(options.topics)[1]):
            if options.only in what:
                print(line(what, read, options), flush=True)


def line(what: str, read: Read, options: argparse.Namespace) -> str:
    """Measure one read; return its line of the table, with a mark if the read takes too long."""
    found, before, times = read(), processor(options.server), []
    began = time.perf_counter()
    while len(times) < 5 or (len(times) < ROUNDS and time.perf_counter() < began + SECONDS):
        start = time.perf_counter()
        found = read()
        times.append((time.perf_counter() - start) * 1_000)
    took = (processor(options.server) - before) * 1_000 / len(times)
    jobs = getattr(found, "jobs", found)
    rows = len(jobs) if isinstance(jobs, list | dict) else 1
    shown = f"**{what}**" if took > options.over else what
    return f"| {shown} | {rows} | {took:.1f} | {min(times):.1f} | {median(times):.1f} |"


def processor(server: int) -> float:
    """Return the seconds of a processor that this process took so far, and a server with its children."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat") if server else ():
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if server in (int(stat.parent.name), int(fields[1])):
                ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reads", description="Measure what reads cost.")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--topics", type=int, default=1_000)
    parser.add_argument("--stores", default="", help="of sqlite, postgres, mysql, redis")
    parser.add_argument("--url", help="a store that is kept")
    parser.add_argument(
        "--server", type=int, default=0, metavar="PID", help="the server of --url: what it takes counts"
    )
    parser.add_argument("--only", default="", help="reads whose name contains this")
    parser.add_argument("--over", type=float, default=20.0, metavar="MS", help="what takes more is marked")
    return parser


if __name__ == "__main__":
    sys.exit(main())

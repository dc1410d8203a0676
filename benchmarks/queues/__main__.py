"""What `make bench-jobs-peers` runs: pywheel's jobs and other queues, the same jobs through each in turn, as a page.

usage: python -m benchmarks.queues [PAGE] [--rounds N] [--jobs N] [--only PEER,PEER] [--measures NAME,NAME]

For Linux: processes are measured through /proc. The servers are Debian's packages; a peer whose server or library is
missing is left out.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from benchmarks.host import fsync_p50, processor_ticks
from benchmarks.queues import measures, servers
from benchmarks.queues.catalogue import PEERS, Peer
from benchmarks.report.queues.chart import chart
from benchmarks.report.queues.page import figures, page
from benchmarks.report.text import number

COUNTS = {"enqueue": 5_000, "lateness": 2_000, "drain": 5_000, "idle": 10_000}


def main() -> None:
    """Measure and write the page."""
    options = _parser().parse_args()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: sys.exit("stopped"))
    counts = COUNTS | {"lateness": options.jobs}
    wanted = options.measures.split(",") if options.measures else list(counts)
    peers = [peer for peer in PEERS if not options.only or peer.name in options.only.split(",")]
    versions = {peer: text for peer in peers if (text := installed(peer))}
    found = {peer: defaultdict[str, list[float]](list) for peer in versions}
    stolen, passed = processor_ticks()
    for name in wanted:
        for peer in options.rounds * list(found):
            result = measured(name, peer, counts[name])
            for key, value in result.items():
                found[peer][key].append(value)
            told = ", ".join(f"{key} {number(value)}" for key, value in result.items())
            print(f"{peer.title}: {name}: {told}", flush=True)
    results = {peer: {key: summary(key, values) for key, values in seen.items()} for peer, seen in found.items()}
    print(figures(results))
    if options.page:
        stolen, passed = (after - before for after, before in zip(processor_ticks(), (stolen, passed), strict=True))
        text = page(results, versions, counts, options.rounds, 100 * stolen / passed)
        options.page.write_text(text, encoding="utf-8")
        chart({peer.title: result for peer, result in results.items()}, options.page.parent / "images" / "jobs-peers")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queues", description="Measure queues, as a page.")
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="how often each has its turn; the page has the medians")
    parser.add_argument("--jobs", type=int, default=2_000, help="whose lateness is measured; 20000 is the full scale")
    parser.add_argument("--only", default="", help="names of peers")
    parser.add_argument("--measures", default="", help=f"of {', '.join(COUNTS)}")
    return parser


def installed(peer: Peer) -> str | None:
    """Return the versions of a peer's packages and of its server; None, and say what is missing, if it cannot run."""
    try:
        return ", ".join([*(f"{name} {version(name)}" for name in peer.packages), servers.version(peer.server)])
    except (servers.Missing, PackageNotFoundError) as missing:
        print(f"{peer.title} is left out: {missing}", file=sys.stderr)
        return None


def summary(name: str, values: list[float]) -> float:
    """Return the median of the rounds, but all jobs that were early or missing."""
    return sum(values) if name in ("early", "missing") else median(values)


def measured(name: str, peer: Peer, count: int) -> dict[str, float]:
    """Return a measure and the fsync before it; one that fails is told and left out."""
    with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
        fsync = 1e6 * fsync_p50(Path(folder))
    try:
        return getattr(measures, name)(peer, count) | {"fsync": fsync}
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"{peer.title}: {name} failed: {error}", file=sys.stderr)
        return {"fsync": fsync}


if __name__ == "__main__":
    sys.exit(main())

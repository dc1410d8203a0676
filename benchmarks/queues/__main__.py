"""What `make bench-jobs-peers` measures: pywheel's jobs and other queues, the same calls through each in turn.

usage: python -m benchmarks.queues [--rounds N] [--part N] [--only PEER,PEER] [--kept FILE]

For Linux. The servers are Debian's packages; a peer whose server or library is missing is left out. New results replace
the old results of the same peers.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import kept
from benchmarks.host import fsync_p50
from benchmarks.queues import languages, servers
from benchmarks.queues.catalogue import PEERS, Peer
from benchmarks.queues.measures import measured
from benchmarks.report.text import number

ROUNDS = 3


def main() -> None:
    """Measure, and keep what was seen."""
    options = _parser().parse_args()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: sys.exit("stopped"))
    path = options.kept or (kept.RESULTS if options.part == 1 else kept.TRIED) / "queues.json"
    versions = {peer: text for peer in _chosen(options.only) if (text := installed(peer))}
    found = kept.begun(path, {peer.name: text for peer, text in versions.items()})
    found["results"] |= {peer.name: [] for peer in versions}
    for round_ in range(options.rounds):
        for peer in versions:
            began = time.perf_counter()
            with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
                floors = {"load": os.getloadavg()[0], "fsync": fsync_p50(Path(folder))}
            try:
                values = measured(peer, options.part, late=round_ == 0)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:  # the others have their turns
                print(f"{peer.title} failed: {error}", file=sys.stderr)
                continue
            found["results"][peer.name].append(floors | values)
            kept.write(found, path)
            told = ", ".join(f"{key} {number(value)}" for key, value in values.items())
            print(f"{peer.title}: {told} ({time.perf_counter() - began:.0f} s)", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queues", description="Measure queues.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each has its turn")
    parser.add_argument("--part", type=int, default=1, metavar="N", help="an N-th of the jobs, kept in build")
    parser.add_argument("--only", default="", help=f"of {', '.join(peer.name for peer in PEERS)}")
    parser.add_argument("--kept", type=Path, help="the file of results")
    return parser


def _chosen(names: str) -> list[Peer]:
    wanted = set(filter(None, names.split(",")))
    if unknown := wanted - {peer.name for peer in PEERS}:
        sys.exit(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(peer.name for peer in PEERS)}")
    return [peer for peer in PEERS if not wanted or peer.name in wanted]


def installed(peer: Peer) -> str | None:
    """Return the versions of a peer's packages and of its server; None, and say what is missing, if it cannot run."""
    try:
        languages.command(peer.language)
        packages = [f"{name} {languages.version(peer.language, name)}" for name in peer.packages]
        return ", ".join([*packages, servers.version(peer.server)])
    except servers.Missing as missing:
        print(f"{peer.title} is left out: {missing}", file=sys.stderr)
        return None


if __name__ == "__main__":
    sys.exit(main())

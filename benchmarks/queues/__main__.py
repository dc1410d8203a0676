"""What `make bench-jobs-peers` runs: pywheel's jobs and other queues, the same jobs through each in turn, as a page.

usage: python -m benchmarks.queues [PAGE] [--rounds N] [--part N] [--only PEER,PEER] [--measures NAME,NAME]

For Linux: processes are measured through /proc. The servers are Debian's packages; a peer whose server or library is
missing is left out. What is measured replaces what was measured before; the rest of the page stays: results are kept in
build/jobs-peers.json.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.host import fsync_p50, processor_ticks
from benchmarks.queues import languages, servers
from benchmarks.queues.catalogue import PEERS, Peer
from benchmarks.queues.measures import MEASURES, Measure
from benchmarks.report.queues.goals import CONTENDERS, CONTESTED
from benchmarks.report.queues.page import page
from benchmarks.report.stores.results import Results, Turn, middle, read, write
from benchmarks.report.text import number

KEPT = Path("build/jobs-peers.json")
T = TypeVar("T", Peer, Measure)


def main() -> None:
    """Measure and write the page."""
    options = _parser().parse_args()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: sys.exit("stopped"))
    versions = {peer: text for peer in PEERS if (text := installed(peer))}
    results = read(options.kept)
    peers = [peer for peer in _chosen(options.only, PEERS, "peer") if peer in versions]
    for measure in _chosen(options.measures, MEASURES, "measure"):
        able = [peer for peer in peers if fast_enough(peer, measure, results)]
        results[measure.name] = results.get(measure.name, {}) | measured(measure, able, options.rounds, options.part)
        write(results, options.kept)
    if options.page:
        report(results, versions, options.page)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queues", description="Measure queues, as a page.")
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=3, help="how often that of which there are goals is measured")
    parser.add_argument("--part", type=int, default=1, metavar="N", help="an N-th of the jobs")
    parser.add_argument("--only", default="", help=f"of {', '.join(peer.name for peer in PEERS)}")
    parser.add_argument("--measures", default="", help=f"of {', '.join(measure.name for measure in MEASURES)}")
    parser.add_argument("--kept", type=Path, default=KEPT, help="the file of results")
    return parser


def _chosen(names: str, among: Sequence[T], what: str) -> list[T]:
    wanted = set(filter(None, names.split(",")))
    if unknown := wanted - {one.name for one in among}:
        sys.exit(f"no such {what}: {', '.join(sorted(unknown))}; there are {', '.join(one.name for one in among)}")
    return [one for one in among if not wanted or one.name in wanted]


def installed(peer: Peer) -> str | None:
    """Return the versions of a peer's packages and of its server; None, and say what is missing, if it cannot run."""
    try:
        languages.command(peer.language)
        packages = [f"{name} {languages.version(peer.language, name)}" for name in peer.packages]
        return ", ".join([*packages, servers.version(peer.server)])
    except servers.Missing as missing:
        print(f"{peer.title} is left out: {missing}", file=sys.stderr)
        return None


def fast_enough(peer: Peer, measure: Measure, results: Results) -> bool:
    """Return whether it drained as fast as a measure asks for, if it asks."""
    return not measure.floor or (middle(results.get("drain5", {}).get(peer.name, []), "drain") or 0) >= measure.floor


def measured(measure: Measure, peers: Sequence[Peer], rounds: int, part: int) -> dict[str, list[Turn]]:
    """Return what each did, a turn a round; that of which there are no goals has its turn in the first."""
    found: dict[str, list[Turn]] = {}
    contenders = [one for name in CONTENDERS for one in peers if one.name == name and measure.name in CONTESTED]
    others = [peer for peer in peers if peer not in contenders]
    for among in [contenders + others, *[contenders] * (rounds - 1)]:
        for peer in among:
            try:
                turn = one_turn(measure, peer, part)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:  # the others have their turns
                print(f"{peer.title}: {measure.name} failed: {error}", file=sys.stderr)
                continue
            found.setdefault(peer.name, []).append(turn)
            told = ", ".join(f"{key} {number(value)}" for key, value in turn["values"].items())
            print(f"{peer.title}: {measure.name}: {told}", flush=True)
    return found


def one_turn(measure: Measure, peer: Peer, part: int) -> Turn:
    """Measure once, and before it what a write to the disk takes."""
    with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
        floors = {"load": os.getloadavg()[0], "fsync": fsync_p50(Path(folder))}
    before = processor_ticks()
    values = measure.run(peer, max(measure.count // part, 1))
    stolen, passed = (after - then for after, then in zip(processor_ticks(), before, strict=True))
    return {"part": part, **floors, "stolen": 100 * stolen / passed, "values": values}  # type: ignore[typeddict-item]


def report(results: Results, versions: dict[Peer, str], path: Path) -> None:
    """Write the page and its picture."""
    from benchmarks.report.queues.chart import chart  # matplotlib: results alone need none

    known = {peer: text for peer, text in versions.items() if any(peer.name in found for found in results.values())}
    path.write_text(page(results, known), encoding="utf-8")
    chart(results, known, path.parent / "images" / path.stem)


if __name__ == "__main__":
    sys.exit(main())

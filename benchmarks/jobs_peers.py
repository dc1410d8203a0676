"""What `make bench-jobs-peers` runs: pywheel's jobs and other queues, the same jobs through each in turn, as a page.

usage: python -m benchmarks.jobs_peers [PAGE] [--jobs N] [--only PEER,PEER] [--measures NAME,NAME]

For Linux: processes are measured through /proc. The servers are Debian's packages; a peer whose server or library is
missing is left out.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

from benchmarks.job_peers import measures, servers
from benchmarks.job_peers.catalogue import PEERS, Peer
from benchmarks.jobs_floor import fsync_p50

HEAD = """\
# The jobs beside other queues

Written by `make bench-jobs-peers`; do not edit. CPython {python}, {system}, {cores} cores, on which client, worker and
server run together.

Every queue gets the same: 128-byte bodies, one client process that puts one by one, one worker in its own documented
way with 8 threads or coroutines where it has them, a handler that only notes the time. Each figure is one run;
meanwhile the host took {stolen:.0f} % of the processors' time away, which shows above all in the p99 and the max.

- **put**: jobs with delays of 5 to 20 s, a second, while no worker runs ({puts:,} jobs)
- **late**: ms from the moment a job was asked for to the call of its handler, put beside a running worker ({late:,}
  jobs, that is {pace:.0f} a second, which a queue that drains no faster cannot keep up with); **early** counts those
  that came more than 1 ms too soon
- **drain**: jobs already due when the worker starts, a second, from the first call to the last ({drain:,} jobs)
- **idle**: {idle:,} jobs a day ahead: per cent of a core over 10 s of all processes of the worker and of the server,
  if it has one, and the resident MB of the worker's processes
- **fsync**: median microseconds of a 4 KB write with fdatasync, before each measure; the median of those

They do not promise the same: what is on the disk when a put returns, and what a killed worker loses, stands below.

| queue | put/s | late p50 | p99 | max | early | drain/s | idle CPU % | server % | MB | fsync |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
COLUMNS = ["put", "p50", "p99", "max", "early", "drain", "worker", "server", "rss", "fsync"]
COUNTS = {"enqueue": 5_000, "lateness": 2_000, "drain": 5_000, "idle": 10_000}


def main() -> None:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", nargs="?", type=Path)
    parser.add_argument("--jobs", type=int, default=2_000, help="whose lateness is measured; 20000 takes no longer")
    parser.add_argument("--only", default="", help="names of peers")
    parser.add_argument("--measures", default="", help=f"of {', '.join(COUNTS)}")
    options = parser.parse_args()
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, lambda *_: sys.exit("stopped"))
    counts = COUNTS | {"lateness": options.jobs}
    wanted = options.measures.split(",") if options.measures else list(counts)
    peers = [peer for peer in PEERS if not options.only or peer.name in options.only.split(",")]
    found = {peer: dict[str, float]() for peer in peers if here(peer)}
    fsyncs: dict[Peer, list[float]] = {peer: [] for peer in found}
    stolen, passed = processor_ticks()
    for name in wanted:
        for peer in found:
            result = measured(name, peer, counts[name])
            fsyncs[peer].append(result.pop("fsync"))
            found[peer] |= result
            print(
                f"{peer.title}: {name}: {', '.join(f'{key} {shown(value)}' for key, value in result.items())}",
                flush=True,
            )
    lines = [line(peer, result | {"fsync": median(fsyncs[peer])}) for peer, result in found.items()]
    print("\n".join(lines))
    if options.page:
        stolen, passed = (after - before for after, before in zip(processor_ticks(), (stolen, passed), strict=True))
        options.page.write_text(page(lines, list(found), counts, 100 * stolen / passed))


def here(peer: Peer) -> bool:
    """Return whether all that it needs is installed; otherwise say what is not."""
    try:
        about(peer)
    except (servers.Missing, PackageNotFoundError) as missing:
        print(f"{peer.title} is left out: {missing}", file=sys.stderr)
        return False
    return True


def about(peer: Peer) -> str:
    """Return the versions of a peer's packages and of its server."""
    return ", ".join([*(f"{name} {version(name)}" for name in peer.packages), servers.version(peer.server)])


def measured(name: str, peer: Peer, count: int) -> dict[str, float]:
    """Return a measure and the fsync before it; one that fails is told and left out."""
    with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
        fsync = 1e6 * fsync_p50(Path(folder))
    try:
        return getattr(measures, name)(peer, count) | {"fsync": fsync}
    except (RuntimeError, OSError) as error:
        print(f"{peer.title}: {name} failed: {error}", file=sys.stderr)
        return {"fsync": fsync}


def processor_ticks() -> tuple[int, int]:
    """Return those that the host took from this machine so far, and all."""
    ticks = [int(text) for text in Path("/proc/stat").read_text().split()[1:9]]
    return ticks[7], sum(ticks)


def line(peer: Peer, result: dict[str, float]) -> str:
    """Return a row of the table."""
    cells = [shown(result[name]) if name in result else "" for name in COLUMNS]
    lost = f" ({result['missing']:,.0f} did not come in time)" if result.get("missing") else ""
    return f"| {peer.title}{lost} | {' | '.join(cells)} |"


def shown(value: float) -> str:
    """Return three digits, no zeros behind."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def page(lines: list[str], peers: list[Peer], counts: dict[str, int], stolen: float) -> str:
    """Return the whole page."""
    head = HEAD.format(
        python=platform.python_version(),
        system=platform.system(),
        cores=os.cpu_count(),
        puts=counts["enqueue"],
        late=counts["lateness"],
        stolen=stolen,
        pace=counts["lateness"] / 15,
        drain=counts["drain"],
        idle=counts["idle"],
    )
    notes = [
        f"## {peer.title}\n\n{about(peer)}.\n\n- Durable: {peer.durability}.\n- Configured: {peer.configured}\n"
        f"- Not promised: {peer.caveats}\n"
        for peer in peers
    ]
    return head + "\n".join(lines) + "\n\n" + "\n".join(notes)


if __name__ == "__main__":
    sys.exit(main())

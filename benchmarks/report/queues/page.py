"""The page of what was measured beside pywheel's jobs, and what stands in it about each queue."""

from __future__ import annotations

import os
import platform
import textwrap
from importlib.metadata import version

from benchmarks.queues import servers
from benchmarks.queues.catalogue import Peer

HEAD = """\
# The jobs beside other queues

Written by `make bench-jobs-peers`; do not edit. CPython {python}, {system}, {cores} cores, which client, worker and
server share.

Every queue gets the same: 128-byte bodies, one client process that puts one by one, one worker in its own documented
way with 8 threads or coroutines where it has them, a handler that only notes the time. Rounds in which each had its
turn: {rounds}; the figures are the medians. The host took {stolen:.0f} % of the processors' time away. What waits for
the disk is as late as its slowest writes: p99 and max change from run to run.

![how late, and how many a second](images/jobs-peers.svg)

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


def about(peer: Peer) -> str:
    """Return the versions of a peer's packages and of its server."""
    return ", ".join([*(f"{name} {version(name)}" for name in peer.packages), servers.version(peer.server)])


def line(peer: Peer, result: dict[str, float]) -> str:
    """Return a row of the table."""
    cells = [shown(result[name]) if name in result else "" for name in COLUMNS]
    lost = f" ({result['missing']:,.0f} did not come in time)" if result.get("missing") else ""
    return f"| {peer.title}{lost} | {' | '.join(cells)} |"


def shown(value: float) -> str:
    """Return three digits, no zeros behind."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def item(text: str) -> str:
    """Return an item of a list, in lines."""
    return textwrap.fill(text, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) + "\n"


def page(lines: list[str], peers: list[Peer], counts: dict[str, int], rounds: int, stolen: float) -> str:
    """Return the whole page."""
    head = HEAD.format(
        python=platform.python_version(),
        system=platform.system(),
        cores=os.cpu_count(),
        puts=counts["enqueue"],
        late=counts["lateness"],
        rounds=rounds,
        stolen=stolen,
        pace=counts["lateness"] / 15,
        drain=counts["drain"],
        idle=counts["idle"],
    )
    notes = [
        f"## {peer.title}\n\n{about(peer)}.\n\n"
        + item(f"Durable: {peer.durability}.")
        + item(f"Configured: {peer.configured}")
        + item(f"Not promised: {peer.caveats}")
        for peer in peers
    ]
    return head + "\n".join(lines) + "\n\n" + "\n".join(notes)

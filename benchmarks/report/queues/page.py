"""The page of what was measured beside pywheel's jobs, and what stands in it about each queue."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks import host
from benchmarks.queues.catalogue import Peer
from benchmarks.report.text import item, number, table

PAGE = Path(__file__).with_name("page.md")
COLUMNS = {
    "put": "put/s",
    "p50": "late p50",
    "p99": "p99",
    "max": "max",
    "early": "early",
    "drain": "drain/s",
    "worker": "idle CPU %",
    "server": "server %",
    "rss": "MB",
    "fsync": "fsync",
}

Results = Mapping[Peer, Mapping[str, float]]


def page(results: Results, versions: Mapping[Peer, str], counts: Mapping[str, int], rounds: int, stolen: float) -> str:
    """Return the whole page; `versions` says for each queue what was installed."""
    return PAGE.read_text(encoding="utf-8").format(
        host=host.about(),
        puts=counts["enqueue"],
        late=counts["lateness"],
        rounds=rounds,
        stolen=stolen,
        pace=counts["lateness"] / 15,
        drain=counts["drain"],
        idle=counts["idle"],
        table=figures(results),
        notes="\n".join(note(peer, versions[peer]) for peer in results),
    )


def figures(results: Results) -> str:
    """Return the table."""
    return table(("queue", *COLUMNS.values()), [cells(peer, result) for peer, result in results.items()])


def cells(peer: Peer, result: Mapping[str, float]) -> list[str]:
    """Return a row of the table."""
    lost = f" ({result['missing']:,.0f} did not come in time)" if result.get("missing") else ""
    return [f"{peer.title}{lost}", *(number(result[name]) if name in result else "" for name in COLUMNS)]


def note(peer: Peer, versions: str) -> str:
    """Return what is to be known about a queue."""
    return (
        f"## {peer.title}\n\n{versions}.\n\n"
        + item(f"Durable: {peer.durability}.")
        + item(f"Configured: {peer.configured}")
        + item(f"Not promised: {peer.caveats}")
    )

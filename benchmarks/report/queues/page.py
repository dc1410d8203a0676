"""The page of what was measured beside pywheel's jobs, and what stands in it about each queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from benchmarks.host import told
from benchmarks.kept import Kept
from benchmarks.queues.catalogue import PEERS, Peer
from benchmarks.queues.measures import DRAINS, LATE, PACE, SECONDS
from benchmarks.report.text import number, row, table

PAGE = Path(__file__).with_name("page.md")
PUTS = {"one": "one by one", "tasks": "by 100 tasks", "many": "1000 at once"}
ENDS = {
    "nothing": "nothing",
    "sleep1": "sleeps 1 ms",
    "sleep10": "sleeps 10 ms",
    "computes": "computes 0.2 ms",
    "first": "first end, s",
    "after": "then a second",
}
LATENESS = {"p50": "p50", "p99": "p99", "max": "max", "early": "early"}
Rounds = Sequence[dict[str, float]]


def page(kept: Kept) -> str:
    """Return the whole page."""
    found = known(kept)
    turns = [turn for rounds in found.values() for turn in rounds]
    return PAGE.read_text(encoding="utf-8").format(
        about=told(kept["about"]),
        rounds="-".join(map(str, sorted({len(rounds) for rounds in found.values()}))),
        load=median(turn["load"] for turn in turns),
        fsync=1e6 * median(turn["fsync"] for turn in turns),
        pace=PACE,
        late=LATE,
        seconds=SECONDS,
        puts=figures(found, PUTS),
        ends=figures(found, ENDS),
        lateness=figures(found, LATENESS),
        queues=queues(found, kept["about"]["versions"]),
        shared=", ".join(shared(found, kept["about"]["versions"])),
        **DRAINS,
    )


def known(kept: Kept) -> dict[Peer, Rounds]:
    """Return the rounds of each queue that was measured."""
    return {peer: rounds for peer in PEERS if (rounds := kept["results"].get(peer.name))}


def middle(rounds: Rounds, key: str) -> float | None:
    """Return the median of the rounds; None if there is none."""
    values = [turn[key] for turn in rounds if key in turn]
    return median(values) if values else None


def figures(found: dict[Peer, Rounds], columns: dict[str, str]) -> str:
    """Return a table with a line for each queue, of medians."""
    rows = []
    for peer, rounds in found.items():
        values = [middle(rounds, key) for key in columns]
        missing = sum(turn.get("missing", 0) for turn in rounds)
        owed = f" ({missing:,.0f} did not come in time)" if missing and columns is LATENESS else ""
        rows.append([peer.title + owed, *("" if value is None else number(value) for value in values)])
    return table(["queue", *columns.values()], rows)


def shared(found: Iterable[Peer], versions: dict[str, str]) -> list[str]:
    """Return what more than one queue was measured with, with its version."""
    counted = Counter(part for peer in found for part in versions[peer.name].split(", "))
    return [part for part, count in counted.items() if count > 1]


def queues(found: dict[Peer, Rounds], versions: dict[str, str]) -> str:
    """Return a table of what is to be known about each queue."""
    head = ("queue", "of", "on the disk", "configured", "not promised")
    several = shared(found, versions)
    rows = [
        [
            peer.title,
            ", ".join(part for part in versions[peer.name].split(", ") if part not in several),
            peer.durability,
            peer.configured,
            peer.caveats,
        ]
        for peer in found
    ]
    return "\n".join([row(head), "|---" * len(head) + "|", *map(row, rows)])

"""The page of what was measured beside pywheel's jobs, and what stands in it about each queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import host
from benchmarks.queues.catalogue import Peer
from benchmarks.queues.measures import MEASURES, PACE
from benchmarks.report.queues.goals import CONTENDERS, CONTESTED, GOALS
from benchmarks.report.stores.results import Results, Turn, middle
from benchmarks.report.text import number, row, table

PAGE = Path(__file__).with_name("page.md")


class Column(NamedTuple):
    """A value of a measure."""

    title: str
    measure: str
    key: str


RATES = [
    Column("put one by one", "puts", "one"),
    Column("by 100 tasks", "puts", "tasks"),
    Column("1000 at once", "puts", "many"),
    Column("drain of 5 000", "drain5", "drain"),
    Column("of 20 000", "drain20", "drain"),
]
REST = [
    Column("late p50", "late", "p50"),
    Column("p99", "late", "p99"),
    Column("max", "late", "max"),
    Column("early", "late", "early"),
    Column("idle CPU %", "idle", "worker"),
    Column("server %", "idle", "server"),
    Column("MB", "idle", "rss"),
]


def page(results: Results, versions: Mapping[Peer, str]) -> str:
    """Return the whole page; `versions` says for each queue what was installed."""
    turns = [turn for found in results.values() for some in found.values() for turn in some]
    return PAGE.read_text(encoding="utf-8").format(
        host=host.about(),
        goals=goals(results, {peer.name: peer.title for peer in versions}),
        rounds=rounds(results, goals=True),
        turns=rounds(results, goals=False),
        stolen=median(turn["stolen"] for turn in turns),
        load=median(turn["load"] for turn in turns),
        fsync=1e6 * median(turn["fsync"] for turn in turns),
        pace=PACE,
        slow=next(measure.floor for measure in MEASURES if measure.floor),
        rates=figures(results, versions, RATES),
        rest=figures(results, versions, REST),
        queues=queues(versions),
        **{measure.name: measure.count for measure in MEASURES},
    )


def goals(results: Results, titles: Mapping[str, str]) -> str:
    """Return a table of the goals: the medians of the rounds' ratios, bold if missed, and those of all rounds."""
    rows = []
    for goal in GOALS:
        ratios = goal.ratios(results)
        if not ratios:
            continue
        reached = number(median(ratios))
        missed = goal.missed(ratios)
        rows.append(
            [
                f"{goal.title}: {titles[goal.ours]} / {titles[goal.theirs]}",
                goal.told(),
                f"**{reached}**" if missed else reached,
                "missed" if missed else "met",
                ", ".join(map(number, sorted(ratios))),
            ]
        )
    return table(("ours / theirs", "goal", "reached", "", "in each round"), rows)


def figures(results: Results, peers: Mapping[Peer, str], columns: Sequence[Column]) -> str:
    """Return a table with a line for each queue."""
    head = ["queue", *(column.title for column in columns)]
    return table(head, [[name(results, peer), *(cell(results, peer, column) for column in columns)] for peer in peers])


def cell(results: Results, peer: Peer, column: Column) -> str:
    """Return the median of the rounds, but all jobs that were early; nothing if there is none."""
    turns = results.get(column.measure, {}).get(peer.name, [])
    value = middle(turns, column.key)
    if value is None:
        return ""
    return number(total(turns, column.key) if column.key == "early" else value)


def name(results: Results, peer: Peer) -> str:
    """Return a queue's title, and how many jobs it owes."""
    missing = total(results.get("late", {}).get(peer.name, []), "missing")
    return f"{peer.title} ({missing:,.0f} did not come in time)" if missing else peer.title


def total(turns: Sequence[Turn], key: str) -> float:
    """Return the sum of the rounds."""
    return sum(turn["values"].get(key, 0) for turn in turns)


def rounds(results: Results, *, goals: bool) -> str:
    """Return how many turns those had of which there are goals, or the others."""
    counts = {
        len(turns)
        for measure, found in results.items()
        for name, turns in found.items()
        if (name in CONTENDERS and measure in CONTESTED) is goals
    }
    return "-".join(map(str, sorted(counts)))


def queues(versions: Mapping[Peer, str]) -> str:
    """Return a table of what is to be known about each queue."""
    head = ("queue", "of", "on the disk", "configured", "not promised")
    rows = [[peer.title, found, peer.durability, peer.configured, peer.caveats] for peer, found in versions.items()]
    return "\n".join([row(head), row(["---"] * len(head)), *map(row, rows)])

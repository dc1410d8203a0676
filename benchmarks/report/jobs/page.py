"""The pages whose tables have a row for each measure: the jobs, the service, the outlets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.host import told
from benchmarks.kept import Kept
from benchmarks.report.missed import reached, verdicts
from benchmarks.report.text import number, table

HEAD = ("measure", "goal", "measured")
LESS_IS_BETTER = ("p50", "p99", "p100", "processor ms")


def page(template: Path, kept: Kept) -> str:
    """Return a page, or a part of one."""
    results = kept["results"].values()
    rows = [[found["title"], found["goal"], shown(found["rounds"])] for found in results]
    known = verdicts(rows)
    rounds = max(len(found["rounds"]) for found in results)
    for cells, verdict in zip(rows, known, strict=True):
        if verdict is False:
            cells[0] = f"**{cells[0]}**"
    return template.read_text(encoding="utf-8").format(
        about=told(kept["about"]),
        versions=kept["about"]["versions"],
        rounds=f"{rounds} times" if rounds > 1 else "once",
        floors=floors(list(results)),
        table=table(HEAD, rows),
        reached=reached(known),
    )


def floors(found: Sequence[Any]) -> str:
    """Return between which figures the floors of all measures were: us of an fsync, and ms of a wake-up."""
    fsync, wake = ([median(pair[place] for pair in one["floors"]) for one in found] for place in (0, 1))
    return f"fsync took {min(fsync):.0f} to {max(fsync):.0f} us, a wake-up {min(wake):.2f} to {max(wake):.2f} ms"


def shown(rounds: Sequence[Any], name: str = "") -> str:
    """Return the median of the rounds, and the best of them, as text."""
    if isinstance(rounds[0], dict):
        return ", ".join(f"{key} {shown([found[key] for found in rounds], key)}" for key in rounds[0])
    best = min if name.startswith(LESS_IS_BETTER) else max
    return number(median(rounds)) + (f" ({number(best(rounds))})" if len(rounds) > 1 else "")

"""The page of what the jobs were measured to do, beside the floors of disk and host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pywheel
from benchmarks import host
from benchmarks.report.missed import missed
from benchmarks.report.text import number, table

PAGE = Path(__file__).with_name("page.md")
HEAD = ("measure", "fsync, us", "wake, ms", "goal", "measured")
LESS_IS_BETTER = {"p50", "p99", "p100"}


def page(rows: Iterable[Sequence[str]], rounds: int) -> str:
    """Return the whole page."""
    rows = list(rows)
    return PAGE.read_text(encoding="utf-8").format(
        version=pywheel.__version__, host=host.about(), rounds=rounds, table=table(HEAD, rows), missed=missed(rows)
    )


def cells(title: str, goal: str, floors: Sequence[tuple[float, float]], results: Sequence[Any]) -> list[str]:
    """Return a row of the table; `floors` are us of an fsync and ms of a wake-up, one pair a round."""
    fsync, wake = map(median, zip(*floors, strict=True))
    return [title, f"{fsync:.0f}", f"{wake:.2f}", goal, shown(results)]


def shown(results: Sequence[Any], name: str = "") -> str:
    """Return the median of the rounds, and the best of them, as text."""
    if isinstance(results[0], dict):
        return ", ".join(f"{name} {shown([result[name] for result in results], name)}" for name in results[0])
    best = min if name in LESS_IS_BETTER else max
    return number(median(results)) + (f" ({number(best(results))})" if len(results) > 1 else "")

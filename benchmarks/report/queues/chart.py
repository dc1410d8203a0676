"""The picture above the page: how late jobs come, and how fast a backlog goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import pyplot

from benchmarks.report.style import STYLE, bars, save, without_scale
from benchmarks.report.text import number


def chart(results: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """Draw one bar for each queue, on logarithmic scales."""
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
        _bars(panels[0], "late at p99, ms (less is better)", "p99", results, best=min)
        _bars(panels[1], "backlog, jobs/s (more is better)", "drain", results, best=max)
        save(figure, path)


def _bars(panel: Any, title: str, name: str, results: Mapping[str, Mapping[str, float]], best: Any) -> None:
    known = sorted(
        ((result[name], queue.split(",")[0]) for queue, result in results.items() if name in result),
        reverse=best is min,
    )
    if not known:
        return
    bars(panel, title, {queue: value for value, queue in known}, number, height=0.7)
    values = [value for value, _ in known]
    panel.set_xscale("log")
    panel.set_xlim(min(values) / 2, max(values) * 6)
    without_scale(panel)
    panel.spines["left"].set_visible(False)

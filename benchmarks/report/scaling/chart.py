"""The picture of the paper: how far one store goes, where its knee is, and how many stores carry all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from benchmarks.report.style import STYLE, save

Points = Mapping[str, list[tuple[float, float]]]
COLOURS = {"PostgreSQL": "C0", "MariaDB": "C4", "Redis always": "C1", "Redis everysec": "C2", "SQLite": "C3"}


def chart(answers: Mapping[str, Points], path: Path) -> None:
    """Draw three panels."""
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
        _lines(panels[0], "one store: jobs/s by workers", answers["workers"])
        panels[0].set_ylim(bottom=0)
        _lines(panels[1], "p99 in ms by jobs/s, 8 workers", answers["load"])
        _lines(panels[2], "100,000 jobs/s: p99 in ms by stores", answers["stores"])
        for panel in (panels[0], panels[2]):
            panel.set_xscale("log", base=2)
            panel.xaxis.set_major_formatter("{x:.0f}")
        for panel in panels[1:]:
            panel.set_yscale("log")
            panel.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            panel.yaxis.set_major_formatter("{x:g}")
            panel.yaxis.set_minor_formatter(NullFormatter())
        panels[0].yaxis.set_major_formatter("{x:,.0f}")
        panels[1].xaxis.set_major_locator(MaxNLocator(4))
        panels[1].xaxis.set_major_formatter("{x:,.0f}")
        for panel in panels:
            panel.legend(frameon=False, fontsize=8)
        save(figure, path)


def _lines(panel: Any, title: str, lines: Points) -> None:
    for name, points in lines.items():
        panel.plot(
            *zip(*points, strict=True), marker="o", markersize=3.5, linewidth=1.4, label=name, color=COLOURS[name]
        )
    panel.set_title(title, loc="left")

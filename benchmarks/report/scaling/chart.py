"""The picture of the paper: how far one store goes, where its knee is, and how many stores carry all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import pyplot

from benchmarks.report.style import STYLE, save

Points = Mapping[str, list[tuple[float, float]]]


def chart(answers: Mapping[str, Points], path: Path) -> None:
    """Draw three panels."""
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
        _lines(panels[0], "jobs/s of one store, by workers", answers["workers"])
        panels[0].set_xscale("log", base=2)
        panels[0].set_ylim(bottom=0)
        _lines(panels[1], "late at p99, ms, by jobs/s", answers["load"])
        _lines(panels[2], "late at p99, ms, by stores, 100 000 jobs/s", answers["stores"])
        panels[2].set_xscale("log", base=2)
        for panel in panels[1:]:
            panel.set_yscale("log")
        for panel in (panels[0], panels[2]):
            panel.xaxis.set_major_formatter("{x:.0f}")
        panels[0].legend(frameon=False, fontsize=8)
        panels[2].legend(frameon=False, fontsize=8)
        save(figure, path)


def _lines(panel: Any, title: str, lines: Points) -> None:
    for name, points in lines.items():
        panel.plot(*zip(*points, strict=True), marker="o", markersize=3.5, linewidth=1.4, label=name)
    panel.set_title(title, loc="left")

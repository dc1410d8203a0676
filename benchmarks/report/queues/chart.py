"""The picture above the page: how many jobs can be put, how fast a backlog goes, how late jobs come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import pyplot

from benchmarks.kept import Kept
from benchmarks.report.queues.page import known, middle
from benchmarks.report.style import STYLE, bars, save, without_scale
from benchmarks.report.text import number

PANELS = {
    "one": "put one by one, jobs/s",
    "nothing": "backlog, from the worker's start, jobs/s",
    "p99": "late at p99, ms (less is better)",
}


def draw(kept: Kept, images: Path) -> None:
    """Draw one bar for each queue, on logarithmic scales, the best on top."""
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, len(PANELS), figsize=(14, 4.4), layout="constrained")
        for panel, (key, title) in zip(panels, PANELS.items(), strict=True):
            values = {peer.title: value for peer, rounds in known(kept).items() if (value := middle(rounds, key))}
            _bars(panel, title, {name: abs(value) for name, value in values.items()}, descending=key == "p99")
        save(figure, images / "jobs-peers")


def _bars(panel: Any, title: str, values: Mapping[str, float], *, descending: bool) -> None:
    if not values:
        panel.set_axis_off()
        return
    known = dict(sorted(values.items(), key=lambda pair: pair[1], reverse=descending))
    ours = {queue for queue in known if queue.startswith("pywheel")}
    bars(panel, title, known, number, ours=ours, height=0.7)
    panel.set_xscale("log")
    panel.set_xlim(min(known.values()) / 2, max(known.values()) * 6)
    without_scale(panel)
    panel.spines["left"].set_visible(False)

"""The picture above the page: how many jobs can be put, how fast a backlog goes, how late jobs come."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib import pyplot

from benchmarks.queues.catalogue import Peer
from benchmarks.report.stores.results import Results, middle
from benchmarks.report.style import STYLE, bars, save, without_scale
from benchmarks.report.text import number

PANELS = [
    ("put one by one, jobs/s", "puts", "one"),
    ("backlog of 5 000, jobs/s", "drain5", "drain"),
    ("late at p99, ms (less is better)", "late", "p99"),
]


def chart(results: Results, peers: Mapping[Peer, str], path: Path) -> None:
    """Draw one bar for each queue, on logarithmic scales, the best on top."""
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, len(PANELS), figsize=(14, 3.8), layout="constrained")
        for panel, (title, measure, key) in zip(panels, PANELS, strict=True):
            turns = {peer.title.split(",")[0]: results.get(measure, {}).get(peer.name, []) for peer in peers}
            values = {title: value for title, some in turns.items() if (value := middle(some, key))}
            _bars(panel, title, values, descending=key == "p99")
        save(figure, path)


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

"""The picture above the page: the figures of each store, with marks at their goals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import pyplot

from benchmarks.kept import Kept
from benchmarks.report.stores.figures import FIGURES, Figure
from benchmarks.report.stores.results import STORES, Results, middle
from benchmarks.report.style import STYLE, bars, save, without_scale
from benchmarks.report.text import number

PANELS = {
    ("tasks", "rate"): "puts by 100 tasks, a second",
    ("drain100", "rate"): "drain of 100,000, a second",
    ("late", "p99"): "late at p99, ms (less is better)",
    ("near", "p99"): "put due in 50 ms: late at p99, ms",
}


def draw(kept: Kept, images: Path) -> None:
    """Draw a panel for each of some figures, one bar for each store."""
    results: Results = kept["results"]
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(2, 2, figsize=(9.5, 4.6), layout="constrained")
        for panel, ((measure, key), title) in zip(panels.flat, PANELS.items(), strict=True):
            line = next(line for line in FIGURES if (line.measure, line.key) == (measure, key))
            _bars(panel, title, line, results.get(measure, {}))
        save(figure, images / "stores-benchmarks")


def _bars(panel: Any, title: str, line: Figure, found: dict[str, Any]) -> None:
    stores = [store for store in reversed(STORES) if store in found and middle(found[store], line.key) is not None]
    if not stores:
        panel.set_axis_off()
        return
    values = {STORES[store]: middle(found[store], line.key) or 0 for store in stores}
    bars(panel, title, values, lambda _: "", ours=set(values) - {STORES["sqlite"]}, height=0.7)
    for row, (store, value) in enumerate(zip(stores, values.values(), strict=True)):
        limit = line.limit(store, found[store])
        if limit is not None:
            panel.plot([limit, limit], [row - 0.45, row + 0.45], color="black", linewidth=1.5)
        panel.annotate(
            number(value), (max(value, limit or 0), row), (4, 0), textcoords="offset points", va="center", fontsize=9
        )
    panel.margins(x=0.2)
    panel.set_xlim(left=0)
    without_scale(panel)
    panel.spines["left"].set_visible(False)

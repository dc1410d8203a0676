"""The README's bars, and the curves of docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.report.style import STYLE, bars, save
from benchmarks.report.text import spoken
from benchmarks.report.timers.results import Results

PALETTE = {  # Okabe and Ito
    "TimingWheel": "#0072B2",
    "pure TimingWheel": "#56B4E9",
    "empty call": "#000000",
    "asyncio": "#D55E00",
    "uvloop": "#E69F00",
    "heapq": "#009E73",
    "sched": "#CC79A7",
    "sortedcontainers": "#7f7f7f",
}
MARKERS = dict(zip(PALETTE, "os^Dv<>P", strict=True))


def comparison(results: Results, path: Path) -> None:
    """For the README: bars on a logarithmic scale, one panel for start+cancel and one for delivery."""
    size = 100_000
    ours = results.ns("schedule+cancel", "TimingWheel", size)
    start_cancel = {"pywheel": ours, "sched": results.ns("schedule+cancel", "sched", size)}  # sched's is O(n)
    for peer in ("heapq", "uvloop", "asyncio"):
        ratio = results.usual_ratio("schedule+cancel", peer, "TimingWheel")
        start_cancel[peer] = ours * ratio if ours and ratio else None
    delivery = {"pywheel": results.ns("delivery", "TimingWheel", size)}
    for peer in ("heapq", "uvloop", "asyncio", "sched"):
        delivery[peer] = results.ns("delivery", peer, size)
    start_cancel["threading.Timer"] = results.ns("schedule+cancel", "threading.Timer", 0, "alone")
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, 2, figsize=(9, 2.9), layout="constrained")
        _bars(panels[0], "start and cancel a timer", start_cancel)
        _bars(panels[1], "deliver a timer that expired", delivery)
        figure.supxlabel(
            "time for one timer with 100 000 pending (start and cancel: by the median ratio of all sizes; "
            "threading.Timer: alone), shorter is better",
            fontsize=9,
        )
        save(figure, path)


def _bars(panel: Any, title: str, measured: dict[str, float | None]) -> None:
    known = sorted(((time, name) for name, time in measured.items() if time), reverse=True)
    if not known:
        return
    bars(panel, title, {name: time for time, name in known}, spoken)
    panel.set_xscale("log")
    panel.set_xlim(10, known[0][0] * 12)
    _time_axis(panel.xaxis)
    for label in panel.get_yticklabels():
        if label.get_text() == "pywheel":
            label.set_fontweight("bold")


def _time_axis(axis: Any) -> None:
    low, high = sorted(axis.get_view_interval())
    step = 2 if high / low > 1e6 else 1
    axis.set_major_locator(FixedLocator([10.0**power for power in range(1, 10, step)]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(spoken))


def scaling(results: Results, path: Path) -> None:
    """For the documentation: time against the number of pending timers, one panel a measure."""
    measures = ("schedule", "cancel", "schedule+cancel", "reschedule", "delivery")
    with pyplot.rc_context(STYLE):
        figure, grid = pyplot.subplots(2, 3, figsize=(11, 6.4), sharex=True, sharey=True, layout="constrained")
        panels = grid.flat
        for panel, measure in zip(panels, measures, strict=False):
            for peer, colour in PALETTE.items():
                points = [(size, results.ns(measure, peer, size)) for size in results.sizes(measure)]
                known = [(size, time) for size, time in points if time]
                if known:
                    panel.plot(
                        *zip(*known, strict=True),
                        color=colour,
                        marker=MARKERS[peer],
                        markersize=5,
                        label=peer,
                        linewidth=2.6 if peer == "TimingWheel" else 1.4,
                    )
            panel.set_title(measure, loc="left")
            panel.loglog()
            panel.set_ylim(5, 30_000)  # sched's cancel is O(n): it leaves the picture
            panel.grid(axis="y", color="#dddddd", linewidth=0.7)
            _time_axis(panel.yaxis)
            panel.xaxis.set_major_locator(FixedLocator(results.sizes("schedule")))
            panel.xaxis.set_minor_locator(NullLocator())
            panel.xaxis.set_major_formatter(
                FuncFormatter(lambda size, _: f"{size / 1e6:g}M" if size >= 1e6 else f"{size / 1e3:g}k")
            )
            panel.tick_params(labelbottom=True)
        legend = grid.flat[5]
        legend.axis("off")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        legend.legend(handles, labels, loc="center", frameon=False, fontsize=10)
        figure.supxlabel("timers pending", fontsize=10)
        figure.supylabel("time for one timer", fontsize=10)
        save(figure, path)

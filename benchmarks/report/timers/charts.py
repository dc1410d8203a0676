"""The README's bars, and the curves of docs/benchmarks.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from benchmarks.kept import Kept
from benchmarks.report.style import STYLE, bars, save, without_scale
from benchmarks.report.text import spoken
from benchmarks.report.timers.programs import CONNECTIONS, PROGRAM, PROGRAMS
from benchmarks.report.timers.results import Results

OURS = ("AsyncTimers", "EventLoop", "TimingWheel")
PALETTE = {  # Okabe and Ito
    "TimingWheel": "#0072B2",
    "pure TimingWheel": "#56B4E9",
    "empty call": "#000000",
    "heapq": "#009E73",
    "sortedcontainers": "#7f7f7f",
}
MARKERS = dict(zip(PALETTE, "os^DP", strict=True))


def draw(kept: Kept, images: Path) -> None:
    """Draw all of them."""
    results = Results(kept)
    comparison(results, images / "comparison.svg")
    scaling(results, images / "scaling.svg")
    programs(results, images / "programs.svg")


def comparison(results: Results, path: Path) -> None:
    """For the README: like beside like, to start and cancel a timer, on a logarithmic scale."""
    panels_of = {
        "with clock and callback": ("callbacks", ("AsyncTimers", "EventLoop", "asyncio", "uvloop")),
        "without": ("uniform", ("TimingWheel", "heapq", "sortedcontainers")),
    }
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(1, 2, figsize=(9, 2.4), layout="constrained")
        for panel, (title, (workload, peers)) in zip(panels, panels_of.items(), strict=True):
            base = peers[0]
            ours = results.ns("schedule+cancel", base, 100_000, workload) or 0
            ratios = {peer: results.usual_ratio("schedule+cancel", peer, base, workload) or 0 for peer in peers}
            _bars(panel, f"start and cancel a timer, {title}", {peer: ours * ratios[peer] for peer in peers})
        figure.supxlabel(
            "time for one timer with 100,000 pending, by the median ratio of 1,000 to 1,000,000; shorter is better",
            fontsize=9,
        )
        save(figure, path)


def _bars(panel: Any, title: str, measured: dict[str, float]) -> None:
    known = sorted(((time, name) for name, time in measured.items() if time), reverse=True)
    if not known:
        return
    bars(panel, title, {name: time for time, name in known}, spoken, ours=OURS)
    panel.set_xscale("log")
    panel.set_xlim(10, known[0][0] * 12)
    _time_axis(panel.xaxis)
    for label in panel.get_yticklabels():
        if label.get_text() in OURS:
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


def programs(results: Results, path: Path) -> None:
    """Draw the processor time of a request, one panel for each program."""
    known = [program for program in PROGRAMS if results.peers(program, PROGRAM)]
    if not known:
        return
    peers = results.peers(known[0], PROGRAM)[::-1]  # the first at the top
    ours = [peer for peer in peers if "AsyncTimers" in peer or "EventLoop" in peer]
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(
            1, len(known), figsize=(9, 2.9), sharey=True, layout="constrained", squeeze=False
        )
        for panel, program in zip(panels.flat, known, strict=True):
            times = {peer: results.ns(program, peer, CONNECTIONS, PROGRAM) or 0 for peer in peers}
            bars(panel, PROGRAMS[program], times, spoken, ours=ours)
            panel.set_xlim(0, max(times.values()) * 1.15)
            without_scale(panel)
        figure.supxlabel(
            "processor time of the server for one request that starts its connection's timeout anew, shorter is better",
            fontsize=9,
        )
        save(figure, path)

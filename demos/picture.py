"""The demo's picture: how late timers came, and what the replay took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot

from benchmarks.report import style
from demos.live_server import Outcome

MARK = "#D55E00"


def draw(outcome: Outcome, replay_ns: dict[str, float], path: Path) -> list[Path]:
    """Save the picture as SVG and as PNG; return both paths."""
    with pyplot.rc_context(style.STYLE):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.6), layout="constrained", width_ratios=(3, 2))
        _lateness(left, outcome)
        _replay(right, replay_ns)
        style.save(figure, path, "svg", "png")
    return [path.with_suffix(".svg"), path.with_suffix(".png")]


def _lateness(panel: Any, outcome: Outcome) -> None:
    """Draw a histogram that ends where nearly all timers have come; what lies beyond is said in words."""
    end = max(2.0, float(np.ceil(outcome.percentile(99) * 2) / 2) + 0.5)
    beyond = int((outcome.lateness_ms > end).sum())
    panel.hist(outcome.lateness_ms, bins=np.arange(-0.5, end + 0.025, 0.025), color=style.OURS)
    panel.axvspan(-0.5, 0, color="#f0f0f0", zorder=0)
    panel.axvline(0, color="black", linewidth=0.8)
    top = panel.get_ylim()[1]
    panel.set_ylim(0, top * 1.2)
    panel.text(-0.25, top * 0.55, f"too early:\n{outcome.early}", ha="center", va="center", fontsize=9)
    for height, percent in enumerate((50, 99)):
        late = outcome.percentile(percent)
        panel.axvline(late, color=MARK, linewidth=1.4, linestyle="--")
        panel.text(late, top * (1.17 - 0.1 * height), f" p{percent} {late:.2f} ms", color=MARK, fontsize=9, va="top")
    panel.set_xlim(-0.5, end)
    panel.yaxis.set_visible(False)
    panel.spines["left"].set_visible(False)
    panel.set_xlabel(
        f"milliseconds after the deadline (a tick is 1 ms; {beyond} of {outcome.lateness_ms.size:,} lie further right)"
    )
    panel.set_title(f"{outcome.timers:,} timers live: how late they came", loc="left")


def _replay(panel: Any, replay_ns: dict[str, float]) -> None:
    milliseconds = {name: ns / 1e6 for name, ns in reversed(replay_ns.items())}
    style.bars(panel, "a real server's timers, replayed", milliseconds, lambda value: f"{value:.0f} ms", height=0.5)
    panel.set_xlim(0, max(milliseconds.values()) * 1.25)
    style.without_scale(panel)

"""The look of every picture: as light or dark as the page around it, in colours everybody can tell apart."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

OURS, THEIRS = "#0072B2", "#9a9a9a"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "svg.fonttype": "path",
    "svg.hashsalt": "pywheel",
}
# Of an SVG, where the page is dark: ground, text and axes, which Matplotlib writes as white and black.
_DARK = (
    "@media (prefers-color-scheme: dark){svg{fill:#e4e9ee} "
    '[style*="fill: #ffffff"]{fill:#16191d!important} [style*="stroke: #000000"]{stroke:#a9b4bf!important}}'
)
_END = "</style>"


def bars(
    panel: Any,
    title: str,
    values: Mapping[str, float],
    label: Callable[[float], str],
    *,
    ours: Container[str] = ("pywheel",),
    height: float = 0.65,
) -> None:
    """Draw one bar for each, the first at the bottom, and write its value behind it."""
    colours = [OURS if name in ours else THEIRS for name in values]
    drawn = panel.barh(list(values), list(values.values()), color=colours, height=height)
    panel.bar_label(drawn, [label(value) for value in values.values()], padding=4, fontsize=9)
    panel.tick_params(axis="y", length=0)
    panel.set_title(title, loc="left")


def without_scale(panel: Any) -> None:
    """Take the axis away where the numbers at the bars say it all."""
    panel.xaxis.set_visible(False)
    panel.spines["bottom"].set_visible(False)


def save(figure: Any, path: Path, *formats: str) -> None:
    """Write the figure; an SVG without a date, so that it changes only when the figures do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for ending in formats or ("svg",):
        metadata = {"Date": None} if ending == "svg" else {}
        figure.savefig(path.with_suffix(f".{ending}"), facecolor="white", dpi=160, metadata=metadata)
        if ending == "svg":
            _darken(path.with_suffix(".svg"))
    pyplot.close(figure)


def _darken(file: Path) -> None:
    """Let a picture follow the page that shows it."""
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(_END, f"{_DARK}{_END}", 1), encoding="utf-8")

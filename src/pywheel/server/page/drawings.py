"""Drawings as SVG paths, without scripts or inline styles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from ...jobs.job import Attempt, Job
from ..coming import Part
from .words import late, length, number, stamp

_HEIGHT: Final = 100
_LEAST: Final = 3  # the least height of a bar: anything above 0 is visible
_UNIT: Final = 10  # width of a bar with its gap


class Chart(NamedTuple):
    """A chart of due or of ended jobs, ready to be drawn."""

    name: str
    total: str
    peak: str
    bars: str  # the path
    ticks: Sequence[str]
    label: str  # the text for screen readers
    start: int  # ms
    step: int
    values: Sequence[int]
    quarter: str = ""  # the value of a bar of half the height
    capped: str = ""  # the path of bars whose count is a lower bound
    most: int = 0
    kind: str = ""  # a field of `Ends`
    unit: str = ""  # the unit of a bar of `kind`

    @property
    def width(self) -> int:
        """The width of the drawing."""
        return len(self.values) * _UNIT


_TICKS: Final = {
    "minute": ("now", "+15 s", "+30 s", "+45 s", "+1 min"),
    "hour": ("now", "+15 min", "+30 min", "+45 min", "+1 h"),
    "day": ("now", "+6 h", "+12 h", "+18 h", "+24 h"),
}


def histogram(part: Part, least: int = 0) -> Chart:
    """Return the chart of a part. `least` of its jobs are known from a nearer horizon, which counts further.

    The fullest part has the full height, and so has any capped one. Heights grow with the square root: a burst does not
    hide its neighbours, and twice as much still looks like more.
    """
    horizon, highest = part.horizon, max(part.counts)
    bars: list[str] = []
    capped: list[str] = []
    for position, count in enumerate(part.counts):
        if count:
            (capped if count >= horizon.most else bars).append(_bar(position, math.sqrt(count / highest)))
    more = "+" if capped else ""
    total, peak, due = f"{number(max(part.total, least))}{more}", f"{number(highest)}{more}", "no job is due"
    if highest:
        at = part.start + part.counts.index(highest) * horizon.step
        due = f"{total} jobs are due, most of them, {peak} in {length(horizon.step)}, at {stamp(at)}"
    return Chart(
        horizon.name, total, peak if highest else "", "".join(bars), _TICKS[horizon.name],
        f"Next {horizon.name}: {due}", part.start, horizon.step, part.counts,
        number(round(highest / 4)) if highest >= 20 else "", "".join(capped), horizon.most,
    )  # fmt: skip


def _bar(position: int, share: float) -> str:
    """Return the path of a bar with this share of the height."""
    height = max(round(share * _HEIGHT), _LEAST)
    return f"M{position * _UNIT + 1} {_HEIGHT}v-{height}h{_UNIT - 2}v{height}z"


_SERIES: Final = {  # its title, a bar's unit, and the text of the peak
    "done": ("done", "done"),
    "failed": ("failed attempts", "failed"),
    "dead": ("dead", "dead"),
    "late": ("late", "ms late"),
}


def series(kind: str, values: Sequence[int], start: int, step: int) -> Chart:
    """Return the chart of a field of `Ends`: the highest bar has the full height."""
    highest, (name, unit) = max(values), _SERIES[kind]
    peak, each = late(highest) if kind == "late" else number(highest), length(step)
    quarters = [stamp(start + len(values) * step * part // 4)[5:16] for part in range(5)]
    total = peak if kind == "late" else number(sum(values))
    most = f"most, {peak} in {each}, at {stamp(start + values.index(highest) * step)}" if highest else "none"
    bars = "".join(_bar(position, value / highest) for position, value in enumerate(values) if value)
    peak = f"peak {peak} in {each}" if highest and kind != "late" else ""
    label = f"{name}: {total}; {most}"
    return Chart(name, total, peak, bars, quarters, label, start, step, values, kind=kind, unit=unit)


def trend(values: Sequence[int], parts: int = 60) -> str:
    """Return the path of a line, 2 wide for each value, 20 high, at the right end of the space for `parts`."""
    if len(values) < 2:
        return ""
    highest = max(*values, 1)
    first = (parts - len(values)) * 2
    return "M" + "L".join(
        f"{first + position * 2} {19 - round(value * 18 / highest)}" for position, value in enumerate(values)
    )


class Segment(NamedTuple):
    """A stretch of a job's life."""

    kind: str  # waited, running, or the outcome of the attempt
    x: float
    width: float
    text: str
    attempt: int | None = None


_LINE: Final = 1000  # width of a timeline
_THIN: Final = 10


def timeline(job: Job, history: Sequence[Attempt], now: int) -> list[Segment]:
    """Return a job's life until now, or until its next due time, as stretches side by side.

    Widths grow with the logarithm of the lengths: an attempt of 80 ms and a wait of two days are both visible.
    """
    stretches: list[tuple[str, int, str, int | None]] = []
    at = job.created
    for row in history:
        if row.started is None:
            continue
        if row.started > at:
            stretches.append(("waited", row.started - at, f"waited {length(row.started - at)}", None))
        ended = row.ended if row.ended is not None else now
        kind = str(row.outcome) if row.outcome else "running"
        ran = max(ended - row.started, 0)
        stretches.append((kind, ran, f"attempt {row.attempt}: {kind} after {length(ran)}", row.attempt))
        at = max(ended, at)
    if job.state.live and job.lease_until is None:
        if now > at:
            stretches.append(("waited", now - at, f"waited {length(now - at)}", None))
        if job.due > now:
            stretches.append(("ahead", job.due - now, f"due in {length((job.due - now) // 1000 * 1000)}", None))
    weights = [math.log10(10 + max(milliseconds, 0)) for _, milliseconds, _, _ in stretches]
    room = _LINE - _THIN * len(stretches)
    whole = sum(weights) or 1
    drawn, x = [], 0.0
    for (kind, _, text, attempt), weight in zip(stretches, weights, strict=True):
        width = max(room * weight / whole, 0) + _THIN
        drawn.append(Segment(kind, round(x, 1), round(width - 2, 1), text, attempt))
        x += width
    return drawn[-200:]

"""The drawings of the concepts: `python docs/_site/drawings.py` writes them into docs/images.

Each has its own ground, and colours for a light and a dark one, so that it can be read wherever it is shown.
"""

import sys
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final

STYLE: Final = """
.ground{fill:#fff;stroke:#d8dee6} .box{fill:#eef4fb;stroke:#3b6ea5} .good{fill:#e9f6ec;stroke:#3d8b52}
.bad{fill:#fbecec;stroke:#b4494b} .idle{fill:#f4f5f7;stroke:#9aa5b1} .hot{fill:#fff3d9;stroke:#b7860b}
text{font:14px system-ui,sans-serif;fill:#1d2733} .small{font-size:12px;fill:#51606f}
.line{stroke:#51606f;fill:none;stroke-width:1.5} .dash{stroke-dasharray:5 4} .tip{fill:#51606f}
@media (prefers-color-scheme:dark){.ground{fill:#16191d;stroke:#333b44} .box{fill:#1b2a3c;stroke:#6fa3dc}
.good{fill:#17301f;stroke:#63b87b} .bad{fill:#381c1e;stroke:#e08184} .idle{fill:#22262b;stroke:#6b7682}
.hot{fill:#382d10;stroke:#d9aa3a} text{fill:#e4e9ee} .small{fill:#a9b4bf} .line{stroke:#a9b4bf} .tip{fill:#a9b4bf}}
"""
TIP: Final = (
    '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
    '<path class="tip" d="M0 0 10 5 0 10z"/></marker>'
)


class Drawing:
    """Boxes, lines and words, one after the other, as SVG."""

    def __init__(self, title: str, width: int, height: int) -> None:
        self.size = f"{width} {height}"
        self.parts = [
            f"<title>{escape(title)}</title><style>{STYLE}</style><defs>{TIP}</defs>",
            f'<rect class="ground" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10"/>',
        ]

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "middle") -> None:
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, height: float, *lines: str, kind: str = "box") -> None:
        """Draw a box with lines of text in its middle; those after the first are small."""
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        top = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * number, line, "small" if number else "")

    def arrow(self, path: str, *, kind: str = "", tip: bool = True) -> None:
        end = ' marker-end="url(#tip)"' if tip else ""
        self.parts.append(f'<path class="line {kind}" d="{path}"{end}/>')

    def svg(self) -> str:
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.size}" role="img">'
        return "\n".join([head, *self.parts, "</svg>", ""])


def overview() -> Drawing:
    d = Drawing("A job is put into a store, and a worker hands it to its handler when it is due", 760, 230)
    d.box(20, 75, 150, 80, "your program", 'put(…, delay="30m")', "cancel, reschedule")
    d.box(290, 60, 170, 110, "store", "SQLite, PostgreSQL,", "MySQL, Redis", "holds every job", kind="good")
    d.box(580, 75, 160, 80, "worker", "wheel: next due times", "runs your handler", kind="hot")
    d.arrow("M170 115H286")
    d.text(228, 105, "durable", "small")
    d.arrow("M460 95H576")
    d.text(518, 85, "what is due soon", "small")
    d.arrow("M580 135H464")
    d.text(520, 155, "claim, ack", "small")
    d.text(380, 30, "put now, handled when due, though any process dies in between")
    d.text(380, 208, "one program may do both; any number of programs may share a store", "small")
    return d


def wheel() -> Drawing:
    d = Drawing("Levels of the wheel: a far timer waits in a wide slot and moves down as its time comes", 760, 330)
    rows = (
        ("level 0", "a slot is 1 tick", 5),
        ("level 1", "a slot is 256 ticks", 2),
        ("level 2", "a slot is 65 536 ticks", 6),
    )
    for level, (name, width, timer) in enumerate(rows):
        y = 50 + 84 * level
        d.text(20, y + 18, name, anchor="start")
        d.text(20, y + 36, width, "small", anchor="start")
        for slot in range(12):
            d.box(180 + 45 * slot, y, 41, 41, kind="hot" if slot == timer + level else "idle")
        d.text(740, y + 28, "…", anchor="end")
    d.arrow("M560 218C560 190 344 205 336 179")
    d.text(588, 207, "cascade: placed anew", "small", anchor="start")
    d.arrow("M330 134C330 112 405 118 424 95")
    d.text(570, 116, "once more, into the slot of its tick", "small")
    d.arrow("M200 20V46")
    d.text(212, 30, "the present moves right, tick by tick", "small", anchor="start")
    d.text(
        380, 308, "8 levels of 512 slots reach every deadline to 2⁶³ - 1; an empty slot costs nothing to pass", "small"
    )
    return d


def slices() -> Drawing:
    d = Drawing("A worker keeps the next due time of each topic, and several share the time in slices", 760, 220)
    d.text(380, 32, "slices of 50 ms, and the worker that goes first in each")
    for number in range(9):
        x = 60 + 72 * number
        d.box(x, 70, 68, 80, kind=("hot", "good", "box")[number % 3])
        d.text(x + 34, 60, "ABC"[number % 3])
    for x in (84, 150, 168, 243, 262, 345, 428, 500, 520, 604, 668):
        d.box(x, 96, 12, 28, kind="idle")
    d.arrow("M40 110H730")
    d.text(728, 166, "due time", "small", anchor="end")
    d.arrow("M90 190V128")
    d.text(
        100, 188, "A wakes at this time, claims what is due, and is told when the next job is", "small", anchor="start"
    )
    d.text(100, 206, "what A leaves, as it is full or gone, B looks for when its slice begins", "small", anchor="start")
    return d


def claim() -> Drawing:
    d = Drawing("A worker that dies loses its lease, and another one gets the job", 760, 250)
    for y, name in ((70, "worker A"), (160, "worker B")):
        d.text(20, y + 5, name, anchor="start")
        d.arrow(f"M100 {y}H735")
    d.box(130, 50, 90, 40, "claim", kind="box")
    d.box(220, 50, 130, 40, "handler runs", kind="hot")
    d.box(350, 50, 60, 40, "killed", kind="bad")
    d.arrow("M220 30H520")
    d.text(370, 24, "lease: its ttr", "small")
    d.arrow("M520 30V205", kind="dash", tip=False)
    d.text(520, 222, "the lease is over: attempt 2 after the ladder's next delay", "small")
    d.box(560, 140, 60, 40, "claim", kind="box")
    d.box(620, 140, 60, 40, "runs", kind="hot")
    d.box(680, 140, 40, 40, "ack", kind="good")
    d.text(640, 112, "an ack by A would be refused now", "small")
    d.text(200, 112, "durable before the handler starts", "small")
    return d


def life() -> Drawing:
    d = Drawing("The states of a job", 760, 300)
    d.arrow("M20 120H84")
    d.text(52, 110, "put", "small")
    d.box(88, 90, 130, 60, "delayed", "until it is due")
    d.box(350, 90, 130, 60, "running", "under a lease", kind="hot")
    d.box(610, 30, 130, 50, "done", kind="good")
    d.box(610, 160, 130, 50, "dead", "to be looked at", kind="bad")
    d.box(88, 220, 130, 50, "cancelled", kind="idle")
    d.arrow("M218 108H346")
    d.text(282, 98, "due: claimed", "small")
    d.arrow("M350 136H222")
    d.text(284, 154, "failed, lease lost:", "small")
    d.text(284, 170, "later, by the ladder", "small")
    d.arrow("M480 105 606 60")
    d.text(535, 70, "ack", "small")
    d.arrow("M480 135 606 180")
    d.text(520, 185, "no attempt left", "small")
    d.arrow("M153 150V216")
    d.text(146, 190, "cancel", "small", anchor="end")
    d.arrow("M606 200C500 260 300 250 200 154", kind="dash")
    d.text(430, 262, "retry, by hand: also of done and cancelled", "small")
    return d


DRAWINGS: Final[dict[str, Callable[[], Drawing]]] = {
    "overview": overview, "wheel": wheel, "slices": slices, "claim": claim, "life-cycle": life,
}  # fmt: skip


def main(folder: str) -> None:
    for name, draw in DRAWINGS.items():
        (Path(folder) / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parents[1] / "images"))

"""The page of what each store was measured to do, beside its goals."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.host import told
from benchmarks.kept import Kept
from benchmarks.report.stores.figures import FIGURES, GROUPS, Figure
from benchmarks.report.stores.results import STORES, Results, Turn, middle
from benchmarks.report.text import item, number, table

PAGE = Path(__file__).with_name("page.md")
FLOORS = {
    "fsync": ("a 4 KB write with fdatasync, us", 1e6),
    "trip": ("a round trip (`SELECT 1`, `PING`), us", 1e6),
    "load": ("programs wanting a processor in the last minute", 1.0),
}


def page(kept: Kept) -> str:
    """Return the whole page."""
    results: Results = kept["results"]
    return PAGE.read_text(encoding="utf-8").format(
        about=told(kept["about"]),
        met=met(results),
        absent=absent(results),
        servers=servers(results),
        tables="\n\n".join(
            f"## {title}\n\n{group(results, figures)}"
            for title, figures in GROUPS.items()
            if any(figure.measure in results for figure in figures)
        ),
        floors=floors(results),
    )


def met(results: Results) -> str:
    """Return how many goals were met."""
    missed = [
        figure.missed(store, turns)
        for figure in FIGURES
        for store, turns in _turns(results, figure)
        if figure.limit(store) is not None and middle(turns, figure.key) is not None
    ]
    return f"Of {len(missed)} goals {missed.count(False)} were met."


def absent(results: Results) -> str:
    """Return what was not measured."""
    stores = [title for store, title in STORES.items() if store not in _measured(results)]
    left = dict.fromkeys(figure.measure for figure in FIGURES if figure.measure not in results)
    some = f'what `make bench-stores ARGS="--only {",".join(left)}"` measures'
    return item(f"Not measured: {', '.join([*stores, some] if left else stores)}.") if stores or left else ""


def servers(results: Results) -> str:
    """Return what each store ran on."""
    versions = {STORES[store]: turns[-1]["server"] for found in results.values() for store, turns in found.items()}
    return ", ".join(f"{title} {versions[title]}" for title in STORES.values() if title in versions)


def group(results: Results, figures: list[Figure]) -> str:
    """Return the table of some figures, with a column for each store that was measured."""
    stores = _measured(results)
    head = ["measure", "goal", *(STORES[store] for store in stores)]
    rows = []
    for figure in figures:
        turns = results.get(figure.measure, {})
        if turns:
            cells = (cell(figure, store, turns.get(store, [])) for store in stores)
            rows.append([figure.title + _part(turns), goal(figure), *cells])
    return table(head, rows)


def cell(figure: Figure, store: str, turns: list[Turn]) -> str:
    """Return the median, bold if it missed its goal, and the best of the rounds."""
    value = middle(turns, figure.key)
    if value is None:
        return ""
    text = f"**{number(value)}**" if figure.missed(store, turns) else number(value)
    return text + (f" ({number(figure.best(turns))})" if len(turns) > 1 else "")


def goal(figure: Figure) -> str:
    """Return the goal: one for all servers, or one for each in the order of the columns."""
    if figure.goal is None:
        return ""
    values = [figure.goal] if isinstance(figure.goal, (int, float)) else list(figure.goal.values())
    added = f" + {figure.fsyncs} fsyncs" if figure.fsyncs else ""
    return f"{'>=' if figure.least else '<='} {' / '.join(map(number, values))}{added}"


def floors(results: Results) -> str:
    """Return the medians of what all turns had for floors."""
    stores = _measured(results)
    rows = [
        [title, *(number(factor * median(_each(results, store, name))) for store in stores)]
        for name, (title, factor) in FLOORS.items()
    ]
    return table(["floor", *(STORES[store] for store in stores)], rows)


def _each(results: Results, store: str, name: str) -> list[float]:
    return [turn[name] for found in results.values() for turn in found.get(store, [])]


def _measured(results: Results) -> list[str]:
    return [store for store in STORES if any(store in stores for stores in results.values())]


def _turns(results: Results, figure: Figure) -> list[tuple[str, list[Turn]]]:
    found = results.get(figure.measure, {})
    return [(store, found[store]) for store in STORES if store in found]


def _part(stores: dict[str, list[Turn]]) -> str:
    """Return with which part of the jobs of its title a figure was measured; nothing for all of them."""
    parts = sorted({turn["part"] for turns in stores.values() for turn in turns if turn["part"] > 1})
    return "".join(f", 1/{part} of the jobs" for part in parts)

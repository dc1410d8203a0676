"""Numbers, tables and lists as the pages have them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any


def spoken(nanoseconds: float, _: Any = None) -> str:
    """Return a time as one would say it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds:.3g} ns"


def number(value: float) -> str:
    """Return three digits, or all before the point; no zeros behind."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def size(count: int) -> str:
    """Return a count in groups of three digits."""
    return f"{count:,}"


def times(ratio: float | None) -> str:
    """Return how many times as long something takes; nothing if that is not known."""
    if ratio is None:
        return ""
    return f"{ratio:.2f}x" if ratio < 10 else f"{ratio:.0f}x"


def row(cells: Iterable[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    return "\n".join([row(head), f"|---|{'---:|' * (len(head) - 1)}", *map(row, rows)])


def item(text: str) -> str:
    """Return an item of a list, in lines."""
    return textwrap.fill(text, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False) + "\n"


def with_part(page: str, name: str, part: str) -> str:
    """Return the page with a part between its two marks; as it is, if it has none of that name."""
    between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    return between.sub(lambda marks: f"{marks[1]}\n{part}\n\n{marks[2]}", page)

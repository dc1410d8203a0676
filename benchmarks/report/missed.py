"""Which goals were missed, read from the rows of a table: a page leads with them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

NUMBER: Final = r"\d[\d ,]*(?:\.\d+)?"
CLAUSE: Final = re.compile(rf"(?:([\w ]+?) )?(<=|>=|≤|≥) {NUMBER}")
VALUE: Final = re.compile(rf"(?:([^\d,][^,]*?) )?({NUMBER})(?: \({NUMBER}\))?")
COUNT: Final = re.compile(r"(?<=\d)[ ,](?=\d{3}\b)")


def missed(rows: Iterable[Sequence[str]], heading: str = "##") -> str:
    """Return the section of the goals that were missed; of each row the last two cells are goal and measured."""
    lines, before, goals = [], 0.0, 0
    for cells in rows:
        title, goal, measured = cells[0], cells[-2], cells[-1]
        values = _values(measured)
        clauses = _clauses(goal, values, before)
        goals += bool(clauses)
        if not all(clauses):
            lines.append(textwrap.fill(f"- {title}", 120, subsequent_indent="  "))
        before = next(iter(values.values()), before)
    if not lines:
        return f"All {goals} goals were reached."
    return (
        f"{heading} What was missed\n\nOf {goals} goals {goals - len(lines)} were reached. These were not:\n\n"
        + "\n".join(lines)
    )


def _values(measured: str) -> dict[str, float]:
    """Return the figures of a cell by name; "" is the one without."""
    parts = re.split(r", (?!\d{3}\b)", measured)
    found = [VALUE.fullmatch(part.strip()) for part in parts]
    return {match[1] or "": _number(match[2]) for match in found if match}


def _clauses(goal: str, values: Mapping[str, float], before: float) -> list[bool]:
    """Return of each part of a goal whether it was reached."""
    if not goal or not values:
        return []
    reached: list[bool] = []
    for part in re.split(r", (?!\d{3}\b|[\d.]+ ?\D)", goal):  # what follows without a sign is the next figure's limit
        match = CLAUSE.match(part)
        if match is None:  # such as "nothing grows"
            continue
        limits = [_number(text) for text in re.findall(rf"(?:[=≤≥] | / |, )({NUMBER})", part)]
        chosen = _meant(match[1], part, values)
        for value, limit in zip(chosen, limits if len(limits) > 1 else limits * len(chosen), strict=False):
            wanted = limit * before if part.endswith("x that") else limit
            reached.append(value <= wanted if match[2] in "<=≤" else value >= wanted)
    return reached


def _meant(name: str | None, part: str, values: Mapping[str, float]) -> list[float]:
    """Return the figures that a part of a goal is about: the one that it names, or that has no name, or else all."""
    named = {"max": "p100", None: "" if "" in values else "ratio"}
    wanted = "ratio" if part.endswith("of the floor") else named.get(name, name)
    return [values[wanted]] if wanted in values else list(values.values())


def _number(text: str) -> float:
    return float(COUNT.sub("", text))

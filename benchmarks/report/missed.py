"""Which goals were missed, read from the rows of a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

NUMBER: Final = r"\d[\d ,]*(?:\.\d+)?"
CLAUSE: Final = re.compile(rf"(?:([\w ]+?) )?(<=|>=|≤|≥) {NUMBER}")
VALUE: Final = re.compile(rf"(?:([^\d,][^,]*?) )?({NUMBER})(?: \({NUMBER}\))?")
COUNT: Final = re.compile(r"(?<=\d)[ ,](?=\d{3}\b)")


def verdicts(rows: Iterable[Sequence[str]]) -> list[bool | None]:
    """Return for each row whether it reached its goal, None without one. Its last two cells are goal and measure."""
    found: list[bool | None] = []
    before = 0.0
    for *_, goal, measured in rows:
        values = _values(measured)
        clauses = _clauses(goal, values, before)
        found.append(all(clauses) if clauses else None)
        before = next(iter(values.values()), before)
    return found


def reached(verdicts: Collection[bool | None]) -> str:
    """Return how many of the goals were reached."""
    goals, missed = len(verdicts) - list(verdicts).count(None), list(verdicts).count(False)
    said = f"All {goals} goals were reached." if not missed else f"Of {goals} goals {goals - missed} were reached."
    return f"{said} Rows in **bold** missed theirs." if missed else said


def _values(measured: str) -> dict[str, float]:
    """Return the figures of a cell by name; "" is the one without."""
    parts = re.split(r", (?!\d{3}\b)", measured)
    found = [VALUE.fullmatch(part.strip()) for part in parts]
    return {match[1] or "": _number(match[2]) for match in found if match}


def _clauses(goal: str, values: Mapping[str, float], before: float) -> list[bool]:
    """Return for each part of a goal whether it was reached."""
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

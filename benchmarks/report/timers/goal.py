"""A goal: what was hoped for, and whether it was reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Part:
    """One number of a goal."""

    limit: float
    measured: float | None

    def met(self, sense: str) -> bool | None:
        """Return whether it was reached; None if it was not measured."""
        if self.measured is None:
            return None
        return self.measured <= self.limit if sense == "<=" else self.measured >= self.limit


@dataclass(frozen=True)
class Goal:
    """A line of the table: one or more numbers of one kind."""

    measure: str
    parts: list[Part] = field(default_factory=list)
    unit: str = ""
    sense: Literal["<=", ">="] = "<="

    @property
    def goal(self) -> str:
        limits = list(dict.fromkeys(f"{part.limit:g}" for part in self.parts))
        return f"{self.sense} {' / '.join(limits)}{self.unit}"

    @property
    def measured(self) -> str:
        return " / ".join(map(_short, self.parts)) + self.unit

    @property
    def marked(self) -> str:
        """Return what was measured, in Markdown, with what is missed in bold."""
        numbers = (f"**{_short(part)}**" if part.met(self.sense) is False else _short(part) for part in self.parts)
        return " / ".join(numbers) + self.unit

    @property
    def met(self) -> str:
        """Return yes, no, or "not measured" where part of it is missing."""
        answers = [part.met(self.sense) for part in self.parts]
        if False in answers:
            return "no"
        return "not measured" if None in answers else "yes"


def _short(part: Part) -> str:
    number = part.measured
    if number is None:
        return "-"
    if abs(number) >= 100:
        return f"{number:.0f}"
    return f"{number:.1f}" if abs(number) >= 10 else f"{number:.2g}" if abs(number) < 1 else f"{number:.2f}"

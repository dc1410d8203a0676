"""Rules: when the ticks of a schedule come, by a period or a cron expression, from one change of it to the next."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from .._errors import BadJob
from . import cron

__all__ = ["Former", "Rule", "first_after", "last_until", "still_owing"]

_MOST: Final = 20  # rules that a schedule remembers: as many changes between two runs of the planner lose nothing


class Rule(Protocol):
    """Says when ticks come: later than `since`."""

    @property
    def every(self) -> int | None:
        """Of how many ms they come at the multiples; None with a cron expression."""

    @property
    def cron(self) -> str | None:
        """The expression."""

    @property
    def tz(self) -> str:
        """The zone of that."""

    @property
    def since(self) -> int:
        """When it began, in ms."""


@dataclass(frozen=True, slots=True)
class Former:
    """The rule of a schedule before it was changed: its ticks up to then are still to run, if they have not yet."""

    every: int | None
    cron: str | None
    tz: str
    jitter: int
    since: int
    until: int
    version: str

    def has(self, tick: int) -> bool:
        """Whether a time is one of those in which it held."""
        return self.since < tick <= self.until

    def after(self, time: int) -> int | None:
        """Return its first tick later than `time`; None if there is none, or it cannot be computed here."""
        with suppress(BadJob):  # what it owes cannot be made up for; the rule that follows it goes on
            tick = first_after(self, time)
            return tick if tick is not None and tick <= self.until else None
        return None

    def last(self, time: int) -> int | None:
        """Return its last tick not later than `time`; None if there is none, or it cannot be computed here."""
        with suppress(BadJob):
            return last_until(self, min(time, self.until))
        return None


def first_after(rule: Rule, time: int) -> int | None:
    """Return the first tick of a rule later than `time`, and later than `since`; None if there is none."""
    time = max(time, rule.since)
    if rule.every is not None:
        return (time // rule.every + 1) * rule.every
    return cron.after(rule.cron or "", rule.tz, time)


def last_until(rule: Rule, time: int) -> int | None:
    """Return the last tick of a rule not later than `time`, and later than `since`; None if there is none."""
    found = time // rule.every * rule.every if rule.every else cron.until(rule.cron or "", rule.tz, time)
    return None if found is None or found <= rule.since else found


def still_owing(rules: tuple[Former, ...], since: int) -> tuple[Former, ...]:
    """Return those of former rules that have had a tick later than `since`, the last of them."""
    return tuple(rule for rule in rules if (rule.last(rule.until) or since) > since)[-_MOST:]

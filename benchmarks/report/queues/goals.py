"""What was hoped for: how many times a peer's figure."""

from __future__ import annotations

from statistics import median
from typing import NamedTuple

from benchmarks.report.stores.results import Results
from benchmarks.report.text import number


class Goal(NamedTuple):
    """A figure of `ours` is to be `factor` times that of `theirs`: at least, or at most if less is better."""

    title: str
    measure: str
    key: str
    ours: str
    theirs: str
    factor: float
    least: bool = True

    def ratios(self, results: Results) -> list[float]:
        """Return ours / theirs of each round; of the medians alone, if they did not have the same rounds."""
        found = results.get(self.measure, {})
        both = [[turn["values"][self.key] for turn in found.get(name, [])] for name in (self.ours, self.theirs)]
        if len(both[0]) != len(both[1]):
            both = [[median(some)] for some in both if some]
        return [our / their for our, their in zip(*both, strict=True)] if len(both) == 2 else []

    def missed(self, ratios: list[float]) -> bool:
        """Return whether the median is on the wrong side of the goal."""
        return median(ratios) < self.factor if self.least else median(ratios) > self.factor

    def told(self) -> str:
        """Return the goal in words."""
        return f"{'>=' if self.least else '<='} {number(self.factor)}"


GOALS = [
    Goal("drain of 5 000", "drain5", "drain", "pywheel-postgres", "procrastinate", 80),
    Goal("put one by one", "puts", "one", "pywheel-postgres", "procrastinate", 2),
    Goal("drain of 5 000", "drain5", "drain", "pywheel-redis", "bullmq-node", 3.5),
    Goal("drain of 20 000", "drain20", "drain", "pywheel-redis", "bullmq-node", 3.5),
    Goal("put by 100 tasks", "puts", "tasks", "pywheel-redis", "bullmq-node", 4),
    Goal("put 1000 at once", "puts", "many", "pywheel-redis", "bullmq-node", 10),
    Goal("late at p99", "late", "p99", "pywheel-redis", "bullmq-node", 0.1, least=False),
]
CONTENDERS = list(dict.fromkeys(name for goal in GOALS for name in (goal.ours, goal.theirs)))
"""The peers of which there are goals, each after the one that it is compared with."""
CONTESTED = {goal.measure for goal in GOALS}
"""The measures of which there are goals."""

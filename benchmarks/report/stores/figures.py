"""The figures of each measure on the page, and their goals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.jobs.modes import MODES
from benchmarks.report.stores.results import Turn, middle


class Figure(NamedTuple):
    """A line of the page: a value of a measure, and its goals by store, or the same for all servers."""

    measure: str
    key: str
    title: str
    goal: dict[str, float] | float | None = None
    least: bool = True  # the goal is the least that is hoped for, else the most
    fsyncs: int = 0  # that are allowed on top, the goal being ms

    def limit(self, store: str, turns: Sequence[Turn] = ()) -> float | None:
        """Return the goal of a store, with the writes to the disk of these turns; None if there is none."""
        goal = self.goal
        if isinstance(goal, dict):
            goal = goal.get(store, goal.get(store.partition("-")[0]))
        if goal is None or store == "sqlite":
            return None
        return goal + (self.fsyncs * 1_000 * median(turn["fsync"] for turn in turns) if turns else 0)

    def missed(self, store: str, turns: Sequence[Turn]) -> bool:
        """Return whether the median is on the wrong side of the goal."""
        value, limit = middle(turns, self.key), self.limit(store, turns)
        return value is not None and limit is not None and (value < limit if self.least else value > limit)

    def best(self, turns: Sequence[Turn]) -> float:
        """Return the best of the rounds."""
        return (max if self.least else min)(turn["values"][self.key] for turn in turns if self.key in turn["values"])


def _goals(postgres: float, mysql: float, redis: float) -> dict[str, float]:
    return {"postgres": postgres, "mysql": mysql, "redis": redis}


_SQLITE = _goals(0.6, 0.45, 0.85)
_PUTS = {"postgres": 7_000, "mysql": 3_500}
_TASKS = {"postgres": 22_700, "mysql": 20_300, "redis": 44_800, "redis-always": 23_800}

GROUPS = {
    "Puts": [
        Figure("one", "put", "`put` one by one, a second"),
        Figure("one", "ratio", "`put` one by one / raw insert by the same driver", _goals(0.85, 0.7, 0.85)),
        Figure("threads", "rate", "`put` by 32 threads, a second"),
        Figure("threads", "ratio", "`put` by 32 threads / 32 clients of the server's own tool", 1.2),
        Figure("tasks", "rate", "`put` by 100 asyncio tasks, a second", _TASKS),
        Figure("many", "put_many", "`put_many` of 1000, jobs a second"),
        Figure("many", "ratio", "`put_many` of 1000 / fastest bulk insert by the same driver", _goals(0.7, 0.7, 0.85)),
    ],
    "Deliveries": [
        Figure("drain5", "rate", "drain of 5,000 due, a second"),
        Figure("drain5", "of sqlite", "drain of 5,000 / SQLite's in the same round", _SQLITE),
        Figure("drain100", "rate", "drain of 100,000 due, a second"),
        Figure("drain100", "of sqlite", "drain of 100,000 / SQLite's in the same round", _SQLITE),
        Figure("late", "p50", "late, 20,000 jobs due over 15 s: p50, ms", least=False),
        Figure("late", "p99", "late, 20,000 jobs due over 15 s: p99, ms", _goals(8, 12, 5), least=False, fsyncs=2),
        Figure("late", "early", "how many of the 20,000 came early", 0, least=False),
        Figure(
            "near", "p99", "late, put by another process due in 50 ms: p99, ms", _goals(5, 10, 5), least=False, fsyncs=2
        ),
    ],
    "Real work": [
        *(Figure(mode.name, "ratio", f"{mode.title} / plain", mode.least) for mode in MODES),
        Figure("puts8", "rate", "every second handler puts a job, 8 threads, a second", _PUTS),
        *(
            Figure(
                f"limit{workers}", "rate", f"limit of 1 by group, a handler of 50 ms, workers: {workers}; a second", 15
            )
            for workers in (1, 4)
        ),
    ],
    "Several processes": [
        Figure(measure, key, f"drain of 20,000, the handler {handler}: {title}", least=not key.endswith("ms"))
        for measure, handler in (("sleeps", "sleeps 2 ms in asyncio"), ("computes", "computes 0.2 ms in Python"))
        for key, title in (
            ("one", "1 process, a second"),
            ("ratio", "4 processes / 1"),
            ("workers ms", "4 processes, their processor time a job, ms"),
            ("server ms", "4 processes, the server's processor time a job, ms"),
        )
    ],
    "Beside others": [
        *(
            Figure("claims", f"{topic} {way}", f"{title} 300,000 due jobs {what} / without", 2, least=False)
            for topic, what in (
                ("priority", "of a lower priority"),
                ("paused", "in a paused topic"),
                ("limited", "of a limit that is reached"),
            )
            for way, title in (("reserve", "`reserve(1)` beside"), ("claim", "a worker's claim beside"))
        ),
        Figure(
            "held",
            "first",
            "500 jobs/s for 10 min beside an open transaction: p99 late in the first minute, ms",
            least=False,
        ),
        Figure(
            "held",
            "ratio",
            "500 jobs/s for 10 min beside an open transaction: p99 late, last minute / first",
            1.5,
            least=False,
        ),
        Figure(
            "scripts",
            "longest",
            "longest command beside 50,000 lost leases, 300,000 of a lower priority, 10,000 running, ms",
            5,
            least=False,
        ),
    ],
    "Losing a worker": [
        Figure(
            "killed",
            "unstarted",
            "one of 4 workers killed by SIGKILL: what it had not begun comes late by, s",
            0.5,
            least=False,
        ),
        Figure("stopped", "unstarted", "one stopped by SIGSTOP, s", 1.5, least=False),
        Figure("cut", "unstarted", "the connections of one cut, s", 1, least=False),
        Figure("stalled", "unstarted", "the network of one silent, s", 4, least=False),
    ],
    "What it takes": [
        Figure("idle", "queries", "2 idle workers, 1,000,000 far jobs: queries a second", 2, least=False),
        Figure("idle", "server", "2 idle workers: the server's processor time, % of a core", 0.3, least=False),
        Figure("bytes", "bytes", "bytes a job of 128 bytes", _goals(370, 420, 310), least=False),
        Figure("steps", "few", "put and deliver a job beside 1,000 far ones, us", least=False),
        Figure("steps", "tenth", "put and deliver a job beside 100,000 far ones / 1,000", 1.2, least=False),
        Figure("steps", "all", "put and deliver a job beside 1,000,000 far ones / 1,000", 1.2, least=False),
        Figure(
            "steps",
            "history",
            "put and deliver a job beside 1,000,000 finished ones / 1,000 far ones",
            1.2,
            least=False,
        ),
    ],
}
FIGURES = [figure for group in GROUPS.values() for figure in group]

"""What `make bench-outlets` measures: webhooks, beside endpoints that hang.

usage: python -m benchmarks.outlets [--rounds N] [--only NAME,NAME] [--kept FILE]
"""

from __future__ import annotations

import sqlite3

from benchmarks import rows
from benchmarks.outlets.measures import drain, lateness
from benchmarks.rows import Measure

ROUNDS = 3
GOAL = "p99 <= 20"
MEASURES = [
    Measure(
        "drain", ROUNDS, "rate >= 2,000", "a backlog to one endpoint, deliveries a second", lambda f: drain(f, 10_000)
    ),
    Measure("one", ROUNDS, GOAL, "late, one endpoint, ms", lambda f: lateness(f, healthy=1, seconds=10, per_host=200)),
    Measure("healthy", ROUNDS, "", "late, nothing hangs, ms", lateness),
    Measure("hanging20", ROUNDS, GOAL, "late, 20 a second go to one that hangs, ms", lambda f: lateness(f, 20)),
    Measure("hanging100", ROUNDS, GOAL, "late, 100 a second go to one that hangs, ms", lambda f: lateness(f, 100)),
    Measure(
        "unshared",
        ROUNDS,
        "",
        "the same 20 a second without shares (`per_host=10000`), ms",
        lambda f: lateness(f, 20, per_host=10_000),
    ),
]


def main() -> None:
    """Measure, and keep what was seen."""
    rows.run(MEASURES, rows.parser("outlets").parse_args(), {"SQLite": sqlite3.sqlite_version})


if __name__ == "__main__":
    main()

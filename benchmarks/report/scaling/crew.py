"""The table of docs/scaling.md of what worker processes cost one PostgreSQL by being there."""

from __future__ import annotations

from statistics import median

from benchmarks.host import told
from benchmarks.kept import Kept
from benchmarks.report.text import number, table

COLUMNS = {
    "jobs": "jobs/s",
    "connections": "connections",
    "statements": "statements/s",
    "notifies": "of them NOTIFY",
    "server": "server, % of a core",
    "p50": "late p50, ms",
    "p99": "p99",
}


def crew(kept: Kept) -> str:
    """Return the medians of the rounds, a row for each crew idle and one with puts."""
    rows = []
    for name, rounds in kept["results"].items():
        middle = {key: median(one[key] for one in rounds) for key in rounds[0]}
        rows.append([name, *(number(middle[key]) if key in middle else "" for key in COLUMNS)])
    return f"{told(kept['about'])}\n\n{table(['worker processes', *COLUMNS.values()], rows)}"

"""What `make bench-jobs` measures: the jobs on SQLite.

usage: python -m benchmarks.jobs [--quick] [--rounds N] [--only NAME,NAME] [--soak MINUTES] [--kept FILE]
"""

from __future__ import annotations

import sqlite3

from benchmarks import kept, rows
from benchmarks.jobs.measures import APART, measures


def main() -> None:
    """Measure, and keep what was seen."""
    parser = rows.parser("jobs")
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, each measured once, kept in build")
    parser.add_argument("--soak", type=float, default=12, metavar="MINUTES", help="how long the soak lasts")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.kept = 1, kept.TRIED / options.kept.name
    versions = {"SQLite": sqlite3.sqlite_version}
    rows.run(measures(10 if options.quick else 1, options.soak), options, versions, APART)


if __name__ == "__main__":
    main()

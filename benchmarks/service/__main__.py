"""What `make bench-service` measures: puts by HTTP beside the same puts in-process.

usage: python -m benchmarks.service [--rounds N] [--only NAME,NAME] [--kept FILE]
"""

from __future__ import annotations

import shutil
import sqlite3
from importlib.metadata import version

from benchmarks import rows
from benchmarks.service.measures import MEASURES


def main() -> None:
    """Measure, and keep what was seen."""
    client = "wrk" if shutil.which("wrk") else "the client of the benchmark"
    versions = {"client": client, "granian": version("granian"), "SQLite": sqlite3.sqlite_version}
    rows.run(MEASURES, rows.parser("service").parse_args(), versions)


if __name__ == "__main__":
    main()

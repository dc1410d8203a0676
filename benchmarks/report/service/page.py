"""The page of what the service was measured to do."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pywheel
from benchmarks import host
from benchmarks.report.jobs.page import HEAD
from benchmarks.report.missed import missed
from benchmarks.report.text import table

PAGE = Path(__file__).with_name("page.md")


def page(rows: Iterable[Sequence[str]], rounds: int) -> str:
    """Return the whole page."""
    rows = list(rows)
    client = "wrk" if shutil.which("wrk") else "the client of the benchmark"
    return PAGE.read_text(encoding="utf-8").format(
        version=pywheel.__version__,
        host=host.about(),
        rounds=rounds,
        client=client,
        table=table(HEAD, rows),
        missed=missed(rows),
    )

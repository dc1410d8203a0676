"""What the service was measured to do: its part of the page of service and outlets."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

import pywheel
from benchmarks import host
from benchmarks.report.jobs.page import HEAD
from benchmarks.report.missed import missed
from benchmarks.report.scaling.page import with_table
from benchmarks.report.text import table

PAGE = Path(__file__).with_name("page.md")


def page(whole: str, rows: Iterable[Sequence[str]], rounds: int) -> str:
    """Return the whole page with the part of the service written anew."""
    rows = list(rows)
    client = "wrk" if shutil.which("wrk") else "the client of the benchmark"
    part = PAGE.read_text(encoding="utf-8").format(
        version=pywheel.__version__,
        host=host.about(),
        rounds=rounds,
        client=client,
        table=table(HEAD, rows),
        missed=missed(rows, "###"),
    )
    return with_table(whole, "service", part.strip())

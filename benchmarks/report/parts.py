"""Which page, or part of one, is made from which results."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pywheel
from benchmarks.kept import Kept, read
from benchmarks.report.jobs.page import page as rows
from benchmarks.report.queues.page import page as queues
from benchmarks.report.quotes import CAPACITY, EVENT_LOOP, README, Quote, quoted
from benchmarks.report.scaling.crew import crew
from benchmarks.report.stores.page import page as stores
from benchmarks.report.text import with_part
from benchmarks.report.timers.page import page as timers
from benchmarks.report.timers.readme import figures

TEMPLATES = Path(__file__).parent / "jobs"


class Part(NamedTuple):
    """`write` returns a page anew, from the page as it is and the results of that name."""

    page: str
    results: str
    write: Callable[[str, Kept], str]


def _whole(page: Callable[[Kept], str]) -> Callable[[str, Kept], str]:
    return lambda _, kept: page(kept)


def _marked(name: str, part: Callable[[Kept], str]) -> Callable[[str, Kept], str]:
    def write(page: str, kept: Kept) -> str:
        with suppress(KeyError):  # what was not measured: the part stays as it is
            return with_part(page, name, part(kept).strip())
        return page

    return write


def _quoting(quotes: list[Quote]) -> Callable[[str, Kept], str]:
    return lambda page, kept: quoted(page, quotes, kept)


PARTS = [
    Part("docs/benchmarks.md", "timers", _whole(timers)),
    Part("README.md", "timers", _marked("figures", figures)),
    Part("README.md", "jobs", _quoting(README)),
    Part("docs/jobs-benchmarks.md", "jobs", _whole(partial(rows, TEMPLATES / "page.md"))),
    Part("docs/stores-benchmarks.md", "stores", _whole(stores)),
    Part("docs/jobs-peers.md", "queues", _whole(queues)),
    *(
        Part("docs/service-benchmarks.md", name, _marked(name, partial(rows, TEMPLATES / f"{name}.md")))
        for name in ("service", "outlets")
    ),
    Part("docs/scaling.md", "crew", _marked("crew", crew)),
    Part("docs/event-loop.md", "timers", _quoting(EVENT_LOOP)),
    *(Part("docs/capacity.md", name, _quoting(quotes)) for name, quotes in CAPACITY.items()),
]


def of_other_versions(folder: Path) -> list[str]:
    """Return a line for each part that was not measured with this version of pywheel."""
    lines = []
    for part in PARTS:
        measured = read(folder / f"{part.results}.json")["about"].get("pywheel")
        if measured != pywheel.__version__:
            by = f"pywheel {measured}" if measured else "nothing that is kept"
            lines.append(f"{part.page}: {part.results} measured with {by}, this is {pywheel.__version__}")
    return lines

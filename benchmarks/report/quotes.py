"""Figures that pages quote within their sentences, written anew from the results."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from typing import NamedTuple

from benchmarks.kept import Kept
from benchmarks.report.stores.results import middle
from benchmarks.report.text import size
from benchmarks.report.timers.results import Results, known

STORES = {"sqlite": "on disk", "postgres": "on disk", "mysql": "on disk", "redis": "in memory"}


class Quote(NamedTuple):
    """A figure in a page, between two texts, and its value by the results."""

    before: str
    after: str
    figure: Callable[[Kept], str]

    def pattern(self) -> re.Pattern[str]:
        """Return the pattern of the figure. It occurs once in the page, perhaps over the end of a line."""
        before, after = (re.escape(text).replace(r"\ ", r"\s+") for text in (self.before, self.after))
        return re.compile(rf"({before})(.+?)({after})")


def _row(kept: Kept, name: str, key: str = "") -> float:
    rounds = kept["results"][name]["rounds"]
    return median(one[key] if key else one for one in rounds)


def _count(name: str, key: str = "") -> Callable[[Kept], str]:
    return lambda kept: size(round(_row(kept, name, key)))


def _late(part: str) -> Callable[[Kept], str]:
    return lambda kept: f"{_row(kept, 'late', part):.1f}"


def _drains(kept: Kept) -> str:
    return " | ".join(size(round(known(middle(kept["results"]["drain100"][store], "rate")))) for store in STORES)


def _bytes(kept: Kept) -> str:
    found = kept["results"]["bytes"]
    return " | ".join(f"{known(middle(found[store], 'bytes')):.0f} {where}" for store, where in STORES.items())


CAPACITY = {
    "stores": [
        Quote("| drain of 100,000 due jobs by one worker, a second | ", " |\n", _drains),
        Quote("| bytes of a waiting job | ", " |\n", _bytes),
    ],
    "jobs": [
        Quote("share that wait: ", " a second by 100 tasks on SQLite", _count("tasks100")),
        Quote("on SQLite, ", " by `put_many` of 1,000", _count("many1000", "put_many")),
    ],
    "service": [
        Quote("64 connections put ", " jobs a second over HTTP", _count("many", "http")),
        Quote("one connection puts ", " in batches of 1,000", _count("batch", "jobs/s")),
    ],
}
"""The quotes of docs/capacity.md, by the name of the results."""


README = [
    Quote("delivers ", " due jobs a second from a SQLite file", _count("drain100")),
    Quote("begins half of 20,000 within ", " ms of their time", _late("p50")),
    Quote("99 of 100 within ", " ms", _late("p99")),
]


def _timeouts(measure: str) -> Callable[[Kept], str]:
    def figure(kept: Kept) -> str:
        ratios = [
            known(Results(kept).ratio(measure, "asyncio.timeout", "pywheel.timeout", workload=f"on {kind}"))
            for kind in ("EventLoop", "asyncio", "uvloop")
        ]
        return " | ".join(f"{ratio:.1f}x" for ratio in ratios)

    return figure


EVENT_LOOP = [
    Quote("| `async with timeout(10): pass` | ", " |\n", _timeouts("timeout")),
    Quote("| with an `await asyncio.sleep(0)` in it | ", " |\n", _timeouts("timeout around sleep(0)")),
]


def quoted(page: str, quotes: list[Quote], kept: Kept) -> str:
    """Return the page with the figures of the results; a figure without results stays."""
    for quote in quotes:
        with suppress(KeyError):
            figure = quote.figure(kept)
            page = quote.pattern().sub(rf"\g<1>{figure}\g<3>", page)
    return page

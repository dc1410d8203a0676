"""The questions that the paper asks of the model; each answer is a table.

`brief` is a part of the jobs and of the sizes: for tests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, replace
from math import inf
from pathlib import Path
from typing import NamedTuple

from benchmarks.report.text import number
from benchmarks.scaling.kinds import Kind
from benchmarks.scaling.model import Outcome, Setup, simulate

LATE = 0.15  # seconds at p99, three slices of time: beyond the knee it is more
TOTAL = 100_000  # deliveries a second, of all stores
TRIP = 0.0005
NETWORK = {"trip": TRIP, "put_batch": 10}  # on the network, with puts that share commits
WORKERS = 8
DISK = {"flush": 200e-6, "bandwidth": 200e6}  # of one store: what is assumed but where the model is compared

WORK = {field.name for field in fields(Kind) if field.default == 0.0} - {"flush", "put_bytes", "deliver_bytes"}


class Table(NamedTuple):
    """An answer: for people as text, for the picture as numbers."""

    name: str
    head: tuple[str, ...]
    rows: list[list[str]]
    points: dict[str, list[tuple[float, float]]]


def steady(setup: Setup, rate: float, jobs: int) -> Outcome:
    """Simulate a rate for about `jobs` jobs, but not less than half a second, or a twentieth for a few hundred."""
    return simulate(replace(setup, rate=rate, seconds=max(jobs / rate, min(jobs / 10_000, 0.5))))


def holds(outcome: Outcome, setup: Setup) -> bool:
    """Whether a rate can be kept up: the lateness at p99 is within the knee."""
    return outcome.percentile(99) <= LATE + 4 * setup.trip


def as_it_was(kind: Kind, seen: Mapping[str, float], measure: str) -> Kind:
    """Return a kind as a measure met it: with its disk, and all work longer by as much as it waited for processors."""
    longer = 1 + seen[f"{measure}, waits for processors"]
    work = {f.name: longer * getattr(kind, f.name) for f in fields(kind) if f.name in WORK}
    return replace(kind, **work, flush=1e-6 * seen[f"{measure}, fsync us"] if kind.flush else 0.0)


def knee(setup: Setup, jobs: int, tries: int = 8) -> float:
    """Return the highest rate that holds, to some per cent."""
    low, high = 50.0, 400_000.0
    for _ in range(tries + 4):
        if high < 1.03 * low:
            break
        rate = (low * high) ** 0.5
        low, high = (rate, high) if holds(steady(setup, rate, jobs), setup) else (low, rate)
    return low


# ---- the questions --------------------------------------------------------------------------------------------------


def compared(kinds: Mapping[str, Kind], file: Path, brief: bool) -> Table:
    """How far the model is off what was measured on one machine that servers and workers shared.

    All work takes longer there by as much as it waited for a processor that others had.
    """
    measured = json.loads(file.read_text())
    names = {"PostgreSQL": "postgres", "Redis always": "redis", "Redis everysec": "everysec", "SQLite": "sqlite"}
    rows = []
    for name, place in names.items():
        if name not in kinds or place not in measured:
            continue
        seen = measured[place]
        here = Setup(kinds[name], together=True, host_cores=os.cpu_count() or 2)
        for count in (1, 2):
            drain = f"drain by {count}"
            kind = as_it_was(kinds[name], seen, drain)
            model = simulate(replace(here, kind=kind, workers=count, backlog=2_000 if brief else 20_000)).rate
            rows.append([name, drain, "jobs/s", *_beside(seen[f"{drain}, jobs/s"], model)])
        slow = as_it_was(kinds[name], seen, "paced")
        outcome = simulate(replace(here, kind=slow, rate=500.0, seconds=1.0 if brief else 4.0, put_batch=1_000))
        for part in (50, 99):
            late = seen[f"paced, late p{part} ms"]
            rows.append([name, "500 a second", f"late p{part} ms", *_beside(late, 1e3 * outcome.percentile(part))])
    head = ("store", "what", "of it", "measured", "model", "model / measured")
    return Table("compared", head, rows, {})


def _beside(measured: float, model: float) -> list[str]:
    return [number(measured), number(model), f"{model / measured:.2f}"]


def by_workers(kinds: Mapping[str, Kind], brief: bool) -> Table:
    """How far one store goes, as it gets more workers."""
    counts = (1, 2) if brief else (1, 2, 4, 8, 16, 32, 64)
    points: dict[str, list[tuple[float, float]]] = {}
    for name, kind in kinds.items():
        away = {} if name == "SQLite" else NETWORK  # a file has no network
        points[name] = [
            (count, knee(Setup(kind, workers=count, **{"put_batch": 10, **away}), 500 if brief else 8_000))
            for count in counts
        ]
    rows = [[name, *(number(rate) for _, rate in found)] for name, found in points.items()]
    return Table("workers", ("store", *(f"{count}" for count in counts)), rows, points)


def by_load(kind: Kind, brief: bool) -> Table:
    """How late jobs are, as one store is asked for more and more."""
    setup = Setup(kind, workers=WORKERS, **NETWORK)
    jobs = 500 if brief else 20_000
    most = knee(setup, jobs)
    rows, points = [], []
    for part in (0.5, 1.1) if brief else (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1):
        found = steady(setup, part * most, jobs)
        points.append((part * most, 1e3 * found.percentile(99)))
        late = [number(1e3 * found.percentile(each)) for each in (50, 99, 100)]
        rows.append([number(part * most), *late, *_busy(found), number(found.batch)])
    head = ("jobs/s", "late p50 ms", "p99", "max", "server", "disk", "busiest worker", "jobs a step")
    return Table("load", head, rows, {kind.name: points})


def by_cores(kind: Kind, brief: bool) -> Table:
    """What more cores of the server give, with workers enough."""
    rows = []
    for cores in (2,) if brief else (2, 4, 8, 16, 32):
        tried = [
            (knee(Setup(kind, workers=workers, server_cores=cores, **NETWORK), 500 if brief else 8_000), workers)
            for workers in ((2,) if brief else (4, 8, 16, 32))
        ]
        rate, workers = max(tried)
        rows.append([f"{cores}", number(rate), f"{workers}"])
    return Table("cores", ("cores of the server", "jobs/s", "workers that gave it"), rows, {})


def by_topics(kind: Kind, brief: bool) -> Table:
    """What several topics cost, all of which each worker handles."""
    rows = []
    for topics in (1, 4) if brief else (1, 4, 16, 64):
        setup = Setup(kind, workers=WORKERS, topics=topics, **NETWORK)
        rate = knee(setup, 500 if brief else 8_000)
        rows.append([f"{topics}", number(rate)])
    return Table("topics", ("topics", "jobs/s"), rows, {})


def by_stores(kinds: Mapping[str, Kind], brief: bool) -> Table:
    """How late jobs are if several stores share all of them; each has its own workers. "-" if they do not keep up."""
    rows, points = [], {}
    jobs = 500 if brief else 12_000
    counts = (32,) if brief else (1, 2, 4, 8, 16, 32)
    for name in [name for name in kinds if name != "SQLite"]:
        setup = Setup(kinds[name], workers=WORKERS, **NETWORK)
        found = [steady(setup, TOTAL / stores, jobs) for stores in counts]
        late = [1e3 * outcome.percentile(99) for outcome in found]
        points[name] = list(zip(counts, late, strict=True))
        rows.append([name, *(number(ms) if holds(it, setup) else "-" for it, ms in zip(found, late, strict=True))])
    return Table("stores", ("store", *(f"{count}" for count in counts)), rows, points)


def by_near(kind: Kind, brief: bool) -> Table:
    """What wake-ups cost: of some part of the jobs, those put for within a minute, workers are told."""
    rows = []
    parts, counts = ((0.0, 1.0), (2,)) if brief else ((0.0, 0.1, 1.0), (8, 32, 64))
    for workers in counts:
        setup = Setup(kind, workers=workers, **NETWORK)
        rates = [knee(replace(setup, near=part), 500 if brief else 6_000) for part in parts]
        rows.append([f"{workers}", *map(number, rates)])
    return Table("near", ("workers", *(f"{part:.0%} near" for part in parts)), rows, {})


def failures(kind: Kind, brief: bool) -> Table:
    """How late jobs are when a part dies, at half of what the store can do."""
    setup = Setup(kind, workers=WORKERS, **NETWORK)
    rate = 500.0 if brief else knee(setup, 8_000) / 2
    setup = replace(setup, rate=rate, seconds=2.0 if brief else 20.0)
    stays = inf if brief else 2.0
    cases = {
        "nothing": setup,
        "a worker, by SIGKILL": replace(setup, killed=min(stays, 1.0), detected=1.0),
        "a worker, cut off or stopped": replace(setup, killed=min(stays, 1.0), detected=4.25),
        "the store is away for 5 s": replace(setup, away=(1.0, 6.0)),
        "for 30 s": replace(setup, away=(1.0, 31.0), seconds=2.0 if brief else 45.0),
    }
    rows = []
    for title, case in cases.items():
        found = simulate(case)
        late = sum(seconds > 1 for seconds in found.late) / max(found.jobs, 1)
        behind = found.percentile(100)
        rows.append([title, number(1e3 * found.percentile(50)), number(behind), f"{late * rate * case.seconds:,.0f}"])
    head = (f"what fails, at {number(rate)} jobs/s", "late p50 ms", "max s", "jobs late by over 1 s")
    return Table("failures", head, rows, {})


def _busy(found: Outcome) -> list[str]:
    return [f"{part:.0%}" for part in (found.server, found.disk, found.worker)]


def answers(kinds: Mapping[str, Kind], file: Path, only: Collection[str], *, brief: bool = False) -> Iterator[Table]:
    """Ask all questions, or some by name."""
    assumed = {
        name: replace(kind, bandwidth=DISK["bandwidth"], flush=DISK["flush"] if kind.flush else 0.0)
        for name, kind in kinds.items()
    }
    postgres = assumed["PostgreSQL"]
    questions: dict[str, Callable[[], Table]] = {
        "compared": lambda: compared(kinds, file, brief),
        "workers": lambda: by_workers(assumed, brief),
        "load": lambda: by_load(postgres, brief),
        "cores": lambda: by_cores(postgres, brief),
        "topics": lambda: by_topics(postgres, brief),
        "near": lambda: by_near(postgres, brief),
        "stores": lambda: by_stores(assumed, brief),
        "failures": lambda: failures(postgres, brief),
    }
    for name, ask in questions.items():
        if not only or name in only:
            yield ask()

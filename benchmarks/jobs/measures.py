"""The measures of the jobs, the number of their rounds, and their goals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path

from benchmarks.jobs import backlogs, crowds, deliver, modes, put, steady, tasks, views
from benchmarks.jobs.floor import RawInserts
from benchmarks.rows import Measure

ROUNDS = 3
CROWDS = {"limit1", "limit4", "killed", "stopped", "crowd1", "crowd16", "crowd40", "idle40"}
APART = CROWDS | {"soak", "held", "idle100k", "idle1m", "counts"}
"""The long measures, the last ones minutes each: they run only when named."""


def measures(part: int, minutes: float) -> list[Measure]:
    """Return all measures, with a `part`-th of the jobs where there are many, and a soak of `minutes`."""
    return [
        *_puts(),
        *_tasks(),
        *_sizes(),
        *_deliveries(part),
        *_modes(part),
        *_beside_each_other(part),
        *_crowds(part),
        *_among_many(part),
        *_views(part),
        *_steady(minutes, 10 if part == 1 else 1),
    ]


def _puts() -> list[Measure]:
    return [
        Measure("one", ROUNDS, ">= 0.85 of the floor", "`put` one by one, a second", _one_by_one),
        Measure("threads32", ROUNDS, ">= 30,000", "by 32 threads, a second", lambda f: put.by_threads(_url(f), 32)),
        Measure(
            "tasks100", ROUNDS, ">= 80,000", "by 100 asyncio tasks, a second", lambda f: put.by_tasks(_url(f), 100)
        ),
        Measure("many100", ROUNDS, ">= 75,000", "`put_many` of 100, jobs a second", lambda f: _by_batches(f, 100)),
        Measure("many1000", ROUNDS, ">= 150,000", "`put_many` of 1000, jobs a second", lambda f: _by_batches(f, 1000)),
    ]


def _tasks() -> list[Measure]:
    beside = "a task's `put` of four plain arguments, beside `put` of the same bytes, us"
    convert = "a task's handler beside its function called, four plain arguments, us"
    return [
        Measure("task", ROUNDS, "<= 1.15", beside, lambda f: tasks.beside_bytes(_url(f))),
        Measure("convert", ROUNDS, "<= 5", convert, lambda _: tasks.conversion()),
    ]


def _sizes() -> list[Measure]:
    keyed = "bytes a job with a key of 18 characters"
    return [
        Measure("bytes", 1, "<= 200", "bytes a job", lambda f: _bytes_a_job(f, keyed=False)),
        Measure("keyed", 1, "<= 245", keyed, lambda f: _bytes_a_job(f, keyed=True)),
    ]


def _deliveries(part: int) -> list[Measure]:
    hundred = 100_000 // part
    late = "p50 <= 1, p99 <= 3, max <= 20"
    beside = "late beside a producer that runs flat out, ms"
    return [
        Measure("late", 1, late, "late, 20,000 jobs, ms", lambda f: deliver.lateness(_url(f), f, 20_000 // part)),
        Measure(
            "near",
            ROUNDS,
            "p99 <= 3",
            "late, put by another process due in 50 ms, ms",
            lambda f: deliver.near(_url(f), f),
        ),
        Measure("beside", 1, "p99 <= 5", beside, lambda f: deliver.beside_a_producer(_url(f), f)),
        Measure("drain5", ROUNDS, ">= 50,000", "drain of 5,000 due, a second", lambda f: modes.drain(_url(f), 5_000)),
        Measure(
            "drain100", ROUNDS, ">= 25,000", "drain of 100,000 due, a second", lambda f: modes.drain(_url(f), hundred)
        ),
    ]


def _modes(part: int) -> list[Measure]:
    many = 20_000 // part
    return [
        Measure(
            mode.name,
            1,
            f">= {mode.least}",
            f"drain of {many:,}: {mode.title}",
            lambda f, mode=mode: modes.beside_plain(_urls(f), mode, many),  # type: ignore[misc]
        )
        for mode in modes.MODES
    ]


def _beside_each_other(part: int) -> list[Measure]:
    some, million, waiting = 20_000 // part, 1_000_000 // part, 300_000 // part
    late = "late, 5,000 topics with handlers, 200 jobs a second, ms"
    drains = {"sleeps": "sleeps 2 ms in asyncio", "computes": "computes 0.2 ms in Python"}
    return [
        *(
            Measure(
                name,
                1,
                "",
                f"drain of {some:,} by 4 processes and by 1: the handler {title}",
                lambda f, name=name: crowds.by_processes(_urls(f), f, name, some),  # type: ignore[misc]
            )
            for name, title in drains.items()
        ),
        *(
            Measure(
                f"limit{workers}",
                1,
                ">= 15",
                f"limit of 1 by group, a handler of 50 ms, workers: {workers}; starts a second",
                lambda f, workers=workers: backlogs.through_a_limit(_url(f), f, workers),  # type: ignore[misc]
            )
            for workers in (1, 4)
        ),
        Measure(
            "claims",
            1,
            "<= 2",
            f"a claim beside {waiting:,} due jobs of another priority, a paused topic, a full limit / without them",
            lambda f: backlogs.claims_beside(_url(f), waiting),
        ),
        Measure(
            "backlog",
            1,
            "p99 <= 10",
            f"late beside a backlog of {million:,} of another topic, ms",
            lambda f: crowds.beside_a_backlog(_url(f), f, million),
        ),
        Measure("topics", 1, "p99 <= 10", late, lambda f: crowds.many_topics(_url(f), f, 5_000)),
    ]


def _crowds(part: int) -> list[Measure]:
    jobs = 2_000 if part == 1 else 500
    without = "of 4 workers, ttr 2 s, s: others' jobs late by / its running jobs again after"
    again = "again <= 3 s"
    shared = [
        Measure(
            f"crowd{workers}",
            1,
            f"<= {most} ms",
            f"processor time of a job, {workers} workers, ms",
            lambda f, workers=workers: crowds.processor_time_of_a_job(_url(f), f, workers, jobs),  # type: ignore[misc]
        )
        for workers, most in ((1, 0.85), (16, 1.2), (40, 1.6))
    ]
    return [
        Measure(
            "killed",
            1,
            f"unstarted <= 0.5, {again}",
            f"SIGKILL to one {without}",
            lambda f: crowds.without_one(_url(f), f, crowds.killed),
        ),
        Measure(
            "stopped",
            1,
            f"unstarted <= 1.5, {again}",
            f"SIGSTOP to one {without}",
            lambda f: crowds.without_one(_url(f), f, crowds.stopped),
        ),
        *shared,
        Measure("idle40", 1, "<= 0.05", "40 idle workers, processors", lambda f: crowds.idle_workers(_url(f), f, 40)),
    ]


def _views(part: int) -> list[Measure]:
    hundred, many = 100_000 // part, 10_000_000 // part
    listed = f"the first 50 of {hundred:,} jobs of 5,000 topics, ms"
    return [
        Measure("list", 1, "<= 20 ms", listed, lambda f: views.listing(_url(f), 5_000, hundred)),
        Measure("counts", 1, "<= 5 ms", "`counts()` with many jobs, ms", lambda f: views.counting(_url(f), many)),
    ]


def _steady(minutes: float, held: float) -> list[Measure]:
    soak = f"{minutes:g} min of 500 jobs a second, kept for 1 min: after a sixth of it, at the end; late, ms"
    open_for = f"{held:g} min of 500 jobs a second beside an open transaction: late p99, first and last minute, ms"
    return [
        Measure("soak", 1, "nothing grows", soak, lambda f: steady.soak(f, minutes)),
        Measure(
            "held",
            1,
            "<= 1.5",
            open_for,
            lambda f: steady.beside_a_transaction(_url(f), f, steady.held_on_sqlite, held),
        ),
    ]


def _among_many(part: int) -> list[Measure]:
    million, hundred = 1_000_000 // part, 100_000 // part
    wait = 62  # seconds: longer than the round of an idle worker
    cancel = f"cancel among {million:,}, us: one by one / 500 at once"
    idle = "<= 0.2/s, 0.05 %, 40 MB"
    first = f"first delivery, {million:,} stored, s"
    return [
        Measure("cancel", 1, "<= 250 / 70 us", cancel, lambda f: _cancel(f, million)),
        Measure("idle100k", 1, idle, f"idle, {hundred:,} far jobs", lambda f: deliver.idle(_url(f), f, hundred, wait)),
        Measure("idle1m", 1, idle, f"idle, {million:,} far jobs", lambda f: deliver.idle(_url(f), f, million, wait)),
        Measure("first", 1, "<= 0.4 / 3 s", first, lambda f: deliver.first_delivery(_url(f), f, million)),
    ]


def _url(folder: Path) -> str:
    return f"sqlite:///{_file(folder)}"


def _urls(folder: Path) -> Callable[[], str]:
    numbers = count()
    return lambda: f"sqlite:///{folder}/jobs{next(numbers)}.db"


def _file(folder: Path) -> Path:
    return folder / "jobs.db"


def _one_by_one(folder: Path) -> dict[str, float]:
    with closing(RawInserts(folder)) as raw:
        return put.one_by_one(_url(folder), raw)


def _by_batches(folder: Path, size: int) -> dict[str, float]:
    with closing(RawInserts(folder)) as raw:
        return put.by_batches(_url(folder), raw, size)


def _bytes_a_job(folder: Path, *, keyed: bool) -> float:
    return put.bytes_a_job(_url(folder), lambda: _file(folder).stat().st_size, keyed=keyed)


def _cancel(folder: Path, stored: int) -> dict[str, float]:
    return {name: 1e6 * seconds for name, seconds in put.cancels(_url(folder), stored).items()}

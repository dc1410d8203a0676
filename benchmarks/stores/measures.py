"""The measures of each store: the workloads of `benchmarks.jobs`, and those that only servers have."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from subprocess import Popen
from typing import NamedTuple

from benchmarks.jobs import backlogs, crowds, deliver, modes, put, steady
from benchmarks.jobs.processes import workers
from benchmarks.stores import scripts
from benchmarks.stores.place import Place
from benchmarks.stores.steps import steps

ROUNDS = 3
APART = {
    *(mode.name for mode in modes.MODES),
    *crowds.HANDLINGS,
    *("limit1", "limit4", "claims", "held", "scripts", "idle", "killed", "stopped", "cut", "stalled", "steps"),
}
"""The measures that take minutes on all stores: they run only when named."""
SERVERS = ("postgres", "mysql", "redis")
DATABASES = ("sqlite", "postgres", "mysql")  # whose places can hold a transaction open: `held(url)`
Values = dict[str, float]


class Measure(NamedTuple):
    """A workload. `run` gets an unused place, an empty folder, and a divisor of large numbers."""

    name: str
    run: Callable[[Place, Path, int], Values]
    rounds: int = ROUNDS
    stores: tuple[str, ...] = ()  # names of its stores, up to the first "-"; empty for all
    durable: bool = True  # else the server waits for no disk


MEASURES = [
    Measure("one", lambda here, _, part: one_by_one(here, max(10 // part, 3))),
    Measure("threads", lambda here, _, part: by_threads(here, max(24_000 // part, 32))),
    Measure("tasks", lambda here, _, part: {"rate": put.by_tasks(here.url(), 100, max(60_000 // part, 100))}),
    Measure("many", lambda here, _, part: by_batches(here, max(50_000 // part, 1_000))),
    Measure("drain5", lambda here, _, part: {"rate": modes.drain(here.url(), max(5_000 // part, 1_000))}),
    Measure("drain100", lambda here, _, part: {"rate": modes.drain(here.url(), max(100_000 // part, 1_000))}),
    *(
        Measure(mode.name, lambda here, _, part, mode=mode: beside_plain(here, mode, part), rounds=1)  # type: ignore[misc]
        for mode in modes.MODES
    ),
    *(
        Measure(name, lambda here, folder, part, name=name: by_processes(here, folder, name, part), rounds=1)  # type: ignore[misc]
        for name in crowds.HANDLINGS
    ),
    *(
        Measure(
            f"limit{workers}",
            lambda here, folder, _, workers=workers: through_a_limit(here, folder, workers),  # type: ignore[misc]
            rounds=1,
        )
        for workers in (1, 4)
    ),
    Measure("claims", lambda here, _, part: backlogs.claims_beside(here.url(), 300_000 // part), rounds=1),
    Measure("held", lambda here, folder, part: beside_a_transaction(here, folder, part), rounds=1, stores=DATABASES),
    Measure("scripts", lambda here, folder, part: longest_script(here, folder, part), rounds=1, stores=("redis",)),
    Measure("late", lambda here, folder, part: lateness(here, folder, 20_000 // part), rounds=1),
    Measure("near", lambda here, folder, part: deliver.near(here.url(), folder, 1_000 // part), rounds=1),
    Measure("idle", lambda here, folder, part: idle(here, folder, 1_000_000 // part), rounds=1, stores=SERVERS),
    Measure("killed", lambda here, folder, _: crowds.without_one(here.url(), folder, crowds.killed), rounds=1),
    Measure("stopped", lambda here, folder, _: crowds.without_one(here.url(), folder, crowds.stopped), rounds=1),
    Measure("cut", lambda here, folder, _: without_its_network(here, folder, "cut"), rounds=1, stores=SERVERS),
    Measure("stalled", lambda here, folder, _: without_its_network(here, folder, "stall"), rounds=1, stores=SERVERS),
    Measure("bytes", lambda here, _, part: bytes_a_job(here, max(100_000 // part, 1_000)), rounds=1),
    Measure("steps", lambda here, _, part: steps(here, 1_000_000 // part), rounds=1),
]


def one_by_one(here: Place, rounds: int) -> Values:
    """Compare puts with raw inserts."""
    with closing(here.floor()) as floor:
        return put.one_by_one(here.url(), floor, rounds)


def by_threads(here: Place, count: int) -> Values:
    """Return puts a second by 32 threads; on a server its own tool's inserts as well, by 32 clients."""
    rate = put.by_threads(here.url(), 32, count)
    tool = here.tool(32, count)
    return {"rate": rate} | ({"tool": tool, "ratio": rate / tool} if tool else {})


def by_batches(here: Place, count: int) -> Values:
    """Compare puts of 1000 with the driver's fastest insert of as many."""
    with closing(here.floor()) as floor:
        found = put.by_batches(here.url(), floor, 1_000, count)
    return {**found, "ratio": found["put_many"] / found["floor"]}


def beside_plain(here: Place, mode: modes.Mode, part: int) -> Values:
    """Compare a kind of work with the plain one."""
    return modes.beside_plain(here.url, mode, max(20_000 // part, 1_000))


def by_processes(here: Place, folder: Path, handler: str, part: int) -> Values:
    """Compare 4 worker processes with 1."""
    return crowds.by_processes(here.url, folder, handler, max(20_000 // part, 1_000), here.processor_seconds)


def through_a_limit(here: Place, folder: Path, workers: int) -> Values:
    """Return starts a second of a group that may run one job at once."""
    return {"rate": backlogs.through_a_limit(here.url(), folder, workers)}


def beside_a_transaction(here: Place, folder: Path, part: int) -> Values:
    """Return how late jobs come while a transaction stays open: 10 minutes, or 1 of a part."""
    return steady.beside_a_transaction(here.url(), folder, here.held, 10 if part == 1 else 1)


def longest_script(here: Place, folder: Path, part: int) -> Values:
    """Return ms of the longest command of Redis while all kinds of jobs are at hand in masses."""
    return scripts.longest(here, folder, 300_000 // part, 50_000 // part, 10_000 // part)


def lateness(here: Place, folder: Path, count: int) -> Values:
    """Return how late jobs came that were put 20 at once, due in 5 to 20 s, and how many came 1 ms too early."""
    found = deliver.lateness(here.url(), folder, count, batch=20)
    early = sum(late < -0.001 for late in json.loads((folder / "late.json").read_text())["late"])
    return {**found, "early": early}


def idle(here: Place, folder: Path, stored: int, seconds: float = 30) -> Values:
    """Return queries a second, and per cent of a core that the server takes, while two workers wait for far jobs."""
    url = here.url()
    put.fill(url, stored)
    here.settle()
    first = here.queries()  # they are counted from now on
    own = here.queries() - first
    with workers(url, [folder / "0.json", folder / "1.json"]):
        time.sleep(10)
        queries, processor, began = here.queries(), here.processor_seconds(), time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - began
        spent = here.processor_seconds() - processor
        return {"queries": (here.queries() - queries - own) / passed, "server": 100 * spent / passed}


def without_its_network(here: Place, folder: Path, how: str) -> Values:
    """Return the cost when one of four workers loses its connections (`cut`), or hears nothing (`stall`)."""
    with here.proxied() as (url, by_proxy, proxy):

        @contextmanager
        def lost(_: Popen[bytes]) -> Iterator[None]:
            getattr(proxy, how)()
            yield
            proxy.heal()

        return crowds.without_one(url, folder, lost, first=by_proxy)


def bytes_a_job(here: Place, count: int) -> Values:
    """Return the bytes of a job with a body of 128."""
    return {"bytes": put.bytes_a_job(here.url(), here.size, keyed=False, count=count)}

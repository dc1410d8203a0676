"""How many webhooks a second one process delivers, how late they arrive, and what a hanging endpoint does to others."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from pywheel import JobQueue

RATE: Final = 500  # jobs a second
_BODY: Final = b"x" * 115  # 128 bytes, with the due time before it
_AHEAD: Final = 3_000  # ms from the first put until the first job is due


class Endpoints(NamedTuple):
    """The ports of a process of endpoints."""

    healthy: list[int]
    hanging: list[int]

    def late(self) -> list[float]:
        """Return how late in ms each job came to a healthy endpoint since this was asked last, in order."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.healthy[0]}/", timeout=30) as answer:
            found = json.load(answer)
        return sorted(value for port in self.healthy for value in found.get(str(port), ()))


@contextmanager
def endpoints(healthy: int, hanging: int = 0) -> Iterator[Endpoints]:
    """Start endpoints in a process of their own."""
    command = [sys.executable, "-m", "benchmarks.outlets.endpoint_process", str(healthy), str(hanging)]
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE)) as process:
        ports = json.loads(process.stdout.readline())  # type: ignore[union-attr]
        yield Endpoints(ports[:healthy], ports[healthy:])


@contextmanager
def worker(url: str, concurrency: int, per_host: int) -> Iterator[Callable[[], float]]:
    """Start a worker in a process of its own; give what says how many seconds of processor time it has used."""
    command = [sys.executable, "-m", "benchmarks.outlets.worker_process", url, str(concurrency), str(per_host)]
    log = subprocess.DEVNULL  # the log has a line for each failed attempt
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)) as process:
        process.stdout.readline()  # type: ignore[union-attr]
        yield lambda: _used(process.pid)


def _used(process: int) -> float:
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """End a process."""
    try:
        yield process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def _put(queue: JobQueue, jobs: list[tuple[int, int]]) -> None:
    """Put jobs: (ms after now, port) each."""
    base = int(time.time() * 1000)
    made = [
        queue.job("t", b"%013d" % (base + due) + _BODY, to=f"http://127.0.0.1:{port}/hook")._replace(
            due=base + due, delay=None
        )
        for due, port in jobs
    ]
    for start in range(0, len(made), 5_000):
        queue.put_many(made[start : start + 5_000])


def drain(folder: Path, count: int) -> dict[str, float]:
    """Return deliveries a second of a backlog to one endpoint, and the ms of processor time of each in the worker."""
    url = f"sqlite:///{folder}/jobs.db"
    with JobQueue(url) as queue, endpoints(1) as there:
        _put(queue, [(-1, there.healthy[0])] * count)
        with worker(url, 64, 64) as used:
            while queue.topics.counts()["t"].done < count // 10:
                time.sleep(0.005)
            before, began, spent = queue.topics.counts()["t"].done, time.perf_counter(), used()
            while queue.topics.counts()["t"].done < count:
                time.sleep(0.01)
            seconds, spent = time.perf_counter() - began, used() - spent
    return {"rate": (count - before) / seconds, "processor ms of each": 1_000 * spent / (count - before)}


def lateness(
    folder: Path, hanging: int = 0, *, healthy: int = 20, seconds: int = 20, per_host: int = 20
) -> dict[str, float]:
    """Return how late, in ms, jobs reach healthy endpoints while `hanging` jobs a second go to one that hangs.

    ``p99 of a second`` is the median over the seconds of each one's p99, which a busy machine disturbs less.
    """
    url = f"sqlite:///{folder}/jobs.db"
    with JobQueue(url) as queue, endpoints(healthy, 1 if hanging else 0) as there:
        jobs = [
            (_AHEAD + 1000 * n // RATE, there.healthy[n * 7 % healthy])  # not all of one endpoint at once
            for n in range(RATE * seconds)
        ]
        jobs += [(_AHEAD + 1000 * n // hanging, there.hanging[0]) for n in range(hanging * seconds)]
        with worker(url, 200, per_host):
            _put(queue, jobs)
            by_second = list(_each_second(there, RATE * seconds))
    late = sorted(value for second in by_second for value in second)
    return {
        "p50": late[len(late) // 2],
        "p99": late[len(late) * 99 // 100],
        "p99 of a second": median(second[len(second) * 99 // 100] for second in by_second),
    }


def _each_second(there: Endpoints, count: int) -> Iterator[list[float]]:
    """Yield the latenesses of each second, until `count` jobs have arrived, or none for a minute."""
    began, silent = time.monotonic(), 0
    for second in itertools.count(1):
        time.sleep(max(began + second - time.monotonic(), 0))
        late = there.late()
        count -= len(late)
        silent = 0 if late else silent + 1
        if late:
            yield late
        if count <= 0 or silent > 60:
            break

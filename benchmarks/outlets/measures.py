"""How many webhooks a second one process delivers, how late they come, and what a hanging endpoint does to others."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pywheel import JobQueue

_BODY = b"x" * 115  # 128 bytes, with the due time before it
_AHEAD = 3_000  # ms from the first put until the first job is due


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
def worker(url: str, concurrency: int, per_host: int | None) -> Iterator[None]:
    """Start a worker in a process of its own."""
    numbers = [concurrency] if per_host is None else [concurrency, per_host]
    command = [sys.executable, "-m", "benchmarks.outlets.worker_process", url, *map(str, numbers)]
    log = subprocess.DEVNULL  # each attempt that fails is said there
    with ended(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)) as process:
        process.stdout.readline()  # type: ignore[union-attr]
        yield


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


def drain(folder: Path, count: int) -> float:
    """Return deliveries a second of a backlog to one endpoint."""
    url = f"sqlite:///{folder}/jobs.db"
    with JobQueue(url) as queue, endpoints(1) as there:
        _put(queue, [(-1, there.healthy[0])] * count)
        with worker(url, 64, None):
            while queue.counts()["t"].done < count // 10:
                time.sleep(0.005)
            before, began = queue.counts()["t"].done, time.perf_counter()
            while (done := queue.counts()["t"].done) < count:
                time.sleep(0.01)
            return (done - before) / (time.perf_counter() - began)


def steady(folder: Path, rate: int, seconds: int) -> dict[str, Any]:
    """Return how late jobs come to one endpoint, at so many a second."""
    return beside_hanging(folder, rate, 0, seconds, healthy=1)


def beside_hanging(
    folder: Path,
    rate: int,
    hanging_rate: int,
    seconds: int,
    healthy: int = 20,
    hanging: int = 1,
    concurrency: int = 200,
    per_host: int | None = 20,
) -> dict[str, Any]:
    """Return how late jobs come to healthy endpoints while so many a second go to hanging ones, in ms."""
    url = f"sqlite:///{folder}/jobs.db"
    with JobQueue(url) as queue, endpoints(healthy, hanging if hanging_rate else 0) as there:
        jobs = [
            (_AHEAD + 1000 * n // rate, there.healthy[n * 7 % healthy])  # not all of one port at once
            for n in range(rate * seconds)
        ]
        if hanging_rate:
            jobs += [
                (_AHEAD + 1000 * n // hanging_rate, there.hanging[n % hanging]) for n in range(hanging_rate * seconds)
            ]
        with worker(url, concurrency, per_host):
            _put(queue, jobs)
            time.sleep(_AHEAD / 1000 + seconds + 1)
            late = there.late()
            end = time.monotonic() + 60
            while len(late) < rate * seconds and time.monotonic() < end:
                time.sleep(1)
                late = sorted(late + there.late())
    if not late:
        return {"p50": float("inf"), "p99": float("inf"), "p100": float("inf"), "came": 0}
    return {
        **{f"p{part:g}": late[min(len(late) * part // 100, len(late) - 1)] for part in (50, 99, 100)},
        "came": len(late) / (rate * seconds),
    }

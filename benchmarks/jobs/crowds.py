"""Many workers on one file, many topics, a backlog beside: the cost of each to the others."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.jobs.floor import BODY
from benchmarks.jobs.processes import percentiles, processor_seconds, until, worker, workers
from pywheel import JobQueue

_DRAW = random.Random(3)
_TTR = 2.0
Lose = Callable[[subprocess.Popen[bytes]], AbstractContextManager[None]]


@contextmanager
def killed(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill the process."""
    process.kill()
    yield


@contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop the process for a while, then let it go on."""
    process.send_signal(signal.SIGSTOP)
    yield
    process.send_signal(signal.SIGCONT)


HANDLINGS = {"sleeps": {"concurrency": 64}, "computes": {}}


def by_processes(
    new: Callable[[], str], folder: Path, handler: str, count: int, server: Callable[[], float] = lambda: 0.0
) -> dict[str, float]:
    """Compare 4 processes with 1 that drain a backlog, by a handler that sleeps or computes.

    The result also has ms of processor time a job, of all 4 workers, and of the server, which `server` counts in
    seconds.
    """
    one, *_ = _drain_by_processes(new(), folder, handler, 1, count, server)
    four, client, servers = _drain_by_processes(new(), folder, handler, 4, count, server)
    return {"one": one, "four": four, "ratio": four / one, "workers ms": client, "server ms": servers}


def _drain_by_processes(
    url: str, folder: Path, handler: str, processes: int, count: int, server: Callable[[], float]
) -> tuple[float, float, float]:
    go = folder / f"go{processes}"
    reports = [folder / f"drain{processes}.{number}.json" for number in range(processes)]
    options: dict[str, Any] = {"handler": handler, "handling": HANDLINGS[handler], "listens": False, "wait": str(go)}
    with JobQueue(url) as queue:
        for start in range(0, count, 1_000):
            queue.put_many([queue.job("t", BODY) for _ in range(min(1_000, count - start))])
        with workers(url, reports, **options) as crew:
            began, client, served = time.perf_counter(), processor_seconds(crew), server()
            go.touch()
            until(lambda: queue.topics.counts()["t"].done == count, 0.01)
            seconds = time.perf_counter() - began
            spent = (processor_seconds(crew) - client, server() - served)
    return count / seconds, 1_000 * spent[0] / count, 1_000 * spent[1] / count


def beside_a_backlog(url: str, folder: Path, backlog: int, count: int = 2_000) -> dict[str, Any]:
    """Return how late the jobs of one topic start, one every 5 ms, while the worker has a backlog of another topic."""
    report = folder / "backlog.json"
    with JobQueue(url) as queue:
        for _ in range(backlog // 2_000):
            queue.put_many([queue.job("backlog", BODY) for _ in range(2_000)])
        queue.put_many([queue.job("t", BODY, delay=4 + 0.005 * number) for number in range(count)])
        with worker(url, report, topics=["t", "backlog"], listened=["t"]):
            until(lambda: queue.topics.counts()["t"].done == count, 0.2)
            left = queue.topics.counts()["backlog"].delayed
    return {**percentiles(report), "left of the backlog": left}


def without_one(url: str, folder: Path, lose: Lose, first: str = "") -> dict[str, float]:
    """Return the cost, in s, of losing one of four workers for 6 s amid 80 jobs a second.

    The worker is lost inside the context `lose`; `first` is its own address of the store, if it has one.

    Some jobs take 1.5 s, and their ttr is 2 s. `unstarted`: the lateness of jobs that no handler had begun; `again`:
    how long after its first start a job began again.
    """
    reports = [folder / f"without{number}.json" for number in range(4)]
    options: dict[str, Any] = {"handler": "runs_and_tells", "handling": {"ttr": _TTR}}
    with (
        JobQueue(url) as queue,
        worker(first or url, reports[0], **options) as lost,
        workers(url, reports[1:], **options),
    ):
        time.sleep(1.5)
        count = 800
        ids = queue.put_many(
            [queue.job("t", b"1.5" if number % 10 == 0 else b"0.01", delay=1 + number / 80) for number in range(count)]
        )
        time.sleep(5)
        with lose(lost):
            time.sleep(6)
        until(lambda: queue.topics.counts()["t"].done == count, 0.2)
        dues = {id: queue.get(id).created / 1000 for id in ids}  # type: ignore[union-attr]
    return _beginnings(reports, {id: dues[id] + 1 + number / 80 for number, id in enumerate(ids)})


def _beginnings(reports: list[Path], dues: dict[int, float]) -> dict[str, float]:
    starts = defaultdict(list)
    for report in reports:
        for line in Path(f"{report}.starts").read_text().splitlines():
            id, at = line.split()
            starts[int(id)].append(float(at))
    again = [sorted(times) for times in starts.values() if len(times) > 1]
    return {
        "unstarted": max(min(times) - dues[id] for id, times in starts.items()),
        "again": max((times[1] - times[0] for times in again), default=0.0),
        "redelivered": len(again),
    }


def processor_time_of_a_job(url: str, folder: Path, count: int, jobs: int = 2_000) -> float:
    """Return ms of processor time for a job, of all workers on a file together, at 100 jobs a second."""
    with JobQueue(url) as queue, workers(url, [folder / f"crowd{count}.{n}.json" for n in range(count)]) as crew:
        queue.put("t", BODY)
        time.sleep(3)
        queue.put_many([queue.job("t", BODY, delay=2 + number / 100) for number in range(jobs)])
        before = processor_seconds(crew)
        until(lambda: queue.topics.counts()["t"].done == jobs + 1, 0.2)
        return 1_000 * (processor_seconds(crew) - before) / jobs


def idle_workers(url: str, folder: Path, count: int, seconds: float = 20) -> float:
    """Return how many processors `workers` workers use without work."""
    with JobQueue(url) as queue:
        queue.put("t", BODY, delay=86_400)
        with workers(url, [folder / f"idler{number}.json" for number in range(count)]) as crew:
            time.sleep(5)
            before = processor_seconds(crew)
            time.sleep(seconds)
            return (processor_seconds(crew) - before) / seconds


def many_topics(url: str, folder: Path, topics: int, jobs: int = 4_000) -> dict[str, Any]:
    """Return how late jobs of many topics start. Another process puts 200 a second, due in 1 to 3 s."""
    report = folder / "topics.json"
    with JobQueue(url) as queue, worker(url, report, topics=topics) as process:
        time.sleep(3)
        before, began = processor_seconds([process]), time.monotonic()
        for number in range(jobs):
            queue.put(f"t{_DRAW.randrange(topics)}", BODY, delay=_DRAW.uniform(1, 3))
            time.sleep(max(began + number / 200 - time.monotonic(), 0))
        until(lambda: sum(count.done for count in queue.topics.counts().values()) == jobs, 0.2)
        spent = processor_seconds([process]) - before
    return {**percentiles(report), "processor ms a job": 1_000 * spent / jobs}

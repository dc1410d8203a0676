"""Many schedules on one store: what they ask of it while none is due, and how late their ticks are.

    python -m benchmarks.jobs.periodic [--store sqlite:////tmp/periodic.db] [--schedules 10000] [--seconds 120]

Beside the ticks plain delayed jobs run, put ahead, as many of them: the difference is what a schedule costs, the rest
is the host's. All ticks come at the same multiples of a period, and later by lot: so they are planned all at once.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pywheel import JobQueue, Worker
from pywheel.jobs.schedule import NAME, Schedule
from pywheel.stores.schedule_notes import ScheduleNotes, as_said

_AHEAD = 40_000  # ms
_ASKED = ("apply", "get", "history", "note", "notes", "page", "next_dues", "topics")


class Counted:
    """A store that counts what it is asked."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED:
            self.asked[name] += 1
        return getattr(self.store, name)


def quantiles(late: list[float]) -> str:
    """Return a few quantiles, in ms."""
    ordered = sorted(late) or [0.0]
    return "  ".join(f"{name} {ordered[int((len(ordered) - 1) * part)]:.1f}" for name, part in _QUANTILES)


_QUANTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store")
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(given.store or f"sqlite:///{Path(folder)}/periodic.db", given.schedules, given.seconds)


def measure(url: str, count: int, seconds: float) -> None:
    """Measure a store that is empty."""
    queue, late = JobQueue(url), {True: [], False: []}

    @queue.handler("work")
    def work(job: Any) -> None:
        late[NAME in job.headers].append(time.time() * 1000 - job.due)

    make(queue, count, 86_400_000 * 365)  # the next tick is in another year, or nearly
    counted = queue.store = Counted(queue.store)
    worker = Worker(queue, keep="1m")
    worker.start()
    time.sleep(10)
    counted.asked.clear()
    time.sleep(seconds / 2)
    rate = sum(counted.asked.values()) * 2 / seconds
    print(f"{count} schedules, none due: {rate:.2f} queries/s", dict(counted.asked))

    period = round(seconds) * 1000
    left = period - queue.store.clock.wall() % period
    if left < _AHEAD:  # what is made so shortly before its tick is late because it was made late
        time.sleep(left / 1000)
    make(queue, count, period, period)
    start = (queue.store.clock.wall() // period + 1) * period
    ahead = start - queue.store.clock.wall()
    queue.put_many([queue.job("work", delay=(ahead + number * period / count) / 1000) for number in range(count)])
    time.sleep((start - queue.store.clock.wall()) / 1000)
    time.sleep(seconds)
    worker.stop()
    worker.join(30)
    print(f"ticks      {len(late[True]):6}  late, ms: {quantiles(late[True])}")
    print(f"plain jobs {len(late[False]):6}  late, ms: {quantiles(late[False])}")
    print("load", Path("/proc/loadavg").read_text().strip())


def make(queue: JobQueue, count: int, period: int, jitter: int = 0) -> None:
    """Make schedules, or change them."""
    names = [f"s{number:06}" for number in range(count)]
    began = time.perf_counter()
    ScheduleNotes(queue.store).change_many(
        {name: as_said(Schedule(name, "work", every=period, jitter=jitter), queue.store) for name in names}
    )
    print(f"{count} schedules written in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()

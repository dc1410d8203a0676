"""What `make demo` shows of jobs: a worker killed half-way, and the accounting; then a notification on its ladder."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from demos.jobs_worker import RECORD, TOPIC
from demos.ladder import climb
from pywheel import JobQueue
from pywheel.cli.output import table
from pywheel.jobs import State

_CHUNK = 500
_HEAD_START = 2.0  # seconds before the first job is due
_PATIENCE = 60.0  # seconds to wait for the last job after it was due


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return the exit status: 1 if a job was lost or early."""
    parser = argparse.ArgumentParser(prog="python -m demos.jobs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000, help="how many jobs (default: 20 000)")
    parser.add_argument("--seconds", type=float, default=10, help="over how many seconds they are due (default: 10)")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="pywheel-demo-") as folder:
        fine = _accounting(console, Path(folder), options.jobs, options.seconds)
        fine &= climb(console, f"sqlite:///{folder}/ladder.db")
    return 0 if fine else 1


def _accounting(console: Console, folder: Path, jobs: int, seconds: float) -> bool:
    console.print(f"[bold]{jobs:,} jobs[/], due over {seconds:g} s; at half of them the worker is killed (SIGKILL)\n")
    url, ledger = f"sqlite:///{folder}/jobs.db", folder / "ledger"
    bars = Progress(
        TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
    with JobQueue(url) as queue, bars:
        put, delivered = bars.add_task("put", total=jobs), bars.add_task("delivered", total=jobs)
        with _worker(url, ledger) as process:
            ids = _put(queue, jobs, seconds, bars, put)
            _watch(ledger, bars, delivered, jobs // 2, process)
            process.send_signal(signal.SIGKILL)
            process.wait()
        running = queue.topics.counts()[TOPIC].running
        bars.console.print(f"           killed: {running} claims were under way; another worker starts")
        with _worker(url, ledger) as process:
            _watch(ledger, bars, delivered, jobs, process)
            _settled(queue)
        states = queue.topics.counts()[TOPIC]
    return _account(console, ids, _read(ledger), states.done)


def _put(queue: JobQueue, jobs: int, seconds: float, bars: Progress, task: TaskID) -> set[int]:
    draw = random.Random(7)
    ids: set[int] = set()
    began = time.monotonic()
    while len(ids) < jobs:
        count = min(_CHUNK, jobs - len(ids))
        lead = _HEAD_START - (time.monotonic() - began)
        batch = [queue.job(TOPIC, b"x" * 128, delay=max(lead, 0) + draw.uniform(0, seconds)) for _ in range(count)]
        ids.update(queue.put_many(batch))
        bars.advance(task, count)
    return ids


def _watch(ledger: Path, bars: Progress, task: TaskID, target: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until so many different jobs were delivered."""
    end = time.monotonic() + _PATIENCE
    seen = before = 0
    while seen < target and time.monotonic() < end and process.poll() is None:
        time.sleep(0.05)
        seen = len({record[0] for record in _read(ledger)})
        bars.update(task, completed=seen)
        if seen != before:
            before, end = seen, time.monotonic() + _PATIENCE


def _settled(queue: JobQueue) -> None:
    """Wait until every claim is settled."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and any(count.delayed or count.running for count in queue.topics.counts().values()):
        time.sleep(0.05)


def _read(ledger: Path) -> list[tuple[int, int, int]]:
    content = ledger.read_bytes() if ledger.exists() else b""
    whole = len(content) - len(content) % RECORD.size
    return list(RECORD.iter_unpack(content[:whole]))


def _account(console: Console, ids: set[int], records: list[tuple[int, int, int]], done: int) -> bool:
    deliveries = Counter(id for id, _, _ in records)
    lost = len(ids - set(deliveries))
    unexpected = len(set(deliveries) - ids)
    early = sum(late < 0 for _, _, late in records)
    late = sorted(late / 1000 for _, attempt, late in records if attempt == 1)
    parts = [late[min(int(part * len(late)), len(late) - 1)] if late else 0.0 for part in (0.5, 0.99, 1.0)]
    rows = [
        ("put", f"{len(ids):,}"),
        ("delivered", f"{len(deliveries):,}"),
        ("done", f"{done:,}  ({State.DONE})"),
        ("duplicated", f"{sum(deliveries.values()) - len(deliveries):,}  (claims that died with the first worker)"),
        ("lost", f"{lost:,}"),
        ("never put", f"{unexpected:,}"),
        ("early", f"{early:,}"),
        ("late p50 / p99 / max", " / ".join(f"{part:.1f}" for part in parts) + " ms, with the change of workers in it"),
    ]
    console.print()
    console.print(table(("", ""), rows))
    return not lost and not early and not unexpected


@contextmanager
def _worker(url: str, ledger: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker process; whatever happens, none is left."""
    process = subprocess.Popen([sys.executable, "-m", "demos.jobs_worker", url, str(ledger)])
    try:
        yield process
        if process.poll() is None:
            process.terminate()
            process.wait(60)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""Worker processes, and their figures as seen from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any


def start(url: str, report: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start a worker process; `worker_process` says what it takes."""
    arguments = [url, str(report), json.dumps(options)]
    return subprocess.Popen([sys.executable, "-m", "benchmarks.jobs.worker_process", *arguments])


@contextmanager
def worker(url: str, report: Path, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker process; at the end it writes its report."""
    process = start(url, report, **options)
    try:
        until(Path(f"{report}.ready").exists, 0.002)
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    finally:
        process.kill()
        process.wait()


@contextmanager
def workers(url: str, reports: Iterable[Path], **options: Any) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run several worker processes."""
    with ExitStack() as stack:
        yield [stack.enter_context(worker(url, report, **options)) for report in reports]


def until(what: Callable[[], bool], pause: float = 0.02) -> None:
    """Wait for a condition, at most ten minutes."""
    end = time.monotonic() + 600
    while not what():
        if time.monotonic() > end:
            raise TimeoutError("it does not come")
        time.sleep(pause)


def percentiles(*reports: Path) -> dict[str, Any]:
    """Return the lateness that workers report, in ms."""
    return of(1000 * late for report in reports for late in json.loads(report.read_text())["late"])


def of(values: Iterable[float]) -> dict[str, float]:
    """Return the percentiles of values."""
    found = sorted(values)
    return {f"p{part:g}": found[min(int(part / 100 * len(found)), len(found) - 1)] for part in (50, 99, 100)}


def processor_seconds(processes: Iterable[subprocess.Popen[bytes]]) -> float:
    """Return the processor time of processes so far."""
    spent = 0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        spent += int(fields[11]) + int(fields[12])  # of the program and of the system for it
    return spent / os.sysconf("SC_CLK_TCK")


def resident(process: subprocess.Popen[bytes]) -> int:
    """Return the memory that a process holds."""
    return int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

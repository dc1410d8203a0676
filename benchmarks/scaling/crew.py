"""What worker processes cost one PostgreSQL by being there: connections, statements, notifications.

usage: python -m benchmarks.scaling.crew [FILE] [--workers 1,4,12,24] [--seconds 20] [--rate 200]

FILE is a page whose table of this is written anew. Each crew is measured while nothing is due, with a million-second far
job or two, and then while one more process puts so many jobs a second that are due in 50 ms. Counts hardly know what
else the machine does; of the server's processor seconds take the least of several runs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.jobs.processes import percentiles, workers
from benchmarks.report.scaling.page import with_table
from benchmarks.report.text import table
from benchmarks.scaling.calibrate import Place
from pywheel import JobQueue
from tests.stores.servers import Postgres

HEAD = [
    "workers",
    "puts/s",
    "connections",
    "statements/s",
    "of them NOTIFY",
    "server, % of a core",
    "late p50, ms",
    "p99",
]
SETTLED = 5.0  # seconds until a crew knows itself
_COUNTED = """
SELECT coalesce(sum(calls), 0), coalesce(sum(calls) FILTER (WHERE query ILIKE '%pg_notify%'), 0) FROM pg_stat_statements
"""
_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


class Seen(NamedTuple):
    """What was counted so far."""

    when: float
    statements: int
    notifies: int
    processor: float

    @classmethod
    def now(cls, server: Postgres, connection: Any) -> Seen:
        statements, notifies = connection.execute(_COUNTED).fetchone()
        return cls(time.perf_counter(), int(statements), int(notifies), Place(server.folder, server).spent())

    def rates(self, later: Seen) -> list[str]:
        """Return statements, notifications and per cent of a core, each a second."""
        passed = later.when - self.when
        asked = (later.statements - self.statements - 1) / passed  # less the look itself
        notified = (later.notifies - self.notifies) / passed
        return [f"{asked:.1f}", f"{notified:.1f}", f"{100 * (later.processor - self.processor) / passed:.1f}"]


@contextmanager
def putting(url: str, rate: int) -> Iterator[None]:
    """Run a process that puts so many jobs a second, due in 50 ms."""
    arguments = [sys.executable, "-m", "benchmarks.scaling.crew", "--put", url, "--rate", str(rate)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.stdin.close()


def put(url: str, rate: int) -> None:
    """Put at a steady pace until the input ends."""
    import threading

    over = threading.Thread(target=sys.stdin.read)
    over.start()
    with JobQueue(url) as queue:
        queue.put("t", b"", delay=0.05)
        print("putting", flush=True)
        began, count = time.monotonic(), 0
        while over.is_alive():
            queue.put("t", b"", delay=0.05)
            count += 1
            time.sleep(max(began + count / rate - time.monotonic(), 0))


def crew(server: Postgres, count: int, rate: int, seconds: float) -> list[str]:
    """Return the row of so many worker processes, idle or with puts."""
    url = server.url()
    with JobQueue(url) as queue:
        queue.put("t", b"", delay=1_000_000)
    with tempfile.TemporaryDirectory() as folder, server.connect() as connection:
        reports = [Path(folder) / str(number) for number in range(count)]
        with workers(url, reports, topics=["t"]):
            time.sleep(SETTLED)
            if rate:
                with putting(url, rate):
                    time.sleep(SETTLED)
                    rates, sessions = _look(server, connection, seconds)
            else:
                rates, sessions = _look(server, connection, seconds)
        late = percentiles(*reports) if rate else None
    lates = [f"{late['p50']:.1f}", f"{late['p99']:.1f}"] if late else ["", ""]
    return [str(count), str(rate), str(sessions), *rates, *lates]


def _look(server: Postgres, connection: Any, seconds: float) -> tuple[list[str], int]:
    before = Seen.now(server, connection)
    time.sleep(seconds)
    after = Seen.now(server, connection)
    [sessions] = connection.execute(_SESSIONS).fetchone()
    return before.rates(after), sessions


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.crew", description=__doc__.splitlines()[0])
    parser.add_argument("page", nargs="?", type=Path, help="whose table is written anew")
    parser.add_argument("--workers", default="1,4,12,24", help="how many processes (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="for each row (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=200, help="puts a second (default: %(default)s)")
    parser.add_argument("--put", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.put:
        put(options.put, options.rate)
        return
    settings = {"shared_buffers": "256MB", "shared_preload_libraries": "pg_stat_statements"}
    rows = []
    with Postgres(fsync=True, settings=settings) as server:
        with server.connect() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        for count in map(int, options.workers.split(",")):
            for rate in (0, options.rate):
                rows.append(crew(server, count, rate, options.seconds))
                print(*rows[-1], sep="\t", flush=True)
    print(f"\n{table(HEAD, rows)}")
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(text, "crew", table(HEAD, rows)), encoding="utf-8")


if __name__ == "__main__":
    main()

"""What worker processes cost one PostgreSQL by being there: connections, statements, notifications.

usage: python -m benchmarks.scaling.crew [FILE] [--workers 1,4,12,24] [--seconds 20] [--rate 200] [--rounds 3]

FILE is a page whose table of this is written anew. Each crew is measured while a single far job waits, and then while
one more process puts so many jobs a second that are due in 50 ms, as far as the machine lets it: so what was delivered
stands in the table. The sizes of the crews are taken in turns, and the medians of the rounds are shown.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.jobs.processes import percentiles, workers
from benchmarks.report.scaling.page import with_table
from benchmarks.report.text import table
from benchmarks.scaling.calibrate import Figures, Place
from pywheel import JobQueue
from tests.stores.servers import Postgres

HEAD = [
    "worker processes",
    "jobs/s",
    "connections",
    "statements/s",
    "of them NOTIFY",
    "server, % of a core",
    "late p50, ms",
    "p99",
]
ROUNDS = 3
LOOK = 2  # statements of a look itself
SETTLED = 5.0  # seconds until a crew knows itself
_COUNTED = """
SELECT coalesce(sum(calls), 0), coalesce(sum(calls) FILTER (WHERE query ILIKE '%pg_notify%'), 0) FROM pg_stat_statements
"""
_WHOLE = ("jobs", "connections")
_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


class Seen(NamedTuple):
    """What was counted so far."""

    when: float
    done: int
    statements: int
    notifies: int
    processor: float

    @classmethod
    def now(cls, queue: JobQueue, server: Postgres, connection: Any) -> Seen:
        done = queue.topics.counts()["t"].done
        statements, notifies = connection.execute(_COUNTED).fetchone()
        return cls(time.perf_counter(), done, int(statements), int(notifies), Place(server.folder, server).spent())

    def rates(self, later: Seen) -> Figures:
        """Return jobs, statements and notifications a second, and how much of a core the server takes."""
        passed = later.when - self.when
        return {
            "jobs": (later.done - self.done) / passed,
            "statements": (later.statements - self.statements - LOOK) / passed,
            "notifies": (later.notifies - self.notifies) / passed,
            "server": 100 * (later.processor - self.processor) / passed,
        }


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


def crew(server: Postgres, count: int, rate: int, seconds: float) -> Figures:
    """Return what so many worker processes do, idle or with puts."""
    url = server.url()
    with JobQueue(url) as queue, tempfile.TemporaryDirectory() as folder, server.connect() as connection:
        queue.put("t", b"", delay=1_000_000)
        queue.topics.counts()
        own = _sessions(connection)
        reports = [Path(folder) / str(number) for number in range(count)]
        with workers(url, reports, topics=["t"]), putting(url, rate) if rate else nullcontext():
            time.sleep(SETTLED)
            before = Seen.now(queue, server, connection)
            time.sleep(seconds)
            after = Seen.now(queue, server, connection)
            sessions = _sessions(connection)
        late = percentiles(*reports) if rate else {}
    return {"connections": sessions - own, **before.rates(after), **late}


def _sessions(connection: Any) -> int:
    return int(connection.execute(_SESSIONS).fetchone()[0])


def row(count: int, rounds: Sequence[Figures]) -> list[str]:
    """Return a row of the table: the medians."""
    middle = {name: median(one[name] for one in rounds) for name in rounds[0]}
    shown = ["jobs", "connections", "statements", "notifies", "server", "p50", "p99"]
    texts = [f"{middle[name]:.{0 if name in _WHOLE else 1}f}" if name in middle else "" for name in shown]
    return [str(count), *texts]


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.crew", description=__doc__.splitlines()[0])
    parser.add_argument("page", nargs="?", type=Path, help="whose table is written anew")
    parser.add_argument("--workers", default="1,4,12,24", help="how many processes (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=20, help="for each row (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=200, help="puts a second (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each (default: %(default)s)")
    parser.add_argument("--put", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.put:
        put(options.put, options.rate)
        return
    settings = {"shared_buffers": "256MB", "shared_preload_libraries": "pg_stat_statements"}
    found: dict[tuple[int, int], list[Figures]] = {}
    with Postgres(fsync=True, settings=settings) as server:
        with server.connect() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        for _ in range(options.rounds):
            for count in map(int, options.workers.split(",")):
                for rate in (0, options.rate):
                    found.setdefault((count, rate), []).append(crew(server, count, rate, options.seconds))
                    print(count, rate, found[count, rate][-1], flush=True)
    rows = [row(count, rounds) for (count, _), rounds in found.items()]
    print(f"\n{table(HEAD, rows)}")
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(text, "crew", table(HEAD, rows)), encoding="utf-8")


if __name__ == "__main__":
    main()

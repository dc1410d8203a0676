"""The cost of idle and busy worker processes for one PostgreSQL: connections, statements, notifications.

usage: python -m benchmarks.scaling.crew [--workers 1,4,8] [--seconds 5] [--rate 200] [--rounds 3] [--kept FILE]

Each crew is measured while a single far job waits, and then while one more process puts jobs at `--rate`, due in 50 ms.
The sizes of the crews take turns. If the machine has no room for a crew's puts, that crew is left out with a message:
its figures would be the machine's, not the store's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import kept
from benchmarks.jobs.processes import percentiles, workers
from benchmarks.queues.servers import version
from benchmarks.scaling.calibrate import Figures, Place
from pywheel import JobQueue
from tests.stores.servers import Postgres

ROUNDS = 3
ENOUGH = 0.9  # of the wanted puts: with fewer, the machine was the limit
LOOK = 2  # statements of the measurement itself
SETTLED = 5.0  # seconds until a crew is settled
_COUNTED = """
SELECT coalesce(sum(calls), 0), coalesce(sum(calls) FILTER (WHERE query ILIKE '%pg_notify%'), 0) FROM pg_stat_statements
"""
_SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


class Seen(NamedTuple):
    """The counts so far."""

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
    """Run a process that puts `rate` jobs a second, due in 50 ms."""
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
    """Return the activity of `workers` worker processes, idle or with puts."""
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


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling.crew", description=__doc__.splitlines()[0])
    parser.add_argument("--kept", type=Path, default=kept.RESULTS / "crew.json", help="the file of results")
    parser.add_argument("--workers", default="1,4,8", help="how many processes (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=5, help="for each row (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=200, help="puts a second (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each (default: %(default)s)")
    parser.add_argument("--put", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.put:
        put(options.put, options.rate)
        return
    settings = {"shared_buffers": "256MB", "shared_preload_libraries": "pg_stat_statements"}
    found = kept.begun(options.kept, {"PostgreSQL": version("postgresql")})
    results: dict[str, list[Figures]] = {}
    with Postgres(fsync=True, settings=settings) as server:
        with server.connect() as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        for _ in range(options.rounds):
            for count in map(int, options.workers.split(",")):
                for rate in (0, options.rate):
                    name = f"{count}, {rate} puts a second" if rate else f"{count}, idle"
                    results.setdefault(name, []).append(crew(server, count, rate, options.seconds))
                    print(name, results[name][-1], flush=True)
    for name, rounds in list(results.items()):
        if not name.endswith("idle") and median(one["jobs"] for one in rounds) < ENOUGH * options.rate:
            print(f"{name}: left out, as the machine put and delivered too few")
            del results[name]
    found["results"] = results
    kept.write(found, options.kept)


if __name__ == "__main__":
    main()

"""A bad day of a crew: how long jobs wait while workers are killed, stopped, drained and started, and handlers hang.

usage: python -m benchmarks.stores.bad_day [sqlite,postgres,mariadb,redis] [--seconds 40] [--loops 4] [--rounds 1]

Four worker processes that handle different topics, one of which is slow. Of 70 jobs a second some are put to begin at
once, most for later. After a fifth of the time a worker is killed, after two fifths one is stopped for 14 s, one is
drained after three, and a new one comes; two handlers hang. So many busy loops run beside. A job waits from its due
time until a handler begins with it. Whatever the crew has lost by then, the others have room for all that comes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.jobs.processes import of, until
from pywheel import Fixed, Job, JobQueue, Worker
from pywheel.jobs.queries import ListWorkers
from tests.stores.servers import MariaDB, Postgres, Redis

SERVERS = {"postgres": Postgres, "mariadb": MariaDB, "redis": Redis}
CREW = (("mail", "slow", "hangs"), ("mail", "report", "slow"), ("mail", "report", "hangs"), ("mail", "report", "slow"))
"""The topics of each worker: of each there are two that stay."""
TAKES = {"mail": 0.01, "report": 0.05, "slow": 1.0, "hangs": 3600.0}
TTR = 4.0
STOPPED = 14.0
PLAN = {"hang": 0.1, "kill": 0.2, "stop": 0.4, "drain": 0.6, "come": 0.65}
"""What happens when, in parts of the whole."""
RATE = 70
PARTS = 10


def work(url: str, journal: str, *topics: str) -> None:
    """Be a worker that writes down what it begins, until it is told to go."""
    file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    queue = JobQueue(url)

    def handle(job: Job) -> None:
        os.write(file, f"{job.id} {time.time()} {os.getpid()}\n".encode())
        time.sleep(TAKES[job.topic] if job.attempt == 1 else 0)

    for topic in topics:
        queue.handler(topic, concurrency=8, ttr=TTR, retry=Fixed(0.1))(handle)
    Worker(queue, grace=5).run()


class Day:
    """One run on one store."""

    def __init__(self, url: str, folder: Path, seconds: float) -> None:
        self.url, self.seconds = url, seconds
        self.journal = folder / "begun"
        self.queue = JobQueue(url)
        self.draw = random.Random(5)
        self.crew: list[subprocess.Popen[bytes]] = []
        self.due: dict[int, tuple[str, float]] = {}

    def start(self, number: int) -> None:
        """Start a worker."""
        command = [sys.executable, "-m", "benchmarks.stores.bad_day", "--work", self.url, str(self.journal)]
        self.crew.append(subprocess.Popen([*command, *CREW[number]]))

    def put(self) -> None:
        """Put a second's jobs, a few at a time."""
        for _ in range(PARTS):
            topics = self.draw.choices(("mail", "report", "slow"), (80, 17, 3), k=RATE // PARTS)
            delays = [self.draw.choice((0.0, self.draw.uniform(0, 2), self.draw.uniform(0, 6))) for _ in topics]
            jobs = [self.queue.job(topic, delay=delay) for topic, delay in zip(topics, delays, strict=True)]
            began = time.time()
            for id, topic, delay in zip(self.queue.put_many(jobs), topics, delays, strict=True):
                self.due[id] = topic, began + delay
            time.sleep(0.6 / PARTS)

    def happens(self, what: str) -> None:
        """Let it happen."""
        if what == "hang":
            for _ in range(2):
                self.queue.put("hangs")
        elif what == "kill":
            self.crew[0].kill()
        elif what == "stop":
            self.crew[1].send_signal(signal.SIGSTOP)
        elif what == "drain":
            self.crew[2].send_signal(signal.SIGTERM)
        else:
            self.start(0)

    def run(self) -> dict[str, Any]:
        """Return what it was like."""
        try:
            for number in range(len(CREW)):
                self.start(number)
            until(lambda: len(self.queue.store.ask(ListWorkers())) == len(CREW), 0.05)
            time.sleep(2)
            self._events()
            until(lambda: not any(self._left()), 0.2)
            return self._account()
        finally:
            for process in self.crew:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
            self.queue.close()

    def _left(self) -> Iterator[int]:
        for topic, count in self.queue.topics.counts().items():
            if topic in ("mail", "report", "slow"):
                yield count.delayed + count.running

    def _events(self) -> None:
        began = time.monotonic()
        plan = [(part * self.seconds, what) for what, part in PLAN.items()]
        goes_on = 0.4 * self.seconds + STOPPED
        second = 0
        while (now := time.monotonic() - began) < self.seconds:
            while plan and plan[0][0] <= now:
                self.happens(plan.pop(0)[1])
            if now >= goes_on:
                self.crew[1].send_signal(signal.SIGCONT)
                goes_on = self.seconds
            self.put()
            second += 1
            time.sleep(max(began + second - time.monotonic(), 0))

    def _account(self) -> dict[str, Any]:
        starts: dict[int, list[float]] = defaultdict(list)
        for line in self.journal.read_text().splitlines():
            id, at, _ = line.split()
            starts[int(id)].append(float(at))
        waits = [(min(starts[id]) - due, topic, id) for id, (topic, due) in self.due.items() if id in starts]
        held = {id for _, _, id in sorted(waits)[-100:] if self._was_held(id)}
        kept = [wait for wait, _, id in waits if id in held]
        waits = [one for one in waits if one[2] not in held]
        found = of(1_000 * wait for wait, _, _ in waits)
        longest = Counter(topic for wait, topic, _ in waits if wait > 1)
        return {
            **{name: round(value) for name, value in found.items()},
            "over 1 s": sum(longest.values()),
            "held by who was lost": len(kept),
            "of these the longest": round(max(kept, default=0), 2),
            "over 0.75 s": sum(wait > 0.75 for wait, _, _ in waits),
            "lost": len(self.due.keys() - starts.keys()),
            "early": sum(wait < -0.001 for wait, _, _ in waits),
            "twice": sum(len(times) > 1 for id, times in starts.items() if id in self.due),
            "jobs": len(self.due),
            "the longest": [(round(wait, 2), topic, id % 32) for wait, topic, id in sorted(waits, reverse=True)[:5]],
        }

    def _was_held(self, id: int) -> bool:
        """Whether a job was claimed by who was killed or stopped: nobody else may run it until its lease is over."""
        return any(attempt.outcome == "lost" for attempt in self.queue.jobs.history(id))


@contextmanager
def loops(count: int) -> Iterator[None]:
    """Keep the processors busy."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def day(kind: str, seconds: float, count: int) -> dict[str, Any]:
    """Return one day on a new store."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        there = f"sqlite:///{folder}/jobs.db"
        url = there if kind == "sqlite" else stack.enter_context(SERVERS[kind]()).url()
        stack.enter_context(loops(count))
        return Day(url, folder, seconds).run()


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stores.bad_day", description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="?", default="sqlite,postgres,mariadb,redis")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    for _ in range(options.rounds):
        for kind in options.stores.split(","):
            print(kind, json.dumps(day(kind, options.seconds, options.loops)), flush=True)


if __name__ == "__main__":
    main()

"""The measures of a store that the model needs, on a server that it starts, in about a minute each.

usage: python -m benchmarks.scaling.calibrate FILE [--kinds postgres,redis,sqlite] [--jobs 10000] [--rounds 2]

Processor times are the least of the rounds: other load makes them longer, never shorter.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.host import about, fsync_p50
from benchmarks.jobs.processes import percentiles, processor_seconds, until, workers
from pywheel import JobQueue
from pywheel.jobs.commands import Claim, ClaimPolicy
from pywheel.jobs.queries import GetNextDues
from tests.stores.servers import Missing, Postgres, Redis, Server

BODY = b"x" * 128
FAR = 3_600  # seconds
MANY = 1_000
TOPICS = 20
TERMS = ClaimPolicy(ttr=60_000, max_attempts=3)
Figures = dict[str, float]


class Place:
    """A store's address, and the processor time of its server."""

    def __init__(self, folder: Path, server: Any | None) -> None:
        self.folder = folder
        self.server = server
        self._stores = 0

    def url(self) -> str:
        """Return the address of an empty store."""
        self._stores += 1
        return self.server.url() if self.server else f"sqlite:///{self.folder}/{self._stores}.db"

    def spent(self) -> float:
        """Return the processor seconds of the server so far, including helpers that ended."""
        if self.server is None:
            return 0.0
        pid = self.server.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ticks = sum(_ticks(pid)) + sum(sum(_ticks(int(child))[:2]) for child in children)
        return ticks / os.sysconf("SC_CLK_TCK")

    def written(self) -> int:
        """Return the bytes of log that the server has written so far; 0 where that is not known."""
        if isinstance(self.server, Postgres):
            with self.server.connect() as connection:
                [size] = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone() or [0]
                return int(size)
        if isinstance(self.server, Redis):
            with self.server.connect() as client:
                return int(client.info("persistence")["aof_current_size"])
        return 0

    def waited(self, *others: int) -> tuple[float, float]:
        """Return for how many seconds the server and other processes have run, and waited for a processor meanwhile."""
        pids = [*others]
        if self.server is not None:
            pid = self.server.pid
            pids += [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
        ran = waited = 0.0
        for pid in pids:
            for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with suppress(OSError):
                    one, other, _ = map(int, task.read_text().split())
                    ran, waited = ran + one / 1e9, waited + other / 1e9
        return ran, waited


def _ticks(pid: int) -> list[int]:
    """Return the ticks of a process in its own code and in the system's, and the same of its ended children."""
    try:
        return [int(text) for text in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]]
    except FileNotFoundError:
        return [0, 0, 0, 0]


@contextmanager
def place(kind: str) -> Iterator[Place]:
    """Run a server with fsync; PostgreSQL with some more memory than in tests."""
    with tempfile.TemporaryDirectory(prefix="pywheel-scaling-") as folder:
        if kind == "sqlite":
            yield Place(Path(folder), None)
            return
        settings = {"shared_buffers": "256MB", "max_wal_size": "1GB"} if kind == "postgres" else {}
        servers: dict[str, Callable[..., Server]] = {"postgres": Postgres, "redis": Redis, "everysec": Redis}
        more = {"appendfsync": "everysec"} if kind == "everysec" else {}
        with servers[kind](fsync=True, settings={**settings, **more}) as server:
            yield Place(Path(folder), server)


# ---- what a job costs -----------------------------------------------------------------------------------------------


def puts(place: Place, jobs: int) -> Figures:
    """Return the cost of puts, one by one by one client, and by a thousand."""
    with JobQueue(place.url()) as queue:
        queue.put("t", BODY, delay=FAR)
        one = _costs(place, jobs // 10, lambda: [queue.put("t", BODY, delay=FAR) for _ in range(jobs // 10)])
        many = [queue.job("t", BODY, delay=FAR) for _ in range(MANY)]
        bulk = _costs(place, jobs, lambda: [queue.put_many(many) for _ in range(jobs // MANY)])
    return {
        **{f"put one, {name}": value for name, value in one.items()},
        **{f"put many, {name}": value for name, value in bulk.items()},
    }


def _costs(place: Place, jobs: int, work: Callable[[], Any]) -> Figures:
    log = place.written()
    server, own, began = place.spent(), time.process_time(), time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    return {
        "log bytes": (place.written() - log) / jobs,
        "jobs/s": jobs / seconds,
        "server us": 1e6 * (place.spent() - server) / jobs,
        "client us": 1e6 * (time.process_time() - own) / jobs,
    }


def drain(place: Place, jobs: int, count: int) -> Figures:
    """Return the cost of deliveries when `workers` worker processes drain due jobs."""
    url, folder = place.url(), Path(tempfile.mkdtemp(dir=place.folder))
    go = folder / "go"
    with JobQueue(url) as queue:
        for _ in range(jobs // MANY):
            queue.put_many([queue.job("t", BODY) for _ in range(MANY)])
        reports = [folder / str(number) for number in range(count)]
        with workers(url, reports, wait=str(go), listens=False) as crew:
            pids, fsync = [process.pid for process in crew], fsync_p50(folder, 50)
            log, before, server, waits = place.written(), processor_seconds(crew), place.spent(), place.waited(*pids)
            began = time.perf_counter()
            go.touch()
            until(lambda: queue.topics.counts()["t"].done >= jobs)
            seconds = time.perf_counter() - began
            spent = processor_seconds(crew) - before
            ran, waited = (now - then for now, then in zip(place.waited(*pids), waits, strict=True))
            return {
                f"drain by {count}, log bytes": (place.written() - log) / jobs,
                f"drain by {count}, fsync us": 1e6 * fsync,
                f"drain by {count}, waits for processors": waited / ran,
                f"drain by {count}, jobs/s": jobs / seconds,
                f"drain by {count}, server us": 1e6 * (place.spent() - server) / jobs,
                f"drain by {count}, worker us": 1e6 * spent / jobs,
            }


def paced(place: Place, jobs: int) -> Figures:
    """Return the cost of deliveries for one worker, and their lateness, when 500 become due in a second."""
    url, report = place.url(), Path(tempfile.mkdtemp(dir=place.folder)) / "paced"
    with JobQueue(url) as queue, workers(url, [report]) as crew:
        for first in range(0, jobs, MANY):
            some = range(first, min(first + MANY, jobs))
            queue.put_many([queue.job("t", BODY, delay=1.5 + random.random() * jobs / 500) for _ in some])
        time.sleep(0.5)
        pids, fsync = [process.pid for process in crew], fsync_p50(place.folder, 50)
        before, server, waits = processor_seconds(crew), place.spent(), place.waited(*pids)
        until(lambda: queue.topics.counts()["t"].done >= jobs, 0.2)
        own, theirs = processor_seconds(crew) - before, place.spent() - server
        ran, waited = (now - then for now, then in zip(place.waited(*pids), waits, strict=True))
    late = {f"paced, late {name} ms": value for name, value in percentiles(report).items()}
    costs = {
        "server us": 1e6 * theirs / jobs,
        "worker us": 1e6 * own / jobs,
        "waits for processors": waited / ran,
        "fsync us": 1e6 * fsync,
    }
    return {**{f"paced, {name}": value for name, value in costs.items()}, **late}


# ---- what grows with workers ----------------------------------------------------------------------------------------


def looks(place: Place, jobs: int) -> Figures:
    """Return the cost of a look at one topic, and of a step whose claim finds nothing; and of each further topic."""
    with JobQueue(place.url()) as queue:
        topics = [f"t{number}" for number in range(TOPICS)]
        for topic in topics:
            queue.put_many([queue.job(topic, BODY, delay=FAR) for _ in range(jobs // TOPICS)])
        claims = [Claim(topic, (), TERMS, "w", 8, limit=8) for topic in topics]
        works: dict[str, Callable[[int], Any]] = {
            "look": lambda count: queue.store.ask(GetNextDues(topics[:count])),
            "empty claim": lambda count: queue.store.apply(claims[:count]),
        }
        found: Figures = {}
        for name, work in works.items():
            one, all_ = (_times(place, partial(work, count)) for count in (1, TOPICS))
            for key, value in one.items():
                found[f"{name}, {key}"] = value
                found[f"{name}, a topic more, {key}"] = max((all_[key] - value) / (TOPICS - 1), 0.0)
    return found


def passed(place: Place) -> Figures:
    """Return the server's cost of a claim for each due job that another transaction has locked (PostgreSQL)."""
    url = place.url()
    schema = url.partition("schema=")[2].partition("&")[0]
    server: Any = place.server
    with JobQueue(url) as queue, server.connect(autocommit=False) as other:
        queue.put_many([queue.job("locked", BODY) for _ in range(MANY)])
        queue.put("empty", BODY, delay=FAR)
        locks = f'SELECT id FROM "{schema}".pywheel_job WHERE state = 0 AND next < %s FOR UPDATE'
        other.execute(locks, [1_000 * int(time.time() + 1)])
        claims = [[Claim(topic, (), TERMS, "w", 1, limit=1)] for topic in ("empty", "locked")]
        empty, held = (_times(place, partial(queue.store.apply, claim), 500) for claim in claims)
    return {"passed, server us": max((held["server us"] - empty["server us"]) / MANY, 0.0)}


def _times(place: Place, work: Callable[[], Any], rounds: int = 2_000) -> Figures:
    """Return the processor times of a call."""
    work()
    server, own = place.spent(), time.process_time()
    for _ in range(rounds):
        work()
    return {
        "server us": 1e6 * (place.spent() - server) / rounds,
        "worker us": 1e6 * (time.process_time() - own) / rounds,
    }


def beats(place: Place, counts: tuple[int, ...] = (1, 25, 100)) -> Figures:
    """Return the processor time of the server for a beat, by the number of listening workers (PostgreSQL, Redis)."""
    found: Figures = {}
    with JobQueue(place.url()) as queue:
        ears: list[Any] = []
        try:
            for count in counts:
                while len(ears) < count:
                    ears.append(queue.store.notifier(f"w{len(ears)}"))
                ear, beats = ears[0], 1_000
                server = place.spent()
                for number in range(beats):
                    ear._write(beat=number % 2)
                found[f"beat beside {count}, server us"] = 1e6 * (place.spent() - server) / beats
        finally:
            for ear in ears:
                ear.close()
    return found


def notifications(place: Place, counts: tuple[int, ...] = (1, 25, 100)) -> Figures:
    """Return the server's time for a NOTIFY, by the number of sessions that listen, each to its own channel."""
    found: Figures = {}
    sessions: list[Any] = []
    server: Any = place.server
    try:
        with server.connect() as sender:
            sender.execute("SET synchronous_commit = off")
            for count in counts:
                while len(sessions) < count:
                    sessions.append(server.connect())
                    sessions[-1].execute(f"LISTEN c{len(sessions)}")
                before, rounds = place.spent(), 1_000
                began = time.perf_counter()
                for _ in range(rounds):
                    sender.execute("NOTIFY c1")
                found[f"NOTIFY beside {count}, us"] = 1e6 * (time.perf_counter() - began) / rounds
                found[f"NOTIFY beside {count}, server us"] = 1e6 * (place.spent() - before) / rounds
    finally:
        for session in sessions:
            session.close()
    return found


# ---- what lies where ------------------------------------------------------------------------------------------------


def sizes(place: Place, jobs: int) -> Figures:
    """Return the bytes of a waiting job, in all and of each table and index."""
    url = place.url()
    with JobQueue(url) as queue:
        before = _memory(place)
        for _ in range(jobs // MANY):
            queue.put_many([queue.job("t", BODY, delay=FAR) for _ in range(MANY)])
    if isinstance(place.server, Postgres):
        schema = url.partition("schema=")[2].partition("&")[0]
        with place.server.connect() as connection:
            rows = connection.execute(
                "SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relnamespace = %s::regnamespace"
                " AND relkind IN ('r', 'i') AND pg_relation_size(oid) > %s",
                [schema, 5 * jobs],
            ).fetchall()
        parts = {f"bytes a job, {name.removeprefix('pywheel_')}": size / jobs for name, size in sorted(rows)}
        return {"bytes a job": sum(parts.values()), **parts}
    if place.server is None:
        return {"bytes a job": Path(url.removeprefix("sqlite:///")).stat().st_size / jobs}
    return {"bytes a job": (_memory(place) - before) / jobs}


def _memory(place: Place) -> int:
    if not isinstance(place.server, Redis):
        return 0
    with place.server.connect() as client:
        return int(client.info("memory")["used_memory"])


# ---- all of it ------------------------------------------------------------------------------------------------------


def one_round(kind: str, jobs: int) -> Figures:
    """Measure one kind of store once."""
    with place(kind) as where:
        found = {"fsync us": 1e6 * fsync_p50(where.folder)}
        for measure in (puts, sizes):
            found |= measure(where, jobs)
        for count in (1, 2):
            found |= drain(where, jobs, count)
        found |= paced(where, 2_000)
        found |= looks(where, jobs)
        if kind == "postgres":
            found |= passed(where) | beats(where) | notifications(where)
        return found


def best(rounds: list[Figures]) -> Figures:
    """Return the least times, and the greatest rates with what was seen in their round."""
    found = {}
    for name in rounds[0]:
        measure = name.partition(", ")[0]
        rate, late = f"{measure}, jobs/s", f"{measure}, late p99 ms"
        if rate in rounds[0]:
            found[name] = max(rounds, key=lambda figures: figures[rate])[name]
        elif late in rounds[0]:
            found[name] = min(rounds, key=lambda figures: figures[late])[name]
        else:
            found[name] = min(figures[name] for figures in rounds)
    return found


def main() -> None:
    """Measure, and write a file that the model reads."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scaling.calibrate", description="Measure for the model."
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--kinds", default="postgres,redis,everysec,sqlite")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    rounds: dict[str, list[Figures]] = {kind: [] for kind in options.kinds.split(",")}
    loads = []
    for _ in range(options.rounds):
        for kind, found in rounds.items():
            loads.append(os.getloadavg()[0])
            try:
                found.append(one_round(kind, options.jobs))
            except Missing as missing:
                print(missing)
            else:
                print(kind, json.dumps({name: round(value, 2) for name, value in found[-1].items()}), flush=True)
    measured = {kind: {k: round(v, 2) for k, v in best(found).items()} for kind, found in rounds.items() if found}
    host = {"host": about(), "load": [round(min(loads), 1), round(max(loads), 1)]}
    options.file.write_text(json.dumps({**host, **measured}, indent=1) + "\n")


if __name__ == "__main__":
    main()

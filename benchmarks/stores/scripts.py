"""How long Redis is busy with one command: nobody else is served meanwhile."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.jobs.floor import BODY
from benchmarks.jobs.processes import until, worker
from benchmarks.stores.place import Place
from pywheel import Fixed, JobQueue
from pywheel.jobs.commands import Reserve

_MOST = 1 << 30
_ASKED = 100  # times for each way to ask
_LOGGED = 100  # us from which on a command is logged


def longest(here: Place, folder: Path, waiting: int, lost: int, running: int) -> dict[str, float]:
    """Return ms of the longest command while a worker works, and how many took more than 5 ms.

    There are `lost` leases that are over, `waiting` jobs of a lower priority, and `running` ones; others are put, by a
    client that reserves, counts and lists as well.
    """
    url, report = here.url(), folder / "scripts.json"
    with JobQueue(url) as queue, closing(here.server.connect()) as redis:
        queue.handler("t", retry=Fixed(0))(print)
        for start in range(0, waiting, 1_000):
            queue.put_many([queue.job("t", BODY, priority=-1) for _ in range(start, start + 1_000)])
        _claim(queue, "running", running, 3_600_000)
        _claim(queue, "t", lost, 3_000)
        time.sleep(3)
        redis.config_set("slowlog-max-len", 100_000)
        redis.config_set("slowlog-log-slower-than", _LOGGED)
        redis.slowlog_reset()
        with worker(url, report, topics=["t", "other", "running"], listens=False):
            for _ in range(_ASKED):
                queue.put("other", BODY)
                queue.topics.counts()
                queue.jobs.list("t", limit=50)
                for job in queue.reserve("t", ttr=1, retry=Fixed(0)):
                    queue.ack(job)
                time.sleep(0.05)
            until(lambda: queue.topics.counts()["other"].done == _ASKED)
        entries = redis.slowlog_get(100_000)
    times = sorted((entry["duration"] / 1_000, _name(entry)) for entry in entries)
    print("the longest commands, ms:", *(f"{name} {ms:.1f}" for ms, name in times[:-6:-1]))
    return {"longest": times[-1][0], "over 5 ms": sum(ms > 5 for ms, _ in times)}


def _claim(queue: JobQueue, topic: str, jobs: int, ttr: int) -> None:
    policy = queue.handlers["t"].policy._replace(ttr=ttr)
    for _ in range(0, jobs, 1_000):
        queue.put_many([queue.job(topic, BODY) for _ in range(1_000)])
        queue.store.apply([Reserve(topic, 1_000, policy, "gone", _MOST, 1_000)])


def _name(entry: dict[str, Any]) -> str:
    return b" ".join(entry["command"].split(b" ", 2)[:2])[:40].decode(errors="replace")

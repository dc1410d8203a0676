"""The peers: what each is, how it is run here, and what it does not promise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_REDIS = "append-only file, fsync once a second: a crash of the machine loses up to the last second"
_POSTGRES = "PostgreSQL's defaults (`fsync`, `synchronous_commit`): on the disk before `{}` returns"
_HERE = "benchmarks.queues.peers."
_OWN = "benchmarks.queues.client pywheel"
_NODE = Path(__file__).parent / "peers" / "bullmq_node.cjs"
_ALL = ("one", "tasks", "many")


@dataclass(frozen=True)
class Peer:
    """A queue of jobs. `client`, `worker` and `setup` are what follows `python -m`, or `node`; {name} in the first
    stands for the peer, {url} in the second for the server. `ways`: how it can be given jobs, of one, tasks, many."""

    name: str
    title: str
    packages: tuple[str, ...]
    server: str
    worker: str
    durability: str
    configured: str
    caveats: str
    ways: tuple[str, ...] = ("one",)
    client: str = "benchmarks.queues.client {name}"
    setup: str = ""
    environment: str = ""
    language: str = "python"


PEERS = [
    Peer(
        "pywheel",
        "pywheel on SQLite",
        ("pywheel-timer",),
        "sqlite",
        f"{_HERE}pywheel",
        "SQLite, synchronous=FULL: on the disk before `put` returns",
        "`concurrency=8`.",
        "One host: the workers share a file. Jobs may come twice after a crash.",
        _ALL,
    ),
    Peer(
        "pywheel-postgres",
        "pywheel on PostgreSQL",
        ("pywheel-timer", "psycopg"),
        "postgresql",
        f"{_HERE}pywheel",
        _POSTGRES.format("put"),
        "`concurrency=8`; the same server as procrastinate's.",
        "Jobs may come twice after a crash.",
        _ALL,
        _OWN,
    ),
    Peer(
        "pywheel-mariadb",
        "pywheel on MariaDB",
        ("pywheel-timer", "PyMySQL"),
        "mariadb",
        f"{_HERE}pywheel",
        "MariaDB's defaults (`innodb_flush_log_at_trx_commit=1`): on the disk before `put` returns",
        "`concurrency=8`; the server without a binary log.",
        "Jobs may come twice after a crash.",
        _ALL,
        _OWN,
    ),
    Peer(
        "pywheel-redis",
        "pywheel on Redis",
        ("pywheel-timer", "redis", "hiredis"),
        "redis",
        f"{_HERE}pywheel",
        _REDIS,
        "`concurrency=8`; the same server as the others' on Redis.",
        "Jobs may come twice after a crash.",
        _ALL,
        _OWN,
    ),
    Peer(
        "huey",
        "huey, SqliteHuey",
        ("huey",),
        "sqlite",
        f"huey.bin.huey_consumer {_HERE}huey.app -w 8 -k thread -s 1 -d 0.1 -m 0.1 -n -q",
        "SQLite, WAL, `fsync=True`: on the disk before `put` returns",
        "8 threads; the scheduler once a second, which is the shortest it takes, the queue polled every 0.1 s without"
        " backing off; no results kept.",
        "A task leaves the file before its handler runs: what a killed worker had taken is lost.",
    ),
    Peer(
        "dramatiq",
        "Dramatiq, Redis",
        ("dramatiq", "redis"),
        "redis",
        f"dramatiq {_HERE}dramatiq --processes 1 --threads 8 --skip-logging",
        _REDIS,
        "One process of 8 threads; `dramatiq_worker_timeout=100`: looks for what fell due every 0.1 s (1 s"
        " unless set).",
        "Delayed messages wait in the memory of a worker, up to 1000 a thread: behind that many far ones, a near one"
        " may wait as long as they do.",
        environment="dramatiq_worker_timeout=100",
    ),
    Peer(
        "celery",
        "Celery, Redis",
        ("celery", "redis"),
        "redis",
        f"celery -A {_HERE}celery worker -P threads -c 8 -l error"
        " --without-gossip --without-mingle --without-heartbeat",
        _REDIS,
        "8 threads, prefetch multiplier 64, no results, visibility timeout longer than the longest delay.",
        "Delayed tasks wait in the memory of a worker, all of them. One delayed by more than the visibility timeout (1"
        " hour unless set) is delivered again and again. A task is acknowledged before its handler runs, unless"
        " `acks_late` is set.",
    ),
    Peer(
        "beanstalkd",
        "beanstalkd, greenstalk",
        ("greenstalk",),
        "beanstalkd",
        f"{_HERE}beanstalkd",
        "binlog (`-b`), fsync at most every 50 ms, its default: a crash of the machine loses up to that",
        "8 threads with a connection each, which reserve, handle and delete.",
        "Delays are whole seconds: those of this workload are rounded to them, and so fall due in bursts. All jobs"
        " are held in memory.",
    ),
    Peer(
        "procrastinate",
        "procrastinate, PostgreSQL",
        ("procrastinate", "psycopg"),
        "postgresql",
        f"procrastinate --log-level warning --app {_HERE}procrastinate.app worker -c 8 -p 0.1",
        _POSTGRES.format("defer"),
        "A coroutine handler, concurrency 8; polls every 0.1 s (5 s unless set), as a job that falls due wakes nobody;"
        " autovacuum looks every second, as a table just made has no statistics yet.",
        "Jobs of a killed worker stay in state `doing` until a task of your own retries them. The jobs of a batch"
        " have one moment.",
        _ALL,
        setup=f"procrastinate --app {_HERE}procrastinate.app schema --apply",
    ),
    Peer(
        "rq",
        "RQ, Redis",
        ("rq", "redis"),
        "redis",
        "rq.cli worker --url {url} --with-scheduler --worker-class rq.worker.SimpleWorker --quiet",
        _REDIS,
        "`SimpleWorker`, which runs jobs in its own process one after another (its usual worker forks for each), with"
        " the scheduler, which looks once a second; no results kept.",
        "The moment of a job is cut to a whole second: it may come up to 1 s too soon. The job of a killed"
        " worker is marked as failed, not run again, unless it was put with `Retry`.",
    ),
    Peer(
        "bullmq",
        "BullMQ for Python, Redis",
        ("bullmq", "redis"),
        "redis",
        f"{_HERE}bullmq",
        _REDIS,
        "A coroutine handler, concurrency 8; completed jobs are removed.",
        "Its worker waits whole seconds, rounded up, for the next job to fall due (its Node.js twin waits to the"
        " millisecond). A job whose worker was killed twice fails for good.",
        _ALL,
    ),
    Peer(
        "bullmq-node",
        "BullMQ for Node.js, Redis",
        ("bullmq", "ioredis"),
        "redis",
        f"{_NODE} work 50",
        _REDIS,
        "An asynchronous handler, concurrency 50, as its pages show; completed jobs are removed; promises instead of"
        " tasks.",
        "Its worker waits in a call that blocks until the next job is due, and Redis looks for calls whose time is over"
        " ten times a second (`hz 10`, unless set): so jobs come up to 0.1 s late. A job whose worker was killed twice"
        " fails for good.",
        _ALL,
        str(_NODE),
        language="node",
    ),
]

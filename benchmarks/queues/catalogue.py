"""The peers: what each is, how it is run here, and what it does not promise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_REDIS = "an fsync each second: a crash of the machine loses up to that"
_POSTGRES = "before `{}` returns (PostgreSQL's defaults)"
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
        "before `put` returns (synchronous=FULL)",
        "`concurrency=8`",
        "several hosts; that a job comes once",
        _ALL,
    ),
    Peer(
        "pywheel-postgres",
        "pywheel on PostgreSQL",
        ("pywheel-timer", "psycopg"),
        "postgresql",
        f"{_HERE}pywheel",
        _POSTGRES.format("put"),
        "`concurrency=8`",
        "that a job comes once",
        _ALL,
        _OWN,
    ),
    Peer(
        "pywheel-mariadb",
        "pywheel on MariaDB",
        ("pywheel-timer", "PyMySQL"),
        "mariadb",
        f"{_HERE}pywheel",
        "before `put` returns (MariaDB's defaults)",
        "`concurrency=8`; no binary log",
        "that a job comes once",
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
        "`concurrency=8`",
        "that a job comes once",
        _ALL,
        _OWN,
    ),
    Peer(
        "huey",
        "huey, SqliteHuey",
        ("huey",),
        "sqlite",
        f"huey.bin.huey_consumer {_HERE}huey.app -w 8 -k thread -s 1 -d 0.1 -m 0.1 -n -q",
        "before `put` returns (`fsync=True`)",
        "8 threads; the scheduler once a second, the shortest it takes; polls every 0.1 s; no results",
        "tasks that a killed worker had taken are lost",
    ),
    Peer(
        "dramatiq",
        "Dramatiq, Redis",
        ("dramatiq", "redis"),
        "redis",
        f"dramatiq {_HERE}dramatiq --processes 1 --threads 8 --skip-logging",
        _REDIS,
        "8 threads; `dramatiq_worker_timeout=100` looks for due messages every 0.1 s (by default 1 s)",
        "delayed messages wait in a worker's memory, up to 1000 a thread; a near one may wait behind far ones",
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
        "8 threads, prefetch multiplier 64, no results, visibility timeout longer than the longest delay",
        "all delayed tasks wait in a worker's memory; one delayed beyond the visibility timeout (by default 1 hour)"
        " comes again and again; without `acks_late` a task is acknowledged before its handler runs",
    ),
    Peer(
        "beanstalkd",
        "beanstalkd, greenstalk",
        ("greenstalk",),
        "beanstalkd",
        f"{_HERE}beanstalkd",
        "an fsync every 50 ms (`-b`): a crash of the machine loses up to that",
        "8 threads with a connection each",
        "delays are whole seconds, so jobs fall due in bursts; all jobs are held in memory",
    ),
    Peer(
        "procrastinate",
        "procrastinate, PostgreSQL",
        ("procrastinate", "psycopg"),
        "postgresql",
        f"procrastinate --log-level warning --app {_HERE}procrastinate.app worker -c 8 -p 0.1",
        _POSTGRES.format("defer"),
        "a coroutine handler, concurrency 8; polls every 0.1 s (by default 5 s); autovacuum looks every second",
        "jobs of a killed worker stay `doing` until a task of your own retries them; a batch has one due time",
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
        "`SimpleWorker`, which runs one job after another without a fork; the scheduler looks once a second; no"
        " results",
        "a job may come up to 1 s too soon; that of a killed worker fails unless it was put with `Retry`",
    ),
    Peer(
        "bullmq",
        "BullMQ for Python, Redis",
        ("bullmq", "redis"),
        "redis",
        f"{_HERE}bullmq",
        _REDIS,
        "a coroutine handler, concurrency 8; completed jobs are removed",
        "its worker waits whole seconds, rounded up, for the next job; a job whose worker was killed twice fails",
        _ALL,
    ),
    Peer(
        "bullmq-node",
        "BullMQ for Node.js, Redis",
        ("bullmq", "ioredis"),
        "redis",
        f"{_NODE} work 50",
        _REDIS,
        "an asynchronous handler, concurrency 50, as its pages show; completed jobs are removed",
        "jobs come up to 0.1 s late, as Redis ends its blocking calls ten times a second (`hz 10`); a job whose worker"
        " was killed twice fails",
        _ALL,
        str(_NODE),
        language="node",
    ),
]

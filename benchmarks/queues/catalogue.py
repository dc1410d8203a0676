"""The peers: what each is, how it is run here, and what it does not promise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_REDIS = "an fsync each second"
_POSTGRES = "before `{}` returns (PostgreSQL's defaults)"
_HERE = "benchmarks.queues.peers."
_OWN = "benchmarks.queues.client pywheel"
_NODE = Path(__file__).parent / "peers" / "bullmq_node.cjs"
_ALL = ("one", "tasks", "many")
_SLEEP = ("sleep1", "sleep10")


@dataclass(frozen=True)
class Peer:
    """A queue of jobs. `client`, `worker` and `setup` are what follows `python -m`, or `node`; {name} in the first
    stands for the peer, {url} and {concurrency} in the second for the server and how many jobs a process runs at once.
    `ways`: how it can be given jobs, of one, tasks, many."""

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
    kind: str = "threads"

    def size(self, handler: str) -> tuple[int, int]:
        """Return how many worker processes are started, and how many jobs each runs at once."""
        if self.kind == "serial":  # a process runs one job after the other
            return (8 if handler in _SLEEP else 2), 1
        if self.kind == "forks":  # it starts the others itself
            return 1, 8 if handler in _SLEEP else 2
        return (2 if handler == "computes" else 1), 64 if handler in _SLEEP else 8


PEERS = [
    Peer(
        "pywheel",
        "pywheel on SQLite",
        ("pywheel-timer",),
        "sqlite",
        f"{_HERE}pywheel",
        "before `put` returns (synchronous=FULL)",
        "threads; coroutines for handlers that sleep",
        "several hosts; that a job comes once",
        _ALL,
    ),
    *(
        Peer(
            f"pywheel-{name}",
            f"pywheel on {title}",
            ("pywheel-timer", *packages),
            server,
            f"{_HERE}pywheel",
            durability,
            "the same",
            "that a job comes once",
            _ALL,
            _OWN,
        )
        for name, title, packages, server, durability in (
            ("postgres", "PostgreSQL", ("psycopg",), "postgresql", _POSTGRES.format("put")),
            ("mariadb", "MariaDB", ("PyMySQL",), "mariadb", "before `put` returns (MariaDB's defaults); no binary log"),
            ("redis", "Redis", ("redis", "hiredis"), "redis", _REDIS),
        )
    ),
    Peer(
        "huey",
        "huey, SqliteHuey",
        ("huey",),
        "sqlite",
        f"huey.bin.huey_consumer {_HERE}huey.app -w {{concurrency}} -k thread -s 1 -d 0.1 -m 0.1 -n -q",
        "before `put` returns (`fsync=True`)",
        "threads; the scheduler once a second, the shortest it takes; polls every 0.1 s; no results",
        "tasks that a killed worker had taken are lost",
    ),
    Peer(
        "dramatiq",
        "Dramatiq, Redis",
        ("dramatiq", "redis"),
        "redis",
        f"dramatiq {_HERE}dramatiq --processes 1 --threads {{concurrency}} --skip-logging",
        _REDIS,
        "threads; `dramatiq_worker_timeout=100` looks for due messages every 0.1 s (by default 1 s)",
        "delayed messages wait in a worker's memory, up to 1000 a thread; a near one may wait behind far ones",
        environment="dramatiq_worker_timeout=100",
    ),
    *(
        Peer(
            name,
            title,
            ("celery", "redis"),
            "redis",
            f"celery -A {_HERE}celery worker -P {pool} -c {{concurrency}} -l error"
            " --without-gossip --without-mingle --without-heartbeat",
            _REDIS,
            f"{how}, `acks_late`, prefetch multiplier 64, no results",
            "delayed tasks wait in a worker's memory; one beyond the visibility timeout (1 hour) comes again and again",
            client="benchmarks.queues.client celery",
            kind=kind,
        )
        for name, title, pool, how, kind in (
            ("celery", "Celery, Redis, threads", "threads", "threads", "threads"),
            ("celery-prefork", "Celery, Redis, prefork", "prefork", "processes, the default", "forks"),
        )
    ),
    Peer(
        "rq",
        "RQ, Redis",
        ("rq", "redis"),
        "redis",
        "rq.cli worker --url {url} --with-scheduler --worker-class rq.worker.SimpleWorker --quiet",
        _REDIS,
        "processes with `SimpleWorker`: one job after another; the scheduler looks once a second; no results",
        "a job may come up to 1 s too soon; that of a killed worker fails unless it was put with `Retry`",
        kind="serial",
    ),
    Peer(
        "arq",
        "arq, Redis",
        ("arq", "redis"),
        "redis",
        f"arq {_HERE}arq.Settings",
        _REDIS,
        "coroutines; polls every 0.1 s (by default 0.5 s); no results",
        "jobs of a killed worker come again after `job_timeout`, by default 5 minutes",
    ),
    Peer(
        "bullmq",
        "BullMQ for Node.js, Redis",
        ("bullmq", "ioredis"),
        "redis",
        f"{_NODE} work {{concurrency}}",
        _REDIS,
        "asynchronous handlers; completed jobs are removed",
        "jobs come up to 0.1 s late (Redis's `hz 10`); a job whose worker was killed twice fails",
        _ALL,
        str(_NODE),
        language="node",
    ),
    Peer(
        "beanstalkd",
        "beanstalkd, greenstalk",
        ("greenstalk",),
        "beanstalkd",
        f"{_HERE}beanstalkd",
        "an fsync every 50 ms (`-b`)",
        "threads with a connection each; the call is JSON of ours",
        "delays are whole seconds, so jobs fall due in bursts; all jobs are held in memory",
    ),
    Peer(
        "procrastinate",
        "procrastinate, PostgreSQL",
        ("procrastinate", "psycopg"),
        "postgresql",
        f"procrastinate --log-level warning --app {_HERE}procrastinate.app worker -c {{concurrency}} -p 0.1",
        _POSTGRES.format("defer"),
        "coroutines; polls every 0.1 s (by default 5 s)",
        "jobs of a killed worker stay `doing` until a task of your own retries them; a batch has one due time",
        _ALL,
        setup=f"procrastinate --app {_HERE}procrastinate.app schema --apply",
    ),
    Peer(
        "pgqueuer",
        "PgQueuer, PostgreSQL",
        ("pgqueuer", "asyncpg"),
        "postgresql",
        f"{_HERE}pgqueuer",
        _POSTGRES.format("enqueue"),
        "coroutines; batches of as many; polls every 0.1 s (by default 30 s); the call is JSON of ours",
        "that a failed job comes again, unless its handler asks for it",
        ("one", "many"),
        setup=f"{_HERE}pgqueuer schema",
    ),
    Peer(
        "chancy",
        "Chancy, PostgreSQL",
        ("chancy", "psycopg"),
        "postgresql",
        f"{_HERE}chancy",
        _POSTGRES.format("push"),
        "coroutines; polls every second, the shortest it takes, and when a job ends (`eager_polling`)",
        "that a failed job comes again, unless it has `max_attempts`; ends are written together, once a second",
        ("one", "many"),
        setup=f"{_HERE}chancy schema",
    ),
]

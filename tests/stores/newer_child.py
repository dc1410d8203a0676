"""A worker of the next pywheel, which has one migration more: `python -m tests.stores.newer_child URL LEAST`.

It upgrades the store, puts jobs, and works until its input ends. `LEAST` is the version that may go on beside it, or
nothing. Each job that it handles is a line.
"""

import os
import sys

from pywheel import JobQueue, Worker
from pywheel.stores.mysql import migrate as mysql_migrate
from pywheel.stores.mysql import statements as mysql_statements
from pywheel.stores.postgres import migrate as postgres_migrate
from pywheel.stores.redis import store as redis_store
from pywheel.stores.schema import Schema
from pywheel.stores.sqlite.statements import MIGRATIONS

_TABLE = """-- What the next version adds.
{least}
CREATE TABLE {{p}}mood (id int PRIMARY KEY, name text);
ALTER TABLE {{p}}job ADD COLUMN mood int;
"""


def upgrade(least):
    """Make this process one of the next version, on every store."""
    script = _TABLE.format(least=f"-- least: {least}" if least else "")
    MIGRATIONS.append(script.replace("{p}", ""))
    known = postgres_migrate.migrations
    postgres_migrate.migrations = lambda schema, prefix: [
        *known(schema, prefix),
        script.replace("{p}", prefix if schema is None else f'"{schema}".{prefix}'),
    ]
    scripts = mysql_statements.scripts()
    mysql_statements.scripts = mysql_migrate.scripts = lambda: [*scripts, script]
    known_redis = redis_store._SCHEMA.version + 1
    redis_store._SCHEMA = Schema(known_redis, int(least or known_redis))


def main(url, least):
    upgrade(least)
    with JobQueue(url) as queue:

        @queue.handler("t")
        def handle(job):
            os.write(1, f"{job.json()}\n".encode())

        queue.put_many(queue.job("t", f"new {n}") for n in range(10))
        print("upgraded", flush=True)
        worker = Worker(queue)
        worker.start()
        sys.stdin.read()
        worker.stop()
        assert worker.join(20)


if __name__ == "__main__":
    main(*sys.argv[1:])

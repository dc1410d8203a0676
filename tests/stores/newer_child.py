"""A worker of the next pywheel, which has one migration more: `python -m tests.stores.newer_child URL LEAST`.

It upgrades the store, puts jobs, and works until its input ends. `LEAST` is the oldest version that may go on beside
it, or nothing. It prints a line for each job that it handles.
"""

import os
import sys

from pywheel import JobQueue, Worker
from pywheel.stores.schema import Schema
from pywheel.stores.sqlite.connection import MIGRATIONS

_TABLE = """-- What the next version adds.
{least}
CREATE TABLE {{p}}mood (id int PRIMARY KEY, name text);
ALTER TABLE {{p}}job ADD COLUMN mood int;
"""


def upgrade(url, least):
    """Make this process one of the next version, on the store of an address."""
    script = _TABLE.format(least=f"-- least: {least}" if least else "")
    match url.partition(":")[0].partition("+")[0]:
        case "sqlite":
            MIGRATIONS.append(script.replace("{p}", ""))
        case "redis":
            from pywheel.stores.redis import store

            version = store._SCHEMA.version + 1
            store._SCHEMA = Schema(version, int(least or version))
        case _:
            from pywheel.stores.relational import migrate

            known = migrate.scripts
            migrate.scripts = lambda dialect: [*known(dialect), script.replace("{p}", dialect.tables)]


def main(url, least):
    upgrade(url, least)
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
        assert worker.join(60)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Opens a store, and is killed before a step of its upgrade: `python -m tests.stores.older.cut_child URL NUMBER`."""

import os
import signal
import sys
from itertools import count

import pywheel
from pywheel.stores import open
from pywheel.stores.mysql import migrate as mysql
from pywheel.stores.postgres.connection import Timed as PostgresConnection
from pywheel.stores.redis.store import RedisStore
from pywheel.stores.sqlite import connection as sqlite

_steps = count()


def killed(step):
    """Return the same, before which the process may be killed."""

    def counted(*arguments, **more):
        if next(_steps) == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return step(*arguments, **more)

    return counted


class OneByOne:
    """A connection to MySQL that sends one statement at a time."""

    def __init__(self, connection):
        self._connection = connection
        self.until = connection.until

    def ask(self, statements):
        ask = killed(self._connection.ask)
        return [result for statement in statements for result in ask([statement])]


def main(url):
    upgrade = mysql.upgrade
    mysql.upgrade = lambda connection, *arguments, **more: upgrade(OneByOne(connection), *arguments, **more)
    PostgresConnection.execute = killed(PostgresConnection.execute)
    RedisStore._met = killed(RedisStore._met)
    sqlite._step = killed(sqlite._step)
    open(url, clock=pywheel.clock.ManualClock()).close()
    print("opened")


if __name__ == "__main__":
    main(sys.argv[1])

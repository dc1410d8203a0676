"""Another process on a store, which runs one order a line, and answers each with a line of JSON.

usage: store_child.py URL
"""

import contextlib
import json
import os
import signal
import sys
import time

from pywheel import PywheelError
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.queries import GetJob
from pywheel.stores import open, sqlite
from pywheel.stores.sqlite.page import Page

URL = sys.argv[1]
STORE = sqlite.store.SqliteStore  # imported while the interpreter's files may be read


class Orders:
    """One method an order."""

    store = None
    turn = None

    def become(self, user, group, umask):
        os.umask(int(umask))
        os.setgroups([])
        os.setgid(int(group))
        os.setuid(int(user))

    def open(self):
        self.store = open(URL)

    def put(self, body="x"):
        [[id]] = self.store.apply([ops.Put((NewJob("t", body.encode(), 0),))])
        return id

    def get(self, id):
        return self.store.ask(GetJob(int(id))).body.decode()

    def work(self):
        """Take part as a worker does."""
        self.store.notifier("w").close()

    def close(self):
        self.store.close()

    def take_turn(self):
        """Have the turn to write and give it back only when told."""
        self.turn = Page(URL.removeprefix("sqlite:///"), lambda: 0)
        self.turn.enter(time.monotonic() + 60)

    def give_turn(self):
        self.turn.leave()

    def fork_and_sleep(self):
        child = os.fork()
        if not child:
            signal.pause()
        return child


def main():
    orders = Orders()
    for line in sys.stdin:
        name, *arguments = line.split()
        answer = None
        try:
            answer = getattr(orders, name)(*arguments)
        except PywheelError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer), flush=True)


with contextlib.suppress(KeyboardInterrupt):
    main()

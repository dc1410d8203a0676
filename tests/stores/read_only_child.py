"""Open a store, and a new one, on a disk that has become read-only; print the outcomes as JSON.

usage: read_only_child.py FOLDER
"""

import json
import subprocess
import sys

from pywheel import PywheelError
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.stores import open

URL = f"sqlite:///{sys.argv[1]}/jobs.db"


def outcome(action):
    try:
        return str(action())
    except PywheelError as error:
        return type(error).__name__


with open(URL) as store:
    store.apply([ops.Put((NewJob("t", b"x", 0),))])
subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
print(json.dumps([outcome(lambda: open(URL)), outcome(lambda: open(f"sqlite:///{sys.argv[1]}/new.db"))]))

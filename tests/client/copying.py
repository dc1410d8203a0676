"""A copy in a process of its own, killed at a write: `python -m tests.client.copying FROM TO HOW-MANY`."""

import os
import signal
import sys

from pywheel.client.copier import Copier
from pywheel.stores import open
from pywheel.testing import FaultyStore


def main(source, target, writes):
    left = int(writes)

    def fault(when, commands):
        nonlocal left
        left -= 1
        if left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with FaultyStore(open(source), fault) as old, FaultyStore(open(target), fault) as new:
        Copier(old, new).switch(20)
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])

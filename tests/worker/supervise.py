"""Runs a supervisor, and notes its messages.

usage: supervise.py TARGET PROCESSES OPTIONS
"""

import json
import logging
import os
import sys
from pathlib import Path

from pywheel import PywheelError, Supervisor
from pywheel.processes import supervisor as module

if __name__ == "__main__":
    target, processes, options = sys.argv[1:]
    module._STEADY = 120.0  # a busy machine takes long until a program works, and dies
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO)
    status = Path(os.environ["SHOP_FOLDER"]) / "status"
    supervisor = Supervisor(target, processes=int(processes), **json.loads(options))

    def look():
        told = {
            "up": [worker.pid for worker in supervisor.workers if worker.ready and not worker.draining],
            "all": [worker.pid for worker in supervisor.workers],
            "about": supervisor.about,
        }
        status.with_suffix(".new").write_text(json.dumps(told))
        status.with_suffix(".new").replace(status)

    try:
        supervisor.run(look)
    except PywheelError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)

"""The commands that a reader of a page types, in place of programs that install, build, or run until they are stopped.

python -m tests.docs.typed PROGRAM ARGUMENT...
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
PORTS = {"serve": ["--port", "0"]}  # so that pages beside each other run
UNTIL_STOPPED = {"serve", "work", "deliver", "bridge"}


def pywheel(command, *arguments):
    """Run the command line. An endless command gets a stop as soon as it can be stopped."""
    from pywheel.cli import main

    if command in UNTIL_STOPPED:
        threading.Thread(target=_stop, daemon=True).start()
    sys.argv = ["pywheel", command, *("0" if word == "9181" else word for word in arguments), *PORTS.get(command, ())]
    main()


def _stop():
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)


def pip(install, *arguments):
    """Check that there is what would be installed: the distribution, with its extras."""
    *options, wanted = arguments
    name, _, extras = wanted.rstrip("]").partition("[")
    assert (install, name) == ("install", "pywheel-timer")
    assert set(options) <= {"--upgrade"}
    assert set(filter(None, extras.split(","))) <= set(metadata.metadata(name).get_all("Provides-Extra")), extras


def make(*arguments):
    """Check that make knows what would be made, and how."""
    _, _, path = os.environ["PATH"].partition(os.pathsep)  # without the folder that this program stands in for make in
    command = [shutil.which("make", path=path), "--dry-run", "--directory", ROOT, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path})


PROGRAMS = {program.__name__: program for program in (pywheel, pip, make)}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])

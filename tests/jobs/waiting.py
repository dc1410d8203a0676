"""Waiting for facts, never for a time: a limit ends a test that hangs, and asserts nothing."""

import contextlib
import time
from pathlib import Path

LIMIT = 240  # seconds, less than pytest's own limit: on a busy machine a process may take one to start
LOOKS = 0.001, 0.005  # seconds between two looks at a fact: at first, and in the end, as a look has its cost


def until(fact, limit=LIMIT):
    """Return a fact once it holds; fail if it does not within minutes."""
    end = time.monotonic() + limit
    pause, longest = LOOKS
    while not (found := fact()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(pause)
        pause = min(pause * 1.2, longest)
    return found


class Stopwatch:
    """Seconds since it was made, less those for which threads of this process waited for a processor."""

    def __init__(self):
        self._began, self._kept = time.monotonic(), _kept()

    def seconds(self):
        return time.monotonic() - self._began - max(_kept() - self._kept, 0)


def _kept():
    waited = 0
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has ended
            waited += int(thread.read_text().split()[1])
    return waited / 1e9


def alive(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the second if it ends as it is read
        return False


@contextlib.contextmanager
def working(queue, **options):
    from pywheel import Worker  # what waits for servers here is there before pywheel is installed

    worker = Worker(queue, grace=60, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        assert worker.join(60)


def state(queue, id):
    return queue.get(id).state


def finished(queue, id):
    until(lambda: not state(queue, id).live)
    return queue.get(id)

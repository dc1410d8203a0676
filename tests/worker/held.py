"""Handlers that hold each job until it may go on."""

import threading
import time
from collections import Counter

from pywheel import Fixed

__all__ = ["Held"]


class Held:
    """Handles topics, and holds each of their jobs until as many were let go, and `lasts` seconds more."""

    def __init__(self, queue, *topics, lasts=0.0, **options):
        self.begun, self.beside, self.now = [], [], Counter()
        """The jobs that have begun; how many of its group ran with each as it began; how many of each group run.

        A job's group is its key up to the first colon.
        """
        self._lasts = lasts
        self._gates = {topic: threading.Semaphore(0) for topic in topics}
        self._mutex = threading.Lock()
        for topic in topics:
            queue.handler(topic, **{"ttr": "1h", "retry": Fixed("1h"), **options})(self._handle)

    def _handle(self, job):
        group = (job.key or "").partition(":")[0]
        with self._mutex:
            self.now[group] += 1
            self.begun.append(job)
            self.beside.append(self.now[group])
        assert self._gates[job.topic].acquire(timeout=60)
        time.sleep(self._lasts)
        with self._mutex:
            self.now[group] -= 1

    @property
    def running(self):
        return self.now.total()

    def ids(self):
        """Return the ids of the jobs that have begun, in order."""
        return [job.id for job in self.begun]

    def let_go(self, *topics, jobs=10_000):
        """Let so many jobs of topics end; of all topics if none is named."""
        for topic in topics or self._gates:
            self._gates[topic].release(jobs)

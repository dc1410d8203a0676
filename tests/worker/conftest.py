import threading

import pytest

from pywheel.worker import leases
from tests.jobs.fixtures import clock, live_queue, metrics, queue, url
from tests.worker.supervised import shop

__all__ = ["clock", "live_queue", "metrics", "queue", "shop", "url"]


@pytest.fixture
def refuse_threads(monkeypatch):
    """Give a function: threads whose name begins so do not start while there are to be tries; it returns the tries."""

    def refuse(name, are_to_fail):
        start, tries = threading.Thread.start, []

        def started(thread):
            if thread.name.startswith(name) and are_to_fail(tries):
                tries.append(thread)
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", started)
        return tries

    return refuse


@pytest.fixture
def patient(monkeypatch):
    """Let claims wait for their handlers for minutes: no worker gives a job back because its machine is slow."""
    for name in ("_START", "_START_BEGUN", "_STUCK"):
        monkeypatch.setattr(leases, name, 600)
    monkeypatch.setattr(leases, "HOLD", 600_000)

"""``pywheel work``: a worker from a module, and a live view of it."""

from __future__ import annotations

import importlib
import logging
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .._errors import BadJob, StoreError
from ..client.queue import JobQueue
from ..jobs.job import State
from ..observe.metrics import Tally
from ..worker.worker import Worker
from .output import table

__all__ = ["load", "run_worker"]

_COUNT_EVERY = 2.0  # seconds between counts: they cost a look at every job


def load(target: str) -> JobQueue:
    """Return the queue that ``module:name`` names; the working directory is searched too. BadJob if there is none."""
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise BadJob(f"{target[:80]!r} names no queue: write it like shop.jobs:queue")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        raise BadJob(f"there is no module {error.name}: run this where it can be imported") from error
    queue = getattr(module, name, None)
    if not isinstance(queue, JobQueue):
        raise BadJob(f"{name[:80]} in {module_name} is no JobQueue")
    return queue


def run_worker(target: str, grace: str, keep: str | None, *, live: bool) -> None:
    """Run a worker until it is told to stop."""
    queue = load(target)
    if not live:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
        Worker(queue, grace=grace, keep=keep).run()
        return
    tally = Tally()
    queue.metrics = tally
    worker = Worker(queue, grace=grace, keep=keep)
    view = _View(queue, tally)
    with Live(get_renderable=view.render, console=Console(), refresh_per_second=4, transient=False):
        worker.run()


class _View:
    """Counts of the store, and what this worker did."""

    def __init__(self, queue: JobQueue, tally: Tally) -> None:
        self._queue = queue
        self._tally = tally
        self._began = time.monotonic()
        self._counted = 0.0
        self._rows: list[tuple[Any, ...]] = []

    def render(self) -> Group:
        """Return what is to be seen now."""
        now = time.monotonic()
        if now - self._counted > _COUNT_EVERY:
            self._counted = now
            try:
                self._rows = [(topic[:40], *states) for topic, states in self._queue.counts().items()]
            except StoreError as error:
                self._rows = [(str(error)[:60], "", "", "", "", "")]
        return Group(table(("topic", *State), self._rows), Text(), self._numbers())

    def _numbers(self) -> Table:
        tally = self._tally
        totals = [str(tally.total(name)) for name in ("claimed", "done", "retried", "dead", "lease_lost")]
        parts = [tally.percentile("lateness", part) for part in (0.5, 0.99, 1.0)]
        lateness = " / ".join("-" if part is None else f"{1000 * part:.1f}" for part in parts)
        titles = ("claimed", "done", "retried", "dead", "leases lost", "late p50 / p99 / max, ms", "seconds")
        return table(titles, [(*totals, lateness, f"{time.monotonic() - self._began:.0f}")])

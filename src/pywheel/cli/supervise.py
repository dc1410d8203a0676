"""``pywheel work --processes``: several workers, kept alive, and one view of them."""

from __future__ import annotations

from contextlib import ExitStack

from .._errors import BadOption
from ..client.queue import JobQueue
from ..jobs.durations import duration
from ..observe import logs
from ..processes import Supervisor
from .live_view import LiveView
from .options import absolute
from .reload import Watch, begin_again
from .terms import Terms, how_to_end

__all__ = ["supervise"]


def supervise(target: str, terms: Terms, watch: Watch | None = None) -> None:
    """Run worker processes until told to stop. The program is imported by them, not here.

    With a watch: begin again when a source changes, unless told to stop.
    """
    if not terms.live:
        logs.begin(terms.log)
    store = None if terms.store is None else absolute(terms.store)
    supervisor = Supervisor(target, terms.processes, store=store, metrics=terms.metrics, **terms.options)
    with supervisor.signals():
        if watch is not None:
            watch.start(supervisor.retire, lambda: supervisor.told_to_stop)
        with ExitStack() as shown:
            supervisor.run(_Look(supervisor, terms, shown))
        if watch is not None and watch.changed is not None:
            begin_again(lambda: supervisor.told_to_stop)


class _Look:
    """Says what happens, and shows it, once it is known which store they work on."""

    def __init__(self, supervisor: Supervisor, terms: Terms, shown: ExitStack) -> None:
        self._supervisor = supervisor
        self._terms = terms
        self._shown = shown
        self._began = self._drains = False

    def __call__(self) -> None:
        supervisor, about = self._supervisor, self._supervisor.about
        if about and not self._began:
            self._began = True
            self._terms.say_where(f"{self._terms.processes} processes working", about["store"], about["topics"])
            if self._terms.live:
                queue = self._shown.enter_context(JobQueue(about["store"], create=False))
                self._shown.enter_context(LiveView(queue, _Numbers(supervisor)))
        if self._began and supervisor.stopping and not self._drains:
            self._drains = True
            count = len(supervisor.workers)
            grace = duration(self._terms.grace, "--grace", error=BadOption) / 1000
            self._terms.say(f"draining {count} processes, {grace:g} s for them; {how_to_end(supervisor.told_to_stop)}")


class _Numbers:
    """What all workers did, for the view."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def total(self, name: str) -> int:
        """Return a count."""
        return self._supervisor.counts[name]

    def percentile(self, name: str, part: float) -> float | None:  # noqa: ARG002  (lateness is all there is)
        """Return a lateness that `part` of the latest do not exceed; None without any."""
        late = self._supervisor.late
        return late[min(int(part * len(late)), len(late) - 1)] if late else None

"""``pywheel work``: a worker from a module, or several worker processes, kept alive."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from .._errors import BadAddress, BadOption, NotAStore, PywheelError
from ..client.queue import JobQueue
from ..events import Event, JobEnded, JobGivenBack, JobSkipped, JobStarted, LeaseLost, WorkerDrains
from ..execution.loading import chosen, named
from ..jobs.checks import needed
from ..jobs.durations import KEEP, duration
from ..jobs.handler import MOST_AT_ONCE
from ..observe import logs
from ..stores.address import Address
from ..stores.open import working_directory
from .options import Grace, Keep, absolute, kept_for, parts, placed, program, span
from .output import fail, note, say

if TYPE_CHECKING:  # the other commands need not wait for these
    from ..processes import Supervisor
    from ..worker.base import WorkerOptions

_EVERY: Final = 0.5  # seconds between looks at the sources
_NOT_OURS: Final = ("node_modules", "__pycache__", "site-packages")


class Terms(NamedTuple):
    """The options of `work`."""

    store: str | None
    options: WorkerOptions  # of each worker
    processes: int = 1
    log: str = "text"
    metrics: tuple[str, int] | None = None  # host and first port

    def say_where(self, who: str, url: str, topics: Iterable[str]) -> None:
        """Print which store is used, and a remark if PYWHEEL_STORE names another one."""
        self.say(f"{who} on {url}, topics {', '.join(sorted(topics))}")
        elsewhere = os.environ.get("PYWHEEL_STORE")
        if self.store is None and elsewhere and _shown(elsewhere) != url:
            self.say("PYWHEEL_STORE names another store; it counts here with --store only")

    def say(self, text: str) -> None:
        """Print a remark: for a person, or as a line of the log."""
        say(text, self.log)


def work(
    target: Annotated[str, typer.Argument(help="The queue, as module:name.", metavar="MODULE:QUEUE")],
    store: Annotated[
        str | None, typer.Option("--store", "-s", help="Work on this store, instead of the queue's own.")
    ] = None,
    topics: Annotated[str | None, typer.Option(help="Only these, with commas between them.")] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_AT_ONCE, help="Jobs at once in each process; default: as many as the handlers allow."
        ),
    ] = None,
    grace: Grace = "30s",
    keep: Keep = KEEP,
    processes: Annotated[
        int, typer.Option(min=1, help="How many worker processes to keep alive; SIGHUP replaces them one by one.")
    ] = 1,
    reload: Annotated[
        bool, typer.Option("--reload", help="Replace the workers when a source below the working directory changes.")
    ] = False,
    log_format: Annotated[str, typer.Option(help="text, or json: an object a line.")] = "text",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="Expose /metrics, /healthz and /readyz there; several processes from it on."
        ),
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Where --metrics-port listens.")] = "127.0.0.1",
) -> None:
    """Run the handlers of a queue until SIGTERM, Ctrl-C, or the end of the terminal.

    It then starts no more jobs, waits for running handlers, and gives back the jobs that are not finished by the end
    of the grace. A second signal ends the grace.
    """
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    options: WorkerOptions = {"topics": None if topics is None else parts(topics), "concurrency": concurrency}
    options |= {"grace": span(grace), "keep": kept_for(keep)}
    terms = Terms(store, options, processes, log_format, metrics)
    for name, given in (("--grace", options["grace"]), ("--keep", options["keep"])):
        if given is not None:
            duration(given, name, error=BadOption)
    if metrics is not None:
        needed("prometheus_client", "telemetry")  # fail here, not in each process
    if reload:
        _reloading(target, terms)
    elif processes > 1:
        _supervise(target, terms)
    else:
        run(_ready(target, terms), terms)


def _ready(target: str, terms: Terms) -> JobQueue:
    """Return the queue, on the store of `terms`. BadOption if the queue cannot work with `terms`."""
    queue = program(target)
    chosen(queue.handlers, terms.options["topics"])
    return placed(queue, terms.store)


def run(queue: JobQueue, terms: Terms) -> None:
    """Run one worker in this process until it is stopped."""
    from ..worker import Worker  # the other commands do not need it

    logs.begin(terms.log)
    pulse = None if terms.metrics is None else _exposed(queue, terms, *terms.metrics)
    worker = Worker(queue, **terms.options | {"pulse": pulse})
    terms.say_where("working", queue.store.url, terms.options.get("topics") or queue.handlers)
    queue.events.listen(_Drain(terms))
    worker.run()


def _exposed(queue: JobQueue, terms: Terms, host: str, port: int) -> Callable[..., None]:
    """Serve the metrics of this process, and print where; return the function to call at each turn of the worker."""
    from ..observe.endpoint import Endpoint  # few processes need it

    endpoint = Endpoint(queue.events, port, host)
    terms.say(f"metrics at {endpoint.url}")
    return endpoint.pulse


class _Drain:
    """A listener that prints, after the first signal, how many handlers still run."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._under_way: set[tuple[int, int]] = set()

    def __call__(self, event: Event) -> None:
        match event:
            case JobStarted(job=job):
                self._under_way.add((job.id, job.claims))
            case JobEnded(job=job) | JobGivenBack(job) | JobSkipped(job) | LeaseLost(job):
                self._under_way.discard((job.id, job.claims))
            case WorkerDrains(grace=grace):
                count = len(self._under_way)
                handlers = f"{count} handler{'s' if count != 1 else ''} under way, {grace:g} s for them"
                self._terms.say(f"draining, {handlers if count else 'no handler is under way'}; {_HOW_TO_END}")
            case _:
                pass


_HOW_TO_END: Final = "Ctrl-C once more ends it"


# ---- several processes ----------------------------------------------------------------------------------------------


def _supervise(target: str, terms: Terms) -> None:
    """Run worker processes until stopped. They import the program, not this process."""
    supervisor = _supervisor(target, terms)
    supervisor.run(_Look(supervisor, terms))


def _supervisor(target: str, terms: Terms) -> Supervisor:
    """Return a supervisor that has not begun. BadOption if `terms` make no sense with any program."""
    from ..processes import Supervisor

    logs.begin(terms.log)
    store = None if terms.store is None else absolute(terms.store)
    return Supervisor(target, terms.processes, store=store, metrics=terms.metrics, **terms.options)


class _Look:
    """Prints the state of the worker processes when their store is known; replaces them when a source changes."""

    def __init__(self, supervisor: Supervisor, terms: Terms, sources: Sources | None = None) -> None:
        self._supervisor, self._terms, self._sources = supervisor, terms, sources
        self._began = self._drains = False

    def __call__(self) -> None:
        supervisor, about, count = self._supervisor, self._supervisor.about, self._terms.processes
        if about and not self._began:
            self._began = True
            who = "1 process" if count == 1 else f"{count} processes"
            self._terms.say_where(f"{who} working", about["store"], about["topics"])
        if self._began and supervisor.stopping and not self._drains:
            self._drains = True
            grace = duration(self._terms.options["grace"], "--grace", error=BadOption) / 1000
            self._terms.say(f"draining {len(supervisor.workers)} processes, {grace:g} s for them; {_HOW_TO_END}")
        elif self._sources is not None and not supervisor.stopping:
            changed = self._sources.changed()
            if changed is not None:
                self._terms.say(f"{changed} has changed")
                supervisor.reload()


# ---- reload ---------------------------------------------------------------------------------------------------------


def _reloading(target: str, terms: Terms) -> None:
    """Work; if the program cannot begin, wait for a change of a source and try again.

    No change of a source mends an error of the command line.
    """
    named(target)
    sources = Sources()
    while True:
        supervisor = _supervisor(target, terms)
        try:
            supervisor.run(_Look(supervisor, terms, sources))
        except PywheelError as error:
            if terms.store is not None and isinstance(error, BadAddress):
                raise
            fail(str(error))
            note("pywheel: waiting for a change of the sources; Ctrl-C ends it")
            while sources.changed() is None:
                time.sleep(_EVERY)
        else:
            return


class Sources:
    """The Python files below the working directory, and when each was changed last."""

    def __init__(self) -> None:
        self._seen = _times()
        self._look_at = 0.0

    def changed(self) -> Path | None:
        """Return a file that has changed since the last look; None if none has, or the last look was a moment ago."""
        if time.monotonic() < self._look_at:
            return None
        before, self._seen = self._seen, _times()
        self._look_at = time.monotonic() + _EVERY
        return next((file for file in before.keys() | self._seen if before.get(file) != self._seen.get(file)), None)


def _times() -> dict[Path, int]:
    times = {}
    for here, folders, files in os.walk(working_directory()):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _NOT_OURS]
        for file in (Path(here, name) for name in files if name.endswith(".py")):
            with suppress(OSError):  # an editor may replace it just now
                times[file] = file.stat().st_mtime_ns
    return times


def _shown(url: str) -> str:
    """Return an address in the form in which a store shows its own."""
    try:
        return Address(url).shown if "://" in url and not url.startswith("sqlite:") else absolute(url)
    except NotAStore:
        return url

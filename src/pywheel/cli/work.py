"""``pywheel work``: a worker from a module, or several worker processes, kept alive, and one view of them."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from .._errors import BadOption, NotAStore, PywheelError
from ..client.queue import JobQueue
from ..events import Event, JobEnded, JobGivenBack, JobSkipped, JobStarted, LeaseLost, WorkerDrains
from ..execution.loading import chosen
from ..jobs.checks import needed
from ..jobs.durations import KEEP, duration
from ..jobs.handler import MOST_AT_ONCE
from ..observe import logs
from ..stores.address import Address
from .options import Grace, Keep, Live, absolute, kept_for, parts, placed, program, span
from .output import fail, note, on_terminal, say

if TYPE_CHECKING:  # the other commands need not wait for these
    from ..processes import Supervisor
    from ..processes.reload import Watch
    from ..worker.base import BaseWorker, WorkerOptions

__all__ = ["Terms", "run", "work"]


class Terms(NamedTuple):
    """How to work."""

    store: str | None
    options: WorkerOptions  # of each worker
    live: bool
    processes: int = 1
    log: str = "text"
    metrics: tuple[str, int] | None = None  # host and first port

    def say_where(self, who: str, url: str, topics: Iterable[str]) -> None:
        """Say which store is worked on, and that PYWHEEL_STORE names another one, if it does."""
        self.say(f"{who} on {url}, topics {', '.join(sorted(topics))}")
        elsewhere = os.environ.get("PYWHEEL_STORE")
        if self.store is None and elsewhere and _shown(elsewhere) != url:
            self.say("PYWHEEL_STORE names another store; it counts here with --store only")

    def say(self, text: str) -> None:
        """Say what is not a result: to a person, or as a line of the log."""
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
            min=1, max=MOST_AT_ONCE, help="Jobs at once in each process; as many as handlers say unless told."
        ),
    ] = None,
    grace: Grace = "30s",
    keep: Keep = KEEP,
    processes: Annotated[
        int, typer.Option(min=1, help="How many worker processes to keep alive; SIGHUP replaces them one by one.")
    ] = 1,
    reload: Annotated[bool, typer.Option("--reload", help="Begin again when the program's sources change.")] = False,
    live: Live = None,
    log_format: Annotated[str, typer.Option(help="text, or json: an object a line, also on a terminal.")] = "text",
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65_535, help="Expose /metrics, /healthz and /readyz there; several processes from it on."
        ),
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Where --metrics-port listens.")] = "127.0.0.1",
) -> None:
    """Run the handlers of a queue until SIGTERM, Ctrl-C, or the end of the terminal.

    It then starts nothing more, waits for the handlers that run, and gives back what they have not finished by the
    end of the grace. A second signal ends the grace.
    """
    shown = on_terminal() and log_format == "text" if live is None else live
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    options: WorkerOptions = {"topics": parts(topics) or None, "concurrency": concurrency}
    options |= {"grace": span(grace), "keep": kept_for(keep)}
    terms = Terms(store, options, shown, processes, log_format, metrics)
    if log_format not in logs.FORMS:
        raise BadOption(f"--log-format is {' or '.join(logs.FORMS)}, not {log_format[:40]!r}")
    duration(span(grace), "--grace", error=BadOption)
    if metrics is not None:
        needed("prometheus_client", "telemetry")  # said here, and not by each process that is started
    if reload:
        _reloading(target, terms)
    elif processes > 1:
        _supervise(target, terms)
    else:
        run(_ready(target, terms), terms)


def _reloading(target: str, terms: Terms) -> None:
    """Work; when a source changes, drain and begin again. A program that cannot be loaded is waited for."""
    from ..processes.reload import Watch, begin_again, interruptible, wait_for_change

    with interruptible() as interrupted:
        try:
            queue = _ready(target, terms)
        except Exception as error:  # noqa: BLE001  (whatever is wrong with it: somebody is mending it)
            if not interrupted():
                wait_for_change(partial(_say_what_is_wrong, error))
            begin_again(interrupted)
            return
    watch = Watch(lambda text: note(f"pywheel: {text}"))
    if terms.processes > 1:
        queue.close()  # it is loaded here for the sake of its sources
        _supervise(target, terms, watch)
    else:
        run(queue, terms, watch)


def _say_what_is_wrong(error: Exception) -> None:
    if isinstance(error, PywheelError):
        fail(str(error))
    else:
        traceback.print_exception(error)
    note("pywheel: waiting for a change of the sources; Ctrl-C ends it")


def _ready(target: str, terms: Terms) -> JobQueue:
    """Return the queue, on the store that is wanted. BadOption if it cannot do what is wanted."""
    queue = program(target)
    chosen(queue.handlers, terms.options["topics"])
    return placed(queue, terms.store)


def run(queue: JobQueue, terms: Terms, watch: Watch | None = None) -> None:
    """Run one worker in this process until it is told to stop. With a watch: begin again when a source changes."""
    from ..worker import Worker  # the other commands need not wait for these
    from .live_view import LiveView

    if not terms.live:
        logs.begin(terms.log)
    pulse = None if terms.metrics is None else _exposed(queue, terms, *terms.metrics)
    worker = Worker(queue, **terms.options | {"pulse": pulse})
    terms.say_where("working", queue.store.url, terms.options.get("topics") or queue.handlers)
    queue.events.listen(_Drain(terms, lambda: worker.told_to_stop))
    with worker.signals(), _watching(watch, worker), LiveView(queue) if terms.live else nullcontext():
        worker.run()


def _supervise(target: str, terms: Terms, watch: Watch | None = None) -> None:
    """Run worker processes until told to stop. The program is imported by them, not here. With a watch: as `run`."""
    from ..processes import Supervisor

    if not terms.live:
        logs.begin(terms.log)
    store = None if terms.store is None else absolute(terms.store)
    supervisor = Supervisor(target, terms.processes, store=store, metrics=terms.metrics, **terms.options)
    with supervisor.signals(), _watching(watch, supervisor), ExitStack() as shown:
        supervisor.run(_Look(supervisor, terms, shown))


def _watching(watch: Watch | None, runner: BaseWorker | Supervisor) -> AbstractContextManager[None]:
    return nullcontext() if watch is None else watch.over(runner)


def _exposed(queue: JobQueue, terms: Terms, host: str, port: int) -> Callable[..., None]:
    """Expose the metrics of this process, and say where; return what wants to hear each turn of the worker."""
    from ..observe.endpoint import Endpoint  # few ask for it

    endpoint = Endpoint(queue.events, port, host)
    terms.say(f"metrics at {endpoint.url}")
    return endpoint.pulse


class _Drain:
    """Says what is waited for after the first signal."""

    def __init__(self, terms: Terms, told_to_stop: Callable[[], bool] = lambda: True) -> None:
        self._terms = terms
        self._told_to_stop = told_to_stop
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
                self._terms.say(
                    f"draining, {handlers if count else 'no handler is under way'}; {_how_to_end(self._told_to_stop())}"
                )
            case _:
                pass


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
                from .live_view import LiveView

                queue = self._shown.enter_context(JobQueue(about["store"], create=False))
                self._shown.enter_context(LiveView(queue, supervisor))
        if self._began and supervisor.stopping and not self._drains:
            self._drains = True
            count = len(supervisor.workers)
            grace = duration(self._terms.options["grace"], "--grace", error=BadOption) / 1000
            self._terms.say(f"draining {count} processes, {grace:g} s for them; {_how_to_end(supervisor.told_to_stop)}")


def _how_to_end(told_to_stop: bool) -> str:
    """Return what Ctrl-C does to a drain: one for a reload is not yet a stop."""
    return "Ctrl-C once more ends it" if told_to_stop else "Ctrl-C stops it, twice at once"


def _shown(url: str) -> str:
    """Return an address as a store shows its own."""
    try:
        return Address(url).shown if "://" in url and not url.startswith("sqlite:") else absolute(url)
    except NotAStore:
        return url

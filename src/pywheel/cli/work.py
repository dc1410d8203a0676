"""``pywheel work``: a worker from a module."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Annotated

import typer

from .._errors import BadOption
from ..client.queue import JobQueue
from ..events import Event, JobEnded, JobGivenBack, JobSkipped, JobStarted, LeaseLost, WorkerDrains
from ..execution.loading import chosen
from ..jobs.durations import KEEP, duration
from ..jobs.handler import MOST_AT_ONCE
from ..observe import logs
from .options import Keep, absolute, kept_for, span
from .output import on_terminal
from .program import program
from .reload import Watch, begin_again, interruptible, wait_for_mending
from .terms import Terms, how_to_end

__all__ = ["run", "work"]


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
    grace: Annotated[str, typer.Option(help="How long handlers may go on after SIGTERM or Ctrl-C.")] = "30s",
    keep: Keep = KEEP,
    processes: Annotated[
        int, typer.Option(min=1, help="So many workers, kept alive; SIGHUP replaces them one by one.")
    ] = 1,
    reload: Annotated[bool, typer.Option("--reload", help="Begin again when the program's sources change.")] = False,
    live: Annotated[
        bool | None, typer.Option(help="Show counts and lateness; on a terminal it does by itself.")
    ] = None,
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
    named = tuple(part.strip() for part in topics.split(",") if part.strip()) if topics is not None else ()
    shown = on_terminal() and log_format == "text" if live is None else live
    metrics = None if metrics_port is None else (metrics_host, metrics_port)
    terms = Terms(store, named, span(grace), kept_for(keep), shown, processes, log_format, metrics, concurrency)
    if log_format not in logs.FORMS:
        raise BadOption(f"--log-format is {' or '.join(logs.FORMS)}, not {log_format[:40]!r}")
    duration(terms.grace, "--grace", error=BadOption)
    if reload:
        _reloading(target, terms)
    elif processes > 1:
        _supervise(target, terms)
    else:
        run(_ready(target, terms), terms)


def _supervise(target: str, terms: Terms, watch: Watch | None = None) -> None:
    from .supervise import supervise  # the other commands need not wait for this

    supervise(target, terms, watch)


def _reloading(target: str, terms: Terms) -> None:
    """Work; when a source changes, drain and begin again. A program that cannot be loaded is waited for."""
    with interruptible() as interrupted:
        try:
            queue = _ready(target, terms)
        except Exception as error:  # noqa: BLE001  (whatever is wrong with it: somebody is mending it)
            if not interrupted():
                wait_for_mending(error)
            begin_again(interrupted)
            return
    watch = Watch()
    if terms.processes > 1:
        queue.close()  # it is loaded here for the sake of its sources
        _supervise(target, terms, watch)
    else:
        run(queue, terms, watch)


def _ready(target: str, terms: Terms) -> JobQueue:
    """Return the queue, on the store that is wanted. BadOption if it cannot do what is wanted."""
    queue = program(target)
    chosen(queue.handlers, terms.topics or None)
    if terms.store is not None:
        queue.use(absolute(terms.store))
    return queue


def run(queue: JobQueue, terms: Terms, watch: Watch | None = None) -> None:
    """Run one worker in this process until it is told to stop. With a watch: begin again when a source changes."""
    from ..worker import Worker  # the other commands need not wait for these
    from .live_view import LiveView

    if not terms.live:
        logs.begin(terms.log)
    pulse = None if terms.metrics is None else _exposed(queue, terms, *terms.metrics)
    worker = Worker(queue, **terms.options | {"pulse": pulse})
    terms.say_where("working", queue.store.url, terms.topics or queue.handlers)
    queue.events.listen(_Drain(terms, lambda: worker.told_to_stop))
    with worker.signals():
        if watch is not None:
            watch.start(worker.retire, lambda: worker.told_to_stop)
        with LiveView(queue) if terms.live else nullcontext():
            worker.run()
        if watch is not None and watch.changed is not None:
            begin_again(lambda: worker.told_to_stop)


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
                    f"draining, {handlers if count else 'no handler is under way'}; {how_to_end(self._told_to_stop())}"
                )
            case _:
                pass

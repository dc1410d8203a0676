"""``pywheel serve``: the HTTP API, the page and the metrics of a store."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from typing import Annotated

import typer

from .._errors import BadOption, ExtraMissing, PywheelError
from ..client.queue import JobQueue
from ..observe import logs
from ..observe.prometheus import PrometheusMetrics
from .options import DEFAULT_STORE, AStore, parts, placed, program
from .output import note, say


def serve(
    target: Annotated[str | None, typer.Argument(help="The queue, as module:name.", metavar="[MODULE:QUEUE]")] = None,
    store: Annotated[
        str | None,
        typer.Option("--store", "-s", help="The store; default: the queue's own, PYWHEEL_STORE or sqlite:///jobs.db."),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen: an address of this host; 0.0.0.0 is all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, help="0: any that is free.")] = 8080,
    open_: Annotated[
        bool, typer.Option("--open", help="Let everybody do everything, on this host; else each needs a token.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse whatever changes something.")] = False,
    cors: Annotated[
        str | None, typer.Option(help="Origins whose pages may use the API with a token, with commas between them.")
    ] = None,
    proxies: Annotated[
        str | None, typer.Option(help="Addresses of proxies whose X-Forwarded-For is believed, with commas.")
    ] = None,
    sign_in_header: Annotated[
        str | None, typer.Option(help="Header by which proxies say who looks at the page, as X-Forwarded-User.")
    ] = None,
    sign_in_from: Annotated[
        str | None, typer.Option(help="Addresses and networks of the proxies whose header counts, with commas.")
    ] = None,
    sign_in_role: Annotated[
        str, typer.Option(help="The role of visitors whom the proxy signs in: viewer, operator, admin.")
    ] = "viewer",
    work: Annotated[bool, typer.Option("--work", help="Run the queue's handlers too, in this process.")] = False,
    log_format: Annotated[str, typer.Option(help="text, or json: an object a line.")] = "text",
) -> None:
    """Serve the HTTP API, the page and the metrics of a store, until SIGTERM or Ctrl-C.

    It then takes no more requests, and waits for the open ones. Clients that wait for a job get the answer that none
    came.
    """
    try:
        from ..server import app as service
        from ..server.access import Mode, ProxySignIn, is_loopback
        from ..server.process import address_of, run
    except ModuleNotFoundError as error:  # its text says what to install
        raise PywheelError(str(error)) from None
    origins = _origins(cors)
    if open_ and not is_loopback(host):
        raise BadOption(f"--open is for this host only, and --host {host[:60]} is not: use tokens, or --host 127.0.0.1")
    if work and target is None:
        raise BadOption("--work runs the handlers of a queue: name it, like shop.jobs:queue")
    if (sign_in_header is None) != (sign_in_from is None) or (open_ and sign_in_header is not None):
        raise BadOption("--sign-in-header and --sign-in-from go together, and not with --open")
    sign_in = None if sign_in_header is None else ProxySignIn(sign_in_header, parts(sign_in_from), sign_in_role)
    with ExitStack() as stack:
        queue = stack.enter_context(_queue(target, store))
        logs.begin(log_format)  # unless the program has set up logging
        _count(queue)
        access: Mode = "open" if open_ else "tokens"
        app = service(queue, access=access, read_only=read_only, cors=origins, proxies=parts(proxies), sign_in=sign_in)
        try:
            address = address_of(host, port)
        except OSError as error:
            raise BadOption(f"{host}:{port} cannot be listened to: {error.strerror or error}") from None
        if work:
            _work(queue, stack)
        run(app, address, ready=lambda: _say(queue, address, open_, read_only, log_format))
    if log_format == "text":
        note("pywheel: stopped")


def _count(queue: JobQueue) -> None:
    """Count the clients' operations for /metrics, unless the program does, or prometheus-client is missing."""
    if not any(isinstance(listener, PrometheusMetrics) for listener in queue.events.listeners):
        with suppress(ExtraMissing):
            queue.events.listen(PrometheusMetrics())


def _origins(cors: str | None) -> list[str]:
    origins = parts(cors)
    for origin in origins:
        if not origin.startswith(("http://", "https://")) or origin.endswith("/") or origin.count("/") != 2:
            raise BadOption(f"--cors takes origins such as https://shop.example, not {origin[:60]!r}")
    return origins


def _queue(target: str | None, store: str | None) -> JobQueue:
    """Return the queue to serve, on its own store unless one is named."""
    if target is None:
        return AStore(store=store or os.environ.get("PYWHEEL_STORE") or DEFAULT_STORE).opened(keys=True)
    return placed(program(target), store)


def _work(queue: JobQueue, stack: ExitStack) -> None:
    from ..worker import Worker

    worker = Worker(queue)
    worker.start()
    stack.callback(worker.join)
    stack.callback(worker.stop)


def _say(queue: JobQueue, address: tuple[str, int], open_: bool, read_only: bool, log_format: str) -> None:
    """Print the address, and who has access."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    who = "everybody on this host may do everything" if open_ else "with tokens: pywheel token add makes one"
    only = ", read-only" if read_only else ""
    say(f"serving {queue.store.url} on http://{host}:{address[1]} ({who}{only})", log_format)

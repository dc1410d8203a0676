"""``pywheel alarms``: watches a store, and tells people."""

from __future__ import annotations

import shlex
import signal
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from .._errors import BadJob, StoreAway, StoreBusy, StoreError
from ..client.gauges import read
from ..client.queue import JobQueue
from ..observe import alarm_config, logs
from ..observe.alarm_channels import Command, Log, Teller, Webhook
from ..observe.alarm_config import Watching
from ..observe.alarms import Alarms
from ..observe.gauges import StoreGauges
from ..stores.address import hidden
from .options import DEFAULT_STORE, Store, absolute, existing, span

__all__ = ["EXAMPLES", "alarms"]

_LAST: Final = 5.0  # seconds that a message may take at the end

EXAMPLES = """\b
Examples:
  pywheel alarms --webhook https://example.org/alarms
  pywheel alarms --command 'mail -s pywheel ops@example.org' --late 30s
  pywheel alarms --config /etc/pywheel/alarms.toml --log-format json

Each message is one JSON object: "text" for people, "alarms" with "alarm", "topic", "state" (firing, over), "since",
"value", "limit" and "text" for each that has begun or is over.
"""


def alarms(
    store: Store = DEFAULT_STORE,
    config: Annotated[Path | None, typer.Option(help="A TOML file: limits by topic, and whom to tell.")] = None,
    webhook: Annotated[
        list[str] | None,
        typer.Option(envvar="PYWHEEL_ALARM_WEBHOOK", help="POST each message there as JSON.", show_envvar=True),
    ] = None,
    command: Annotated[
        list[str] | None, typer.Option(help="Run this for each message, which comes on its standard input.")
    ] = None,
    late: Annotated[str | None, typer.Option(help="The objective: how late a job may start. [60s]")] = None,
    dead: Annotated[int | None, typer.Option(min=1, help="So many more dead jobs of a topic in 5 minutes. [1]")] = None,
    every: Annotated[str | None, typer.Option(help="How often to look. [5s]")] = None,
    log_format: Annotated[str, typer.Option(help="text, or json: an object a line.")] = "text",
) -> None:
    """Watch a store, and tell when jobs are late, die, or have no worker, or the store is away; and when that is over.

    Run it once for a store, beside its workers. Alarms go to the log too. It costs a look at the counts every 5
    seconds.
    """
    watching = _watching(config, webhook or [], command or [])
    words = {"late": None if late is None else span(late), "dead": dead}
    limits = {name: value for name, value in words.items() if value is not None}
    rules = replace(watching.rules, limits=alarm_config.limits_of(limits, watching.rules.limits))
    watching = replace(watching, rules=rules)
    if every is not None:
        watching = replace(watching, every=alarm_config.seconds(span(every), "--every") or 0.0)
    logs.begin(log_format)
    _watch(absolute(store), watching)


def _watching(config: Path | None, webhooks: list[str], commands: list[str]) -> Watching:
    try:
        webhook, command = [Webhook(url) for url in webhooks], [Command(shlex.split(line)) for line in commands]
    except ValueError as error:
        raise BadJob(f"an alarm's receiver: {error}") from None
    watching = Watching(channels=(Log(), *webhook, *command))
    return watching if config is None else alarm_config.read(config, watching)


def _watch(url: str, watching: Watching) -> None:
    """Look until SIGTERM or Ctrl-C."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    shown = hidden(url)
    found, looks = Alarms(watching.rules, shown), _Looks(url)
    tellers = [Teller(channel, shown, watching.between) for channel in watching.channels]
    try:
        while not stop.is_set():
            over = [alarm for alarm in found.look(looks(), *_now()) if not alarm.firing]
            for teller in tellers:
                teller.tell(found.firing, over, time.monotonic())
            stop.wait(watching.every)
    finally:
        looks.close()
        for teller in tellers:
            teller.wait(_LAST)


def _now() -> tuple[float, int]:
    return time.monotonic(), time.time_ns() // 1_000_000


class _Looks:
    """Reads the store again and again, and opens it anew when it failed: it may be another one by then."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._queue: JobQueue | None = None
        with suppress(StoreAway, StoreBusy):  # that is what it watches for; a wrong address is not
            self._queue = existing(url)

    def __call__(self) -> StoreGauges | StoreError:
        """Return what it holds, or why it cannot say."""
        try:
            if self._queue is None:
                self._queue = existing(self._url)
            return read(self._queue.store)
        except StoreError as error:
            self.close()
            return error

    def close(self) -> None:
        """Close the store."""
        if self._queue is not None:
            self._queue.close()
            self._queue = None

"""``pywheel deliver``: a worker of outlets, from a config file, without a program of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._errors import BadOption
from ..jobs.durations import KEEP, duration
from ..outlets.answers import shown
from ..outlets.config import Configured, load
from .options import Grace, Keep, Target, kept_for, span
from .output import Output
from .work import Terms, run

if TYPE_CHECKING:  # the other commands need not wait for this
    from ..worker.base import WorkerOptions

__all__ = ["deliver"]


def deliver(
    on: Target,
    config: Annotated[Path, typer.Option("--config", "-c", help="The config file.")] = Path("outlets.toml"),
    check: Annotated[bool, typer.Option("--check", help="Say what would run, and run nothing.")] = False,
    grace: Grace = "30s",
    keep: Keep = KEEP,
) -> None:
    """Deliver the jobs of topics by the outlets of a config file, until SIGTERM, Ctrl-C, or the end of the terminal.

    It then begins no delivery, waits for those under way, and gives back what is not delivered by the end of the grace.
    """
    if not config.exists():
        raise BadOption(f"there is no file {config}: --config says where it is; `pywheel deliver --help` shows one")
    outlets = load(config)
    duration(span(grace), "--grace", error=BadOption)
    options: WorkerOptions = {"grace": span(grace), "keep": kept_for(keep)}
    if check:
        _say(outlets, on)
        return
    with on.opened(keys=True) as queue:
        for configured in outlets:
            for topic in configured.topics:
                register = queue.handler(
                    topic, concurrency=configured.concurrency, ttr=configured.ttr, retry=configured.retry
                )
                register(configured.outlet)
        run(queue, Terms(on.store, options))


def _say(outlets: list[Configured], out: Output) -> None:
    """Print what would run: no secrets."""
    records: list[dict[str, Any]] = [
        {
            "outlet": configured.name,
            "kind": configured.outlet.kind,
            "topics": configured.topics,
            "target": shown(configured.outlet.target) or "as each job says",
            "concurrency": configured.concurrency,
            "ttr": configured.ttr,
            "attempts": configured.retry.max_attempts,
        }
        for configured in outlets
    ]
    rows = [[*{**record, "topics": ", ".join(record["topics"])}.values()] for record in records]
    out.emit_rows(("outlet", "kind", "topics", "target", "concurrency", "ttr", "attempts"), rows, records)

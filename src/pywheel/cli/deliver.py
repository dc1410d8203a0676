"""``pywheel deliver``: a worker of outlets, from a config file, without a program of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from .._errors import BadOption
from ..jobs.durations import KEEP, duration
from ..outlets.config import Configured, load
from .options import DEFAULT_STORE, AsJson, Keep, Store, kept_for, keyring, opened, span
from .output import emit_rows, on_terminal
from .terms import Terms
from .work import run

__all__ = ["EXAMPLES", "deliver"]

EXAMPLES: Final = """\b
Examples:
  pywheel deliver --store sqlite:////var/lib/shop/jobs.db --config outlets.toml --check
  pywheel deliver --store sqlite:////var/lib/shop/jobs.db --config outlets.toml

\b
outlets.toml:
  [outlets.shop]
  kind = "webhook"
  topics = ["shop.notify"]
  secret_env = "SHOP_SECRET"           # or secret_file; two of them during a rotation
  retry = ["5s", "30s", "5m", "1h"]
"""


def deliver(
    config: Annotated[Path, typer.Option("--config", "-c", help="The config file.")] = Path("outlets.toml"),
    store: Store = DEFAULT_STORE,
    check: Annotated[bool, typer.Option("--check", help="Say what would run, and run nothing.")] = False,
    grace: Annotated[str, typer.Option(help="How long deliveries may go on after SIGTERM or Ctrl-C.")] = "30s",
    keep: Keep = KEEP,
    live: Annotated[
        bool | None, typer.Option(help="Show counts and lateness; on a terminal it does by itself.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Deliver the jobs of topics by the outlets of a config file, until SIGTERM, Ctrl-C, or the end of the terminal.

    It then begins no delivery, waits for those under way, and gives back what is not delivered by the end of the grace.
    """
    if not config.exists():
        raise BadOption(f"there is no file {config}: --config says where it is; `pywheel deliver --help` shows one")
    outlets = load(config)
    terms = Terms(store, (), span(grace), kept_for(keep), on_terminal() if live is None else live)
    duration(terms.grace, "--grace", error=BadOption)
    if check:
        _say(outlets, as_json)
        return
    with opened(store, encryption=keyring()) as queue:
        for configured in outlets:
            for topic in configured.topics:
                register = queue.handler(
                    topic, concurrency=configured.concurrency, ttr=configured.ttr, retry=configured.retry
                )
                register(configured.outlet)
        run(queue, terms)


def _say(outlets: list[Configured], as_json: bool) -> None:
    """Print what would run: no secrets."""
    records: list[dict[str, Any]] = [
        {
            "outlet": configured.name,
            "kind": configured.outlet.kind,
            "topics": configured.topics,
            "target": configured.outlet.target_shown or "as each job says",
            "concurrency": configured.concurrency,
            "ttr": configured.ttr,
            "attempts": configured.retry.max_attempts,
        }
        for configured in outlets
    ]
    titles = ("outlet", "kind", "topics", "target", "concurrency", "ttr", "attempts")
    rows = [
        [*(", ".join(value) if isinstance(value, tuple) else value for value in record.values())] for record in records
    ]
    emit_rows(titles, rows, records, as_json=as_json)

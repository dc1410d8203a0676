"""Commands about outlets: run them in a worker, list their last answers and disabled targets, enable targets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._errors import BadOption
from ..jobs.durations import KEEP, duration
from ..outlets.answers import enable as enable_again
from ..outlets.answers import known, shown
from ..outlets.config import Configured, load
from .examples import examples
from .options import NO, Grace, Group, Keep, Target, kept_for, span, with_options
from .output import Output, due_time
from .work import Terms, run

if TYPE_CHECKING:  # the other commands do not need it
    from ..worker.base import WorkerOptions


def deliver(
    on: Target,
    config: Annotated[Path, typer.Option("--config", "-c", help="The config file.")] = Path("outlets.toml"),
    check: Annotated[bool, typer.Option("--check", help="Say what would run, and run nothing.")] = False,
    grace: Grace = "30s",
    keep: Keep = KEEP,
) -> None:
    """Deliver the jobs of topics by the outlets of a config file, until SIGTERM, Ctrl-C, or the end of the terminal.

    It then begins no delivery, waits for open ones, and gives back the jobs that are not delivered by the end of the
    grace.
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
    """Print the outlets that would run, without secrets."""
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


# ---- answers and targets --------------------------------------------------------------------------------------------


outlets = Group("outlets", "Outlets: their last answers, and which of their targets are disabled.")


@outlets.callback(invoke_without_command=True, no_args_is_help=False, epilog=examples("outlets"))
@with_options
def listed(context: typer.Context, on: Target) -> None:
    """List outlets with their last answers, and the targets that are disabled."""
    if context.invoked_subcommand is not None:
        return
    with on.existing() as queue:
        found = [answer for _, answer in known(queue.store)]
    rows = [
        (a.name, a.kind, a.target, due_time(a.at), a.status or "", due_time(a.disabled), a.error or "") for a in found
    ]
    titles = ("outlet", "kind", "target", "last", "status", "disabled", "error")
    on.emit_rows(titles, rows, [answer._asdict() for answer in found])


@outlets.command()
def enable(
    name: Annotated[str, typer.Argument(help="The outlet's name.")],
    on: Target,
    target: Annotated[str | None, typer.Option(help="Of its targets only this one.")] = None,
) -> int:
    """Deliver to the disabled targets of an outlet again."""
    with on.existing() as queue:
        found = enable_again(queue.store, name, target)
    text = "\n".join(f"enabled {answer.target}" for answer in found) or "nothing was disabled"
    on.emit({"enabled": [answer.target for answer in found]}, text)
    return 0 if found else NO

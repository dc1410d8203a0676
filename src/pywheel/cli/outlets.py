"""Commands about outlets: what they last heard, which targets are disabled, and enabling them."""

from __future__ import annotations

from typing import Annotated

import typer

from ..outlets.answers import enable as enable_again
from ..outlets.answers import known
from .options import NO, Group, Target, with_options
from .output import due_time

__all__ = ["outlets"]


outlets = Group("outlets", "Outlets: their last answers, and which of their targets are disabled.")


@outlets.callback(invoke_without_command=True, no_args_is_help=False)
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

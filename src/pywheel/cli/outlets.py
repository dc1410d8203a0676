"""Commands about outlets: what they last heard, which targets are disabled, and enabling them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..outlets.answers import enable as enable_again
from ..outlets.answers import known
from .examples import examples
from .options import DEFAULT_STORE, NO, AsJson, Store, existing
from .output import due_time, emit, emit_rows

__all__ = ["outlets"]


outlets = typer.Typer(
    name="outlets",
    help="Outlets: their last answers, and which of their targets are disabled.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@outlets.callback()
def listed(context: typer.Context, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """List outlets with their last answers, and the targets that are disabled."""
    if context.invoked_subcommand is not None:
        return
    with existing(store) as queue:
        found = [answer for _, answer in known(queue.store)]
    rows: list[list[Any]] = [
        [
            answer.name,
            answer.kind,
            answer.target,
            "" if answer.at is None else due_time(answer.at),
            answer.status or "",
            "" if answer.disabled is None else due_time(answer.disabled),
            answer.error or "",
        ]
        for answer in found
    ]
    titles = ("outlet", "kind", "target", "last", "status", "disabled", "error")
    emit_rows(titles, rows, [answer._asdict() for answer in found], as_json=as_json)


@outlets.command(epilog=examples("outlets enable"))
def enable(
    name: Annotated[str, typer.Argument(help="The outlet's name.")],
    target: Annotated[str | None, typer.Option(help="Of its targets only this one.")] = None,
    store: Store = DEFAULT_STORE,
    as_json: AsJson = False,
) -> int:
    """Deliver to the disabled targets of an outlet again."""
    with existing(store) as queue:
        found = enable_again(queue.store, name, target)
    text = "\n".join(f"enabled {answer.target}" for answer in found) or "nothing was disabled"
    emit({"enabled": [answer.target for answer in found]}, as_json=as_json, text=text)
    return 0 if found else NO

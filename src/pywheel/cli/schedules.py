"""Commands about schedules: which there are, and where they are; pause, resume, run now, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from .examples import examples
from .options import DEFAULT_STORE, AsJson, Store, answer, existing, group, keyring
from .output import due_time, emit, emit_rows

__all__ = ["schedules"]

Name = Annotated[str, typer.Argument(help="The schedule's name.", metavar="NAME")]

schedules = group(
    "schedules", "Periodic jobs: when each comes next, what became of the last; pause, resume, run and remove them."
)


@schedules.command("list", epilog=examples("schedules list"))
def list_schedules(
    store: Store = DEFAULT_STORE,
    limit: Annotated[int, typer.Option("--limit", "-n", help="The most to list.", min=1)] = 1_000,
    as_json: AsJson = False,
) -> None:
    """List schedules by name: when their next tick comes, when the last one came, and what became of it."""
    with existing(store) as queue:
        found = queue.schedules.list(limit=limit)
    rows = [
        (
            one.schedule.name,
            one.schedule.timing,
            one.schedule.topic,
            "paused" if one.schedule.paused else _time(one.next),
            _time(one.last),
            one.outcome or "",
        )
        for one in found
    ]
    emit_rows(
        ("name", "when", "topic", "next", "last", "outcome"), rows, [one.about() for one in found], as_json=as_json
    )


@schedules.command(epilog=examples("schedules pause"))
def pause(name: Name, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> int:
    """Let a schedule put nothing until it is resumed. What was put ahead is cancelled, what runs goes on."""
    with existing(store, encryption=keyring()) as queue:
        done = queue.schedules.pause(name)
    return answer(done, as_json=as_json, yes="paused", no="it was paused already")


@schedules.command(epilog=examples("schedules resume"))
def resume(name: Name, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> int:
    """Let a paused schedule go on from now. Nothing is made up for."""
    with existing(store, encryption=keyring()) as queue:
        done = queue.schedules.resume(name)
    return answer(done, as_json=as_json, yes="resumed", no="it was not paused")


@schedules.command(epilog=examples("schedules run"))
def run(name: Name, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """Put a job of a schedule now, paused or not; print its id."""
    with existing(store, encryption=keyring()) as queue:
        id = queue.schedules.run(name)
    emit({"id": id}, as_json=as_json, text=str(id))


@schedules.command(epilog=examples("schedules remove"))
def remove(name: Name, store: Store = DEFAULT_STORE, as_json: AsJson = False) -> int:
    """Remove a schedule. Code that declares it makes it again when its worker starts."""
    with existing(store) as queue:
        done = queue.schedules.delete(name)
    return answer(done, as_json=as_json, yes="removed", no="there is no such schedule")


def _time(milliseconds: int | None) -> str:
    return "" if milliseconds is None else due_time(milliseconds)

"""Commands about schedules: list, pause, resume, run now, remove."""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Group, Target
from .output import due_time

Name = Annotated[str, typer.Argument(help="The schedule's name.", metavar="NAME")]

schedules = Group(
    "schedules", "Periodic jobs: when each comes next, what became of the last; pause, resume, run and remove them."
)


@schedules.command("list")
def list_schedules(
    on: Target, limit: Annotated[int, typer.Option("--limit", "-n", help="The most to list.", min=1)] = 1_000
) -> None:
    """List schedules by name, with the times of their next and last ticks, and the outcome of the last one."""
    with on.existing() as queue:
        found = queue.schedules.list(limit=limit)
    rows = []
    for one in found:
        schedule, following = one.schedule, "paused" if one.schedule.paused else due_time(one.next)
        last = due_time(one.last), one.outcome or ""
        rows.append((schedule.name, schedule.timing, schedule.topic, following, *last))
    on.emit_rows(("name", "when", "topic", "next", "last", "outcome"), rows, [one.about() for one in found])


@schedules.command()
def pause(name: Name, on: Target) -> int:
    """Let a schedule put nothing until it is resumed. Jobs that it put ahead are cancelled; running ones go on."""
    with on.existing(keys=True) as queue:
        done = queue.schedules.pause(name)
    return on.answer(done, yes="paused", no="it was paused already")


@schedules.command()
def resume(name: Name, on: Target) -> int:
    """Let a paused schedule go on from now. Missed ticks are not made up for."""
    with on.existing(keys=True) as queue:
        done = queue.schedules.resume(name)
    return on.answer(done, yes="resumed", no="it was not paused")


@schedules.command()
def run(name: Name, on: Target) -> None:
    """Put a job of a schedule now, paused or not; print its id."""
    with on.existing(keys=True) as queue:
        id = queue.schedules.run(name)
    on.emit({"id": id}, str(id))


@schedules.command()
def remove(name: Name, on: Target) -> int:
    """Remove a schedule. Code that declares it makes it again when its worker starts."""
    with on.existing() as queue:
        done = queue.schedules.delete(name)
    return on.answer(done, yes="removed", no="there is no such schedule")

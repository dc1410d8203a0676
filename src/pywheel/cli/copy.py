"""``pywheel copy``: the move to another store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated

import typer

from .._errors import BadOption
from ..client.copier import Copier
from ..client.copy_steps import TOPIC
from ..client.queue import JobQueue
from ..jobs.durations import duration
from .options import NO, AStore, span
from .output import Output, note, progress

From = Annotated[str, typer.Argument(help="Address of the store that is there.", metavar="FROM")]
To = Annotated[str, typer.Argument(help="Address of a store without live jobs; made if it is not there.", metavar="TO")]


def copy(
    source: From,
    target: To,
    out: Output,
    switch: Annotated[
        bool, typer.Option("--switch", help="Then pause FROM, wait for what runs, carry the rest, and resume in TO.")
    ] = False,
    wait: Annotated[str, typer.Option(help="How long to wait for what runs in FROM; then FROM is resumed.")] = "60s",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say how many jobs there are; change nothing.")] = False,
) -> int:
    """Carry all jobs of FROM to TO, while FROM is used; with --switch go over to TO.

    Live jobs come with all they have, and their attempts so far; finished ones with their history. Paused topics stay
    paused. Ids are TO's own; the header pywheel-copied has the old one. Until the switch, TO has the service tokens of
    FROM, and no others. Exit code 1: some jobs stayed, as TO has their keys.
    """
    seconds = duration(span(wait), "--wait", error=BadOption) / 1000
    with AStore(store=source).existing() as old:
        counts = [counts for name, counts in old.topics.counts().items() if name != TOPIC]
        live = sum(some.delayed + some.running for some in counts)
        finished = sum(some.done + some.dead + some.cancelled for some in counts)
        if dry_run:
            text = f"{live:,} live jobs would be carried, and {finished:,} finished ones"
            out.emit({"jobs": live, "finished": finished, "dry_run": True}, text)
            return 0
        with AStore(store=target).opened() as new, _shown(live + finished) as shown:
            copier = Copier(old.store, new.store, shown)
            return (_switch if switch else _carry)(copier, old, new, seconds, out)


def _carry(copier: Copier, old: JobQueue, new: JobQueue, _: float, out: Output) -> int:
    done = copier.carry()
    brought = f"{done.new:,} carried, {done.changed:,} brought up to date"
    text = f"{brought}: {done.total:,} there, {done.waiting:,} still to come; finished: {done.finished:,}"
    out.emit(done._asdict(), text)
    note(f"pywheel: {old.store.url} works on, the topics of {new.store.url} are paused; --switch goes over to it")
    return 0


def _switch(copier: Copier, old: JobQueue, new: JobQueue, seconds: float, out: Output) -> int:
    with _interrupted_by_signals():
        done = copier.switch(seconds)
    text = f"{done.jobs + done.late:,} jobs are in {new.store.url}; nothing could start for {done.seconds:.1f} s"
    text += f"; finished: {done.finished:,}"
    out.emit(done._asdict(), text)
    note(f"pywheel: start producers and workers with {new.store.url}, and stop those of {old.store.url}.")
    note("pywheel: its topics stay paused; what is put there all the same is carried by the same command.")
    if done.refused:
        note(f"pywheel: {done.refused:,} jobs stayed there: live jobs of {new.store.url} have their keys")
    return NO if done.refused else 0


def _interrupted_by_signals() -> AbstractContextManager[None]:
    """Take SIGTERM and the end of the terminal for Ctrl-C within this context: FROM is resumed before the end."""
    from ..worker.worker import stop_on_signals  # the other commands do not need it

    told = False

    def interrupt() -> None:
        nonlocal told
        told = True
        raise KeyboardInterrupt

    return stop_on_signals(interrupt, lambda: told)


@contextmanager
def _shown(total: int) -> Iterator[Callable[[str, int], object]]:
    """Show the progress; if the command ends in the middle, say how to continue."""
    said = ""
    with progress("copying", total or None) as bar:

        def show(what: str, done: int) -> None:
            nonlocal said
            if what != said:
                note(f"pywheel: {what}")
                said = what
            bar(done)

        try:
            yield show
        except BaseException:
            if said:
                note("pywheel: it ended in the middle; the same command goes on where it was")
            raise

"""Commands about the store itself: its properties, its workers, its size, its soundness, its backup."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from .. import __version__, implementation
from .._errors import BadOption, StoreError
from ..jobs.queries import ListWorkers
from ..stores.contract import Store as JobStore
from ..stores.contract import outcome_of
from ..stores.notifier import order
from ..stores.open import migration, working_directory
from ..stores.verify import Finding
from .examples import examples
from .options import NO, Group, No, Target, absolute, with_options
from .output import note, progress

_INSTEAD: Final = {  # of the methods that only a store in a file has
    "backup": "`pywheel copy` carries its jobs to a store in a file, and a server has tools of its own",
    "check": "`pywheel verify` looks at its jobs",
}
_PAGES: Final = 2_000  # pages given back in one turn, which blocks other writers for some milliseconds


def info(on: Target) -> None:
    """Show the store's address, durability, size and counts, and the versions of pywheel and Python here."""
    with on.existing() as queue:
        found = queue.store
        record: dict[str, Any] = {
            "store": found.url,
            "durability": found.durability,
            **found.about(),
            "topics": len(queue.topics.list()),
            "workers": sum(not member.gone for member in found.ask(ListWorkers())),
            "version": __version__,
            "implementation": implementation,
            "python": platform.python_version(),
        }
    shown = {name: f"{value:,}" if name.endswith("bytes") else value for name, value in record.items()}
    on.emit_pairs(shown, record)


workers = Group("workers", "Workers: who works on this store; let one take no new jobs, take jobs again, or stop.")
Name = Annotated[str, typer.Argument(help="A worker's id, or host:process, or a host that has one.", metavar="NAME")]


@workers.callback(invoke_without_command=True, no_args_is_help=False, epilog=examples("workers"))
@with_options
def list_workers(context: typer.Context, on: Target) -> None:
    """List workers: their hosts, processes and topics, and whether they are behind.

    "last seen" is how many seconds ago a worker last gave a sign of life; after 5 it counts as gone. "room" says
    whether it can take more jobs; "behind" is how many seconds late the oldest job is that it has no room for.
    """
    if context.invoked_subcommand is not None:
        return
    with on.existing() as queue:
        members, now = queue.store.ask(ListWorkers()), queue.store.clock.wall()
    records, rows = [member.about(now) for member in members], list[tuple[str, ...]]()
    for one in records:
        host, process = one["host"] or one["worker"], str(one["process"] or "")
        room = "gone" if one["gone"] else "quiet" if one["quiet"] else "yes" if one["room"] else "no"
        rows.append((host, process, f"{one['silent']:.1f}", room, f"{one['behind']:.1f}", " ".join(one["topics"])))
    on.emit_rows(("host", "process", "last seen", "room", "behind", "topics"), rows, records)


@workers.command()
def quiet(name: Name, on: Target) -> None:
    """Let a worker take no new jobs, and finish those that run, until it is resumed; it takes some seconds."""
    _tell(name, "quiet", on)


@workers.command()
def resume(name: Name, on: Target) -> None:
    """Let a quiet worker take jobs again."""
    _tell(name, "resume", on)


@workers.command()
def stop(name: Name, on: Target) -> None:
    """Let a worker drain and end, as SIGTERM does; a supervisor or service manager may start another one."""
    _tell(name, "stop", on)


def _tell(name: str, word: str, on: Target) -> None:
    with on.existing() as queue:
        # A prefix is not enough: app1:4711 is another worker than app1:47115.
        called = [
            one for one in queue.store.ask(ListWorkers()) if f"{one.worker}@".startswith((f"{name}@", f"{name}:"))
        ]
        there = [one for one in called if not one.gone] or called
        if len(there) != 1:
            raise No(f"{len(there)} workers are called {name[:80]!r}: `pywheel workers --json` has their ids")
        [told] = there
        outcome_of(queue.store, order(told.worker, word))
    on.emit({"worker": told.worker, "told": word}, f"{told.worker} is told: {word}")
    if told.gone:
        note(f"it was last seen {told.silent:.0f} s ago, and hears of it if it comes back")


def migrate(
    on: Target,
    sql: Annotated[bool, typer.Option("--sql", help="Print the statements for a DBA, and change nothing.")] = False,
) -> None:
    """Make the tables of a server's store, or bring them up to date.

    Opening a store does the same, if the database allows it. Stores in files do not need this command.
    """
    statements = migration(absolute(on.store))
    if sql:
        on.emit({"sql": statements or ""}, "-- nothing to do" if not statements else statements.rstrip())
        return
    with on.opened() as queue:
        url = queue.store.url
    on.emit({"store": url, "changed": bool(statements)}, "done" if statements else "nothing to do")


def vacuum(
    on: Target,
    rewrite: Annotated[
        bool, typer.Option("--rewrite", help="Write the whole file anew: nobody can write meanwhile.")
    ] = False,
) -> None:
    """Give the space of purged jobs back to the system, in small steps beside running workers; print how much.

    A file that another program created gives nothing back before the first --rewrite.
    """
    with on.existing() as queue:
        before = queue.store.about().get("file_bytes", 0)
        with progress("giving back") as shown:
            if rewrite:
                _able(queue.store, "rewrite")()
            give, pages, given = _able(queue.store, "vacuum"), 0, _PAGES
            while given >= _PAGES // 2:  # the last ones: on a busy store some pages are always free
                given = give(_PAGES)
                pages += given
                shown(pages)
        after = queue.store.about().get("file_bytes", 0)
    on.emit({"pages": pages, "size": after, "before": before}, f"{before:,} bytes, now {after:,}")


def backup(file: Annotated[Path, typer.Argument(help="A new file; it is a store like this one.")], on: Target) -> None:
    """Copy all jobs as they are now into a new file. Workers and clients may run meanwhile."""
    if file.exists():
        raise BadOption(f"{file} exists: give the name of a new file")
    target = file if file.is_absolute() else working_directory() / file
    if not target.parent.is_dir():
        raise BadOption(f"there is no folder {file.parent}: create it")
    with on.existing() as queue, progress("copying"):
        _able(queue.store, "backup")(target)
    on.emit({"path": str(target), "size": target.stat().st_size}, f"copied to {target}")


def check(on: Target) -> None:
    """Look for damage in the store's file. Exit code 1: damage was found."""
    with on.existing() as queue, progress("checking"):
        found = _able(queue.store, "check")()
    if found and not on.as_json:
        raise No("; ".join(found))
    on.emit({"damage": found}, "no damage found")
    if found:
        raise typer.Exit(1)


def verify(
    on: Target,
    repair: Annotated[bool, typer.Option("--repair", help="Make it right, while nobody else writes.")] = False,
) -> int:
    """Check every job and all data about it; print the errors, line by line. Exit code 1: some are not repaired."""
    with on.existing() as queue, progress("repairing" if repair else "looking at every job"):
        found = queue.store.verify(repair=repair)
    if not found:
        on.emit([], "nothing is wrong")
        return 0
    titles = ("how many", "what", "such as", "--repair" if not repair else "repaired")
    rows = [_finding_row(one, repair=repair) for one in found]
    on.emit_rows(titles, rows, [one._asdict() for one in found])
    left = [one for one in found if not one.repaired]
    if not repair and any(one.remedy for one in found):
        note("to make it right: pywheel verify --repair")
    if any(not one.remedy for one in left):
        note("what cannot be made right: look at these jobs, delete them, or restore a backup")
    return NO if left else 0


def _finding_row(one: Finding, *, repair: bool) -> tuple[str, str, str, str]:
    if not one.remedy:
        done = "nothing can be done"
    elif repair:
        done = one.remedy if one.repaired else f"left; was to be {one.remedy}"
    else:
        done = f"they are {one.remedy}"
    return f"{one.number:,}", one.what, " ".join(map(str, one.examples)), done


def _able(store: JobStore, method: str) -> Any:
    """Return a method that not every store has. StoreError if this one lacks it."""
    able = getattr(store, method, None)
    if able is None:
        raise StoreError(f"{store.url} has no {method}: {_INSTEAD.get(method, 'it needs none')}")
    return able

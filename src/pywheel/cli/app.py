"""The commands in their order, and what becomes of errors: exit code 1 for no, 2 for arguments, 3 for the store."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from .._errors import JobExists, NoSuchJob, PywheelError, StoreError
from . import keys, maintain, many, one, spool
from .alarms import EXAMPLES as _ALARMS
from .alarms import alarms
from .bridge import bridge
from .commands_help import Commands
from .copy import EXAMPLES as _COPY
from .copy import copy
from .deliver import EXAMPLES as _DELIVER
from .deliver import deliver
from .options import NO, STORE, USAGE, No
from .outlets import outlets
from .output import fail, sound_streams
from .schedules import schedules
from .serve import EXAMPLES as _SERVE
from .serve import serve
from .token import token
from .verify import EXAMPLES as _VERIFY
from .verify import verify
from .work import work

__all__ = ["app", "run"]

# Typer brings its own click, or uses the one installed: either way this is the base of its usage errors.
_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")

EXAMPLES = """\b
Examples:
  pywheel put close-order '{"order": 7}' --delay 30m --key order-7
  pywheel reschedule order-7 --topic close-order --delay 1h
  pywheel cancel order-7 --topic close-order
  pywheel list --topic notify --state dead
  pywheel retry-many --topic notify --error "502" --dry-run
  pywheel work shop:queue      # the JobQueue `queue` of shop.py
  pywheel serve --open         # HTTP API and page, on this host

The store is what --store says, or else the variable PYWHEEL_STORE, or else sqlite:///jobs.db in the working directory;
`pywheel info` says which that is. `work` works on its queue's own store unless --store is given.

With keys in PYWHEEL_KEYS `put` encrypts bodies, and `show` and `list` decrypt them; `pywheel new-key` makes a key.

Exit codes: 0 done; 1 no, such as a job that is not there or not delayed; 2 arguments that make no sense;
3 the store cannot do it, or the output cannot be written; 130 interrupted.
"""

_PUT = """\b
Examples:
  pywheel put mail '{"to": 5}'                   # due at once
  pywheel put mail '{"to": 5}' --delay 30m       # or 90, seconds; 1h 30m; 2d
  pywheel put report --at 2030-01-31T06:00:00+01:00
  pywheel put close '{"order": 7}' -d 30m -k order-7 --replace
  pywheel put note hello --text
  pywheel put image --file photo.jpg
  curl -s https://shop.example/feed | pywheel put feed -
"""
_LIST = """\b
Examples:
  pywheel list --topic notify --state dead --error 502
  pywheel list --due-until 1h                    # within the next hour, and what is late
  pywheel list --json | jq '.[].id'
  pywheel list | cut -f1,5                       # in a pipe: tabs, nothing cut; the first line says what is what
"""
_BULK = """\b
Examples:
  pywheel {name} --topic notify --dry-run
  pywheel {name} --topic notify --error 502 --yes
  pywheel {name} --due-from 1d                   # due in a day or later
"""
_PURGE = """\b
Examples:
  pywheel purge --older-than 7d --dry-run
  pywheel purge --state dead --topic notify --yes
"""
_WORK = """\b
Examples:
  pywheel work shop.jobs:queue                   # with a live view on a terminal, with log lines elsewhere
  pywheel work shop.jobs:queue --topics mail,close --grace 5s
  pywheel work shop.jobs:queue --processes 4     # kept alive; SIGHUP replaces them one by one
  pywheel work shop.jobs:queue --reload          # while you write it
  pywheel work shop.jobs:queue --log-format json --metrics-port 9091
  pywheel work shop.jobs:queue --store sqlite:////var/lib/shop/jobs.db --keep 7d
"""
_MIGRATE = """\b
Examples:
  pywheel migrate --store postgresql://owner@db/shop
  pywheel migrate --store postgresql://shop@db/shop --sql > pywheel.sql
"""
_PAUSE = """\b
Examples:
  pywheel pause notify
  pywheel resume notify
"""

app = typer.Typer(
    name="pywheel",
    cls=Commands,
    help="Durable delayed jobs: put them, look at them, work on them.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(maintain.version_line())
        raise typer.Exit


@app.callback()
def pywheel(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Durable delayed jobs: put them, look at them, work on them."""


def demo(
    jobs: Annotated[int, typer.Option(help="How many jobs.", min=100)] = 20_000,
    seconds: Annotated[float, typer.Option(help="Over how many seconds they are due.", min=1)] = 10.0,
) -> int:
    """Kill a worker half-way, and account for every job.

    Put jobs, start a worker, kill it half-way, start another; then let a notification climb its ladder.
    """
    from .demo import show

    return show(jobs, seconds)


app.command(epilog=_PUT)(one.put)
app.command()(one.show)
app.command()(one.cancel)
app.command()(one.reschedule)
app.command()(one.retry)
app.command()(one.delete)
app.command()(one.history)
app.command("list", epilog=_LIST)(many.list_jobs)
app.command()(many.counts)
app.command("cancel-many", epilog=_BULK.format(name="cancel-many"))(many.cancel_many)
app.command("retry-many", epilog=_BULK.format(name="retry-many"))(many.retry_many)
app.command("delete-many", epilog=_BULK.format(name="delete-many"))(many.delete_many)
app.command(epilog=_PURGE)(many.purge)
app.command(epilog=_PAUSE)(many.pause)
app.command()(many.resume)
app.command(epilog=_WORK)(work)
app.command(epilog=_SERVE)(serve)
app.command(epilog=_ALARMS)(alarms)
app.command(epilog=_DELIVER)(deliver)
app.command()(maintain.workers)
app.add_typer(outlets, name="outlets", cls=Commands)
app.add_typer(schedules, name="schedules", cls=Commands)
app.add_typer(bridge, name="bridge", cls=Commands)
app.add_typer(spool.spool, name="spool", cls=Commands)
app.add_typer(token, name="token", cls=Commands)
app.command()(maintain.info)
app.command(epilog=_MIGRATE)(maintain.migrate)
app.command()(maintain.vacuum)
app.command()(maintain.backup)
app.command()(maintain.check)
app.command(epilog=_VERIFY)(verify)
app.command(epilog=_COPY)(copy)
app.command("new-key", epilog=keys.NEW)(keys.new)
app.command(epilog=keys.EXAMPLES)(keys.rekey)
app.command()(demo)
app.command()(maintain.version)


def run() -> int:
    """Run the command line; return the exit code."""
    sound_streams()
    try:
        try:
            return _called()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:  # a file, not the output
            fail(str(error))
            return STORE
        # What is left in the buffer cannot be written either: at exit Python would try it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
            return 0
        fail(f"the output cannot be written: {error.strerror}")
        return STORE


def _called() -> int:
    try:
        result = app(standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as left:  # click's own answer to a pipe that nobody reads
        if isinstance(left.__context__, OSError):
            raise left.__context__ from None
        raise
    except _UsageError as error:
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
        else:
            fail(_advised(message, error))
        return USAGE
    except StoreError as error:
        fail(str(error))
        return STORE
    except (No, NoSuchJob, JobExists) as error:
        fail(str(error))
        return NO
    except PywheelError as error:
        fail(str(error))
        return USAGE
    return result if isinstance(result, int) else 0


def _advised(message: str, error: Any) -> str:
    """Return the message of a usage error with what to do: the place of an option, or where the help is."""
    message = message.replace("Value error, ", "").removesuffix(".")
    context = getattr(error, "ctx", None)
    if context is None or message.endswith("?"):  # it says what may have been meant
        return message
    names = [context.info_name]
    while (context := context.parent) is not None:
        names.insert(0, context.info_name)
    return message + (_place(error) or f": `{' '.join(['pywheel', *names[1:]])} --help` says more")


def _place(error: Any) -> str:
    """Return the end of a message about an option that stands before the command and belongs behind it."""
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if name is None or context is None or context.parent is not None:
        return ""
    for command in context.command.commands.values():
        if any(name in parameter.opts for parameter in command.params):
            return f": it follows the command: pywheel {command.name} {name} ..."
    return ""

"""The commands in their order, and the exit codes of errors: 1 for no, 2 for bad arguments, 3 for the store."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from .. import __version__, implementation
from .._errors import BadAddress, JobExists, NoSuchJob, PywheelError, StoreError
from .options import NO, STORE, USAGE, Group, No
from .output import fail, sound_streams

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

With keys in PYWHEEL_KEYS all commands that put bodies encrypt them, and those that show, deliver or work on them
decrypt them; `work` and `serve` use the keys of their program first. `pywheel new-key` makes a key.

Exit codes: 0 done; 1 no, such as a job that is not there or not delayed; 2 what was given makes no sense, such as an
option, an address or a file; 3 the store is not there or cannot do it, or the output cannot be written;
130 interrupted.
"""

_ADDRESSES: Final = {"PYWHEEL_STORE", "PYWHEEL_SPOOL", "PYWHEEL_BROKER"}
_WHERE: Final = {
    "One job": "job.put job.show job.cancel job.reschedule job.edit job.retry job.delete job.history",
    "Many jobs": "bulk.list_ bulk.counts bulk.cancel_many bulk.retry_many bulk.delete_many bulk.purge",
    "When they run": "bulk.pause bulk.resume bulk.limit schedules.schedules",
    "At work": "work.work serve.serve outlets.deliver bridge.bridge admin.workers outlets.outlets spool.spool "
    "token.token",
    "The store": "admin.info admin.migrate admin.backup copy.copy admin.check admin.verify admin.vacuum",
    "Keys": "keys.new_key keys.rekey",
}


def _name(place: str) -> str:
    """Return the name of the command that a place has."""
    return place.rpartition(".")[2].strip("_").replace("_", "-")


PARTS: Final = {heading: {_name(place): place for place in places.split()} for heading, places in _WHERE.items()}
"""The places of the commands, by name, under the headings of the help."""


class Commands(TyperGroup):
    """A group of commands whose help never cuts a sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write each command with its whole first sentence, and the commands of `pywheel` itself under headings."""
        widest = max(map(len, self.commands))
        for heading, names in PARTS.items() if ctx.parent is None else [("Commands", self.commands)]:
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(widest), _sentence(self.commands[name].help or "")) for name in names])


def _sentence(text: str) -> str:
    """Return the first sentence of a help text."""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pywheel {__version__} ({implementation}), Python {platform.python_version()}, {sys.executable}")
        raise typer.Exit


def _pywheel(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Durable delayed jobs: put them, look at them, work on them."""


def application(called: str = "") -> Group:
    """Return all commands; or the one of this name alone, if there is one: to import the others takes longer."""
    app = Group("pywheel", _pywheel.__doc__ or "", cls=Commands, epilog=EXAMPLES, pretty_exceptions_enable=False)
    app.callback()(_pywheel)
    places = {name: place for part in PARTS.values() for name, place in part.items()}
    for name in [called] if called in places else places:
        module, _, attribute = places[name].partition(".")
        command = getattr(import_module(f".{module}", __package__), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, cls=Commands)
        else:
            app.command(name)(command)
    return app


def run() -> int:
    """Run the command line; return the exit code."""
    sound_streams()
    for name in _ADDRESSES & os.environ.keys():  # a secret that `echo` has made ends with a newline
        os.environ[name] = os.environ[name].strip()
    try:
        try:
            return _called()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:  # a file of the arguments, not the output
            fail(str(error))
            return USAGE
        # Python would try at exit to write the rest of the buffer, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
            return 0
        fail(f"the output cannot be written: {error.strerror}")
        return STORE


def _called() -> int:
    try:
        result = application(*sys.argv[1:2])(standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except SystemExit as left:  # click's own answer to a pipe without a reader
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
    except PywheelError as error:
        fail(str(error))
        return _code(error)
    return result if isinstance(result, int) else 0


def _code(error: PywheelError) -> int:
    """Return the exit code of an error: NO, USAGE for the command's arguments, or STORE."""
    if isinstance(error, No | NoSuchJob | JobExists):
        return NO
    return STORE if isinstance(error, StoreError) and not isinstance(error, BadAddress) else USAGE


def _advised(message: str, error: Any) -> str:
    """Return the message of a usage error with advice: the place of an option, or the command for help."""
    message = message.replace("Value error, ", "").removesuffix(".")
    context = getattr(error, "ctx", None)
    if context is None or message.endswith("?"):  # it already suggests a word
        return message
    names = [context.info_name]
    while (context := context.parent) is not None:
        names.insert(0, context.info_name)
    return message + (_place(error) or f": `{' '.join(['pywheel', *names[1:]])} --help` says more")


def _place(error: Any) -> str:
    """Return the end of a message about an option before the command that belongs behind it, or nothing."""
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if name is None or context is None or context.parent is not None:
        return ""
    for command in context.command.commands.values():
        if any(name in parameter.opts for parameter in command.params):
            return f": it follows the command: pywheel {command.name} {name} ..."
    return ""

"""``python manage.py pywheel work``, and all other commands of ``pywheel``, on the project's store."""

from __future__ import annotations

import os
import sys
import sysconfig
from argparse import REMAINDER, ArgumentParser
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand, CommandError

from ....cli import main
from ...database import store_url

_DJANGOS: Final = ("--settings", "--pythonpath")
"""Options of every command, which Django has handled before."""


class Command(BaseCommand):
    """The command, which passes its arguments to the command line of pywheel."""

    help = "The command line of pywheel on this project's store: work, counts, list, retry, serve, ..."
    requires_system_checks: Sequence[str] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run a command; exit with its code. Options of Django's parser, such as --help, also go to pywheel."""
        _run(list(_pywheels(argv[2:])), f"{argv[0]} {argv[1]}")

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take all arguments, for `call_command`."""
        parser.add_argument("arguments", nargs=REMAINDER)

    def handle(self, *_: Any, arguments: list[str], **__: Any) -> None:
        """Run a command. CommandError if its exit code is not 0."""
        try:
            _run(arguments, "pywheel")
        except SystemExit as ended:
            if ended.code:
                raise CommandError(f"pywheel {' '.join(arguments)[:80]} ended with {ended.code}") from None


def _pywheels(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments without Django's own."""
    left = iter(arguments)
    for argument in left:
        if argument == "--":
            yield argument
            yield from left
        elif argument in _DJANGOS:
            next(left, None)
        elif not argument.startswith(tuple(f"{name}=" for name in _DJANGOS)):
            yield argument


def _run(arguments: list[str], name: str) -> None:
    if arguments[:1] == ["work"]:
        arguments = ["work", "pywheel.django:queue", *arguments[1:]]
        changed = {"PYTHONPATH": os.pathsep.join(_folders())}
    else:
        changed = {"PYWHEEL_STORE": store_url()}
    with _surroundings([name, *arguments], changed):
        main()


def _folders() -> Iterator[str]:
    """Yield the folders for imports that come before Python's own, such as the folder of manage.py.

    A worker's child processes do not start with manage.py, and would find the project in the working directory only.
    """
    found = takewhile(lambda folder: folder != sysconfig.get_path("stdlib"), sys.path)
    yield from dict.fromkeys(str(Path(folder).absolute()) for folder in found if Path(folder).is_dir())


@contextmanager
def _surroundings(argv: list[str], variables: dict[str, str]) -> Iterator[None]:
    """Set the arguments and environment variables of the command line within this context."""
    before, sys.argv = sys.argv, argv
    kept = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        sys.argv = before
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

"""``python manage.py pywheel work``, and all other commands of ``pywheel``, on the project's store."""

from __future__ import annotations

import os
import sys
from argparse import REMAINDER, ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from ....cli import main
from ...database import store_url

__all__ = ["Command"]


class Command(BaseCommand):
    """Hands its arguments to the command line of pywheel."""

    help = "The command line of pywheel on this project's store: work, counts, list, retry, serve, ..."
    requires_system_checks: Sequence[str] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Run a command; exit with its code. What Django's own parser would take, such as --help, is pywheel's."""
        _run(argv[2:], f"{argv[0]} {argv[1]}")

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take whatever comes, for `call_command`."""
        parser.add_argument("arguments", nargs=REMAINDER)

    def handle(self, *_: Any, arguments: list[str], **__: Any) -> None:
        """Run a command. CommandError if its exit code is not 0."""
        try:
            _run(arguments, "pywheel")
        except SystemExit as ended:
            if ended.code:
                raise CommandError(f"pywheel {' '.join(arguments)[:80]} ended with {ended.code}") from None


def _run(arguments: list[str], name: str) -> None:
    if arguments[:1] == ["work"]:
        arguments = ["work", "pywheel.django:queue", *arguments[1:]]
    os.environ["PYWHEEL_STORE"] = store_url()
    before, sys.argv = sys.argv, [name, *arguments]
    try:
        main()
    finally:
        sys.argv = before

"""A handler that forks: its child ends where the handler does.

What such a child would go back to is a copy of one of the worker's threads, without the others: nobody hears what it
says, or, of an isolated handler, it is taken for the end of another job.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from typing import NoReturn

__all__ = ["end_child"]


def end_child(error: BaseException | None) -> NoReturn:
    """End this process, a forked child, as an interpreter ends that has raised this: with the same status and words."""
    status: object = 0
    if isinstance(error, SystemExit):
        status = error.code or 0
    elif error is not None:
        status = 1
        with suppress(Exception):
            traceback.print_exception(error)
    if not isinstance(status, int):
        with suppress(Exception):
            print(status, file=sys.stderr)
        status = 1
    with suppress(Exception):
        sys.stderr.flush()
    os._exit(status & 0xFF)

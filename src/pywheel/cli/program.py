"""The program whose queue a command is told of, as ``module:name``."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType

from .._errors import BadOption, PywheelError
from ..client.queue import AsyncJobQueue, JobQueue
from ..execution.loading import load

__all__ = ["program"]

_OURS = str(Path(__file__).parents[1]) + os.sep


def program(target: str) -> JobQueue:
    """Return the queue that ``module:name`` names. BadOption if there is none.

    A module that cannot be imported is shown by a traceback of its own lines, and is a BadOption too.
    """
    try:
        queue = load(target)
    except PywheelError:
        raise
    except Exception as error:
        traceback.print_exception(error.with_traceback(_theirs(error.__traceback__)))
        module = target.partition(":")[0]
        raise BadOption(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    if not isinstance(queue, JobQueue | AsyncJobQueue):
        raise BadOption(f"{target[:80]} is no JobQueue")
    return queue.sync


def _theirs(frames: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first frame on that is neither pywheel's nor the import system's."""
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if not file.startswith((_OURS, "<frozen importlib")) and not file.endswith(f"importlib{os.sep}__init__.py"):
            break
        frames = frames.tb_next
    return frames

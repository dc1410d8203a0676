"""From ``module:name`` to the program that it names."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from .._errors import BadJob

__all__ = ["load"]


def load(target: str) -> Any:
    """Return what ``module:name`` names, a program with a store and handlers. The working directory is searched too.

    Raises:
        BadJob: it is written in another way, there is no such module or name, or it is no program.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise BadJob(f"{target[:80]!r} names no queue: write it like shop.jobs:queue")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise BadJob(f"there is no module {error.name}: run this where it can be imported") from error
    program = getattr(module, name, None)
    if not hasattr(program, "store") or not hasattr(program, "handlers"):
        raise BadJob(f"{name[:80]} in {module_name} is no JobQueue")
    return program

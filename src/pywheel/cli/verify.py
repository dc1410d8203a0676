"""Checking a whole store, and mending it."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from ..stores.verify import Finding
from .options import DEFAULT_STORE, NO, AsJson, Store, existing
from .output import emit, emit_rows, note, progress

__all__ = ["EXAMPLES", "verify"]

EXAMPLES: Final = """\b
Examples:
  pywheel verify                                 # beside running workers
  pywheel verify --store redis://cache.internal/0 --json | jq .
  pywheel verify --repair                        # after reading what it would do

Exit codes: 0 nothing is wrong, or all of it was repaired; 1 something is, or is left; 3 the store cannot be looked at.
"""


def verify(
    store: Store = DEFAULT_STORE,
    repair: Annotated[bool, typer.Option("--repair", help="Make it right, while nobody else writes.")] = False,
    as_json: AsJson = False,
) -> int:
    """Look at every job of a store and at all that is kept about it; print what is wrong, a line each."""
    with existing(store) as queue, progress("repairing" if repair else "looking at every job"):
        found = queue.store.verify(repair=repair)
    if not found:
        emit([], as_json=as_json, text="nothing is wrong")
        return 0
    titles = ("how many", "what", "such as", "--repair" if not repair else "repaired")
    emit_rows(titles, [_row(one, repair=repair) for one in found], [one._asdict() for one in found], as_json=as_json)
    left = [one for one in found if not one.repaired]
    if not repair and any(one.remedy for one in found):
        note("to make it right: pywheel verify --repair")
    if any(not one.remedy for one in left):
        note("what cannot be made right: look at these jobs, delete them, or restore a backup")
    return NO if left else 0


def _row(one: Finding, *, repair: bool) -> tuple[str, str, str, str]:
    if not one.remedy:
        done = "nothing can be done"
    elif repair:
        done = one.remedy if one.repaired else f"left; was to be {one.remedy}"
    else:
        done = f"they are {one.remedy}"
    return f"{one.number:,}", one.what, " ".join(map(str, one.examples)), done

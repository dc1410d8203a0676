"""Word of jobs that are dead as their last leases were lost: whoever ends such a lease leaves it in that transaction.

It is a note, for the workers of the job's topic: one of them takes it, and has `on_dead` called.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from ..jobs.commands import SetNote
from ..jobs.queries import ListNotes

if TYPE_CHECKING:
    from .contract import Store

__all__ = ["KEPT", "taken", "word"]

_NAME: Final = "dead:"
KEPT: Final = 86_400_000
"""ms for which a worker of that topic may come yet."""


def word(id: int, claims: int) -> str:
    """Return the name of the note that says that a job died with a claim. Its value is the job's topic."""
    return f"{_NAME}{id}:{claims}"


def taken(store: Store, topics: Collection[str]) -> list[int]:
    """Take the word that was left in a store of jobs of these topics; return their ids. StoreError."""
    found: list[int] = []
    after = ""
    while page := store.ask(ListNotes(_NAME, after)):
        after = page[-1][0]
        names = [name for name, topic in page if topic.decode() in topics]
        outcomes = store.apply([SetNote(name, None) for name in names]) if names else []
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, bytes):  # else another worker has it, or nobody yet
                found.append(int(name.removeprefix(_NAME).partition(":")[0]))
    return found

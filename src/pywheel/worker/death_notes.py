"""Word of dead jobs that one program has found, for the workers of another one, whose jobs they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from ..jobs.commands import Keep
from ..jobs.job import Job
from ..stores.contract import Store, intact

__all__ = ["leave_word", "word_of"]

_NAME: Final = "dead:"
_KEPT: Final = 86_400_000  # ms for which a worker of that program may come yet


def leave_word(store: Store, job: Job) -> None:
    """Leave word that a job is dead. StoreError."""
    intact(store.apply([Keep(f"{_NAME}{job.id}", job.topic.encode(), _KEPT)]))


def word_of(store: Store, topics: Collection[str]) -> Iterator[int]:
    """Take what word was left of jobs of these topics; yield their ids. Nobody else gets them. StoreError."""
    after = ""
    while page := store.notes(_NAME, after):
        after = page[-1][0]
        for name, topic in page:
            if topic.decode() in topics:
                [taken] = intact(store.apply([Keep(name, None)]))
                if taken is not None:
                    yield int(name.removeprefix(_NAME))

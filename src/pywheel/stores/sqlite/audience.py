"""Who hears of a topic: found anew only when somebody came, went, fell silent, or spoke again.

Why no job is lost between two owners. A putter judges twice: before its commit, to address its hints, and after it. An
audience that no longer holds after the commit makes it tell the new owners to read again. So let w be a worker that
comes to own a shard, by whatever it read in the page (R), and reads the shard's jobs from the store after that. Either
the putter's second look comes before what R saw was written: then the commit came earlier still, and w reads the job.
Or it comes after: then the putter sees the same, and tells w. What R may have seen is one of these, and `holds` looks
at each: another VERSION; the heartbeat of a former owner, too old by then and older now; the heartbeat of one that had
been silent. A worker that finds itself to have been silent reads all again (`SqliteNotifier.beat`).
The same argument, with the horizon for R, is why `Telling.tell` looks at horizons after the commit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ..ownership import owners
from .presence_page import HEARTBEAT, HORIZON, NONCE, RETIRED, SILENT, VERSION, Page

__all__ = ["Audience", "Known", "Roster", "nonce_of"]


class Known(NamedTuple):
    """A worker that has announced topics."""

    worker: str
    topics: frozenset[str]
    nonce: int
    slot: int  # -1: it has none


class Roster:
    """All of them, as the store had them at one version of the page."""

    __slots__ = ("members", "page", "present", "version")

    def __init__(self, page: Page, version: int, rows: str) -> None:
        self.page = page
        self.version = version  # read before the rows: if they are newer, they are read once more
        self.members = [_known(page, worker, topics) for worker, topics in sorted(json.loads(rows))]
        there = [one for one in self.members if one.slot >= 0]
        self.present = [one.worker for one in there], [one.topics for one in there], [one.slot for one in there]
        """Workers, topics and slots of those that have a slot."""

    def holds(self, page: Page) -> bool:
        """Whether nobody came or went since."""
        return page is self.page and page.words[VERSION] == self.version


class Audience:
    """The workers that handle a topic, and which of them own its shards."""

    __slots__ = ("_alone", "_beats", "_horizons", "_silent", "_version", "owners", "page", "some")

    def __init__(self, topic: str | None, roster: Roster, now: int) -> None:
        page = roster.page
        self.page = page
        self._version = roster.version
        there = [one for one in roster.members if topic in one.topics and one.slot >= 0]
        live = [one for one in there if page.words[NONCE + one.slot] == one.nonce and not _silent(page, one.slot, now)]
        heard = live or there  # all silent: it was the host that stood still, or a worker alone, who beats rarely
        self._alone = len(there) < 2
        slots = {one.worker: one.slot for one in heard}
        self._silent = [HEARTBEAT + slot for slot in {one.slot for one in there} - {one.slot for one in live}]
        self.owners = tuple(slots[worker] for worker in owners(topic or "", slots))
        """The slot of the owner of each shard; () without workers."""
        self.some = tuple(set(self.owners))
        """Each of them once."""
        self._beats = [HEARTBEAT + slot for slot in self.some] if live else []
        self._horizons = [HORIZON + slot for slot in self.some]

    def holds(self, page: Page, now: Callable[[], int]) -> bool:
        """Whether nothing has changed since that makes other owners. Asks for the time only if that matters."""
        words = page.words
        if page is not self.page or words[VERSION] != self._version or words[RETIRED]:
            return False
        if self._alone:
            return True  # whoever is the only one is the owner, silent or not
        word, heard = words.__getitem__, now() - SILENT
        return min(map(word, self._beats), default=heard) >= heard > max(map(word, self._silent), default=heard - 1)

    def furthest(self) -> int:
        """Return the furthest horizon of the owners, -1 without any."""
        if not self._horizons:
            return -1
        return max(map(self.page.words.__getitem__, self._horizons))

    def same(self, other: Audience) -> bool:
        """Whether another one, found later, has the same owners in the same places."""
        return self is other or (self.page is other.page and self.owners == other.owners)


def nonce_of(worker: str) -> tuple[int, int]:
    """Return the nonce of a worker and the slot that it had first, (0, -1) if its id has none."""
    slot, _, nonce = worker.rpartition("@")[2].partition(".")
    try:
        return int(nonce, 16), int(slot)
    except ValueError:
        return 0, -1


def _known(page: Page, worker: str, topics: list[Any]) -> Known:
    nonce, slot = nonce_of(worker)
    return Known(worker, frozenset(topics), nonce, page.find(nonce, slot) if nonce else -1)


def _silent(page: Page, slot: int, now: int) -> bool:
    return abs(now - page.words[HEARTBEAT + slot]) > SILENT

"""Counts of ended jobs for each five minutes, as workers keep them in the store: a note per worker and hour."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from .commands import SetNote

FIVE: Final = 300_000
HOUR: Final = 3_600_000
HOURS: Final = 48
"""The hours for which the counts are kept."""
_TOPICS: Final = 60  # in one note; all other topics share one sum, under ""
_LONGEST: Final = 100  # bytes of a topic's name in a note, which stays below 64 KiB with the most topics


class Ends(NamedTuple):
    """The counts of a topic's ended jobs in a span of time."""

    done: int = 0
    failed: int = 0  # attempts, including the last one of a dead job
    dead: int = 0
    late: int = 0  # ms by which the latest job was late when a worker claimed it

    def plus(self, other: Ends) -> Ends:
        """Return the sum of both."""
        done, failed, dead = self.done + other.done, self.failed + other.failed, self.dead + other.dead
        return Ends(done, failed, dead, max(self.late, other.late))


Slots: TypeAlias = Mapping[str, Mapping[int, Ends]]
"""Counts by topic, and by the beginning of each five minutes in ms."""


def hour_of(at: int) -> str:
    """Return the prefix of the names of an hour's notes."""
    return f"ends:{at // HOUR:07}:"


def ends_note(worker: str, at: int, slots: Slots) -> SetNote:
    """Return the command that keeps a worker's counts of an hour, in place of its earlier ones."""
    table: dict[str, dict[int, Ends]] = {}
    for topic, ends in sorted(slots.items(), key=lambda one: -sum(each.done + each.failed for each in one[1].values())):
        kept = table.setdefault(topic if len(table) < _TOPICS and len(topic.encode()) <= _LONGEST else "", {})
        for slot, each in ends.items():
            kept[slot % HOUR // FIVE] = kept.get(slot % HOUR // FIVE, Ends()).plus(each)
    value = json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode()
    return SetNote(hour_of(at) + worker[-100:], value, (HOURS + 1) * HOUR)


def ends_of(at: int, values: Iterable[bytes]) -> dict[str, dict[int, Ends]]:
    """Return the counts of all workers for an hour, from their notes. An unreadable note counts as empty."""
    found: dict[str, dict[int, Ends]] = {}
    for value in values:
        try:
            table = {
                topic: {int(slot): Ends(*map(int, ends)) for slot, ends in slots.items()}
                for topic, slots in json.loads(value).items()
            }
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            continue
        for topic, slots in table.items():
            known = found.setdefault(topic, {})
            for slot, ends in slots.items():
                start = at - at % HOUR + slot * FIVE
                known[start] = known.get(start, Ends()).plus(ends)
    return found

"""The rows that a transaction writes: what has changed between what it read and what was decided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ...jobs.job import Attempt, NewJob, State
from ..memory.state import Entry
from .part import OUTCOMES, Part, Place, Read, due_row, finished_row, run_row

__all__ = ["Changes", "headers_text"]

_FORGETS: Final = 10_000
_COUNTED: Final = (State.DELAYED, State.DONE, State.DEAD, State.CANCELLED)


class Changes:
    """Rows by table. A job moves from one of `due`, `run` and `finished` to another by being deleted and inserted.

    One that stays where it is, is updated: whoever waits for its lock must find it again.
    """

    def __init__(self, part: Part, numbers: Mapping[str, int]) -> None:
        self._numbers = numbers
        self.new_jobs: list[tuple[Any, ...]] = []  # id, topic, created, key, ttr, max_attempts, headers, body
        self.replaced: list[tuple[Any, ...]] = []  # id, ttr, max_attempts, headers, body
        self.gone: list[int] = []
        self.deleted: dict[Place, list[tuple[int, int, int]]] = {place: [] for place in Place}  # topic, id, state
        self.inserted: dict[Place, list[tuple[Any, ...]]] = {place: [] for place in Place}  # topic first
        self.updated: dict[Place, list[tuple[Any, ...]]] = {place: [] for place in Place}  # topic first
        self.attempts: list[tuple[Any, ...]] = []  # job, claim, attempt, started, ended, outcome, worker, error
        self.results: list[
            tuple[int, int, bytes]
        ] = []  # topic and id of jobs that are done now, what their handlers gave
        self.freed: list[tuple[int, str]] = []  # topic, key
        self.taken: list[tuple[int, str, int]] = []  # topic, key, job
        self.deduped: list[tuple[int, str, int, int]] = []  # topic, key, job; if another ended since then: a conflict
        self.counts: list[tuple[int, ...]] = []  # topic, and by how many more are delayed, done, dead, cancelled
        self.paused = [
            (numbers[name], paused)
            for name, paused in part.paused.items()
            if paused is not part.paused_before.get(name, False)
        ]
        self.announced = part.told.announced
        self.nonces = part.nonces
        self.forgets = min(part.forgets, _FORGETS)  # so many nonces, if they are old
        self.new_notes: list[tuple[Any, ...]] = []  # name, value, until when
        self.changed_notes: list[tuple[Any, ...]] = []  # the same
        self.gone_notes: list[bytes] = []  # names
        self.forgets_notes = min(part.forgets_notes, _FORGETS)  # so many, if they are over
        self._notes(part)
        self.priorities = sorted(  # topic, and one that its jobs did not have before
            (numbers[name], priority)
            for name, some in part.lanes.items()
            for priority in some - part.lanes_before.get(name, set())
        )
        self.lanes: list[tuple[int, int, int, int | None]] = []  # job, topic, priority; due while delayed
        self.laneless: list[int] = []
        for id, read, entry in part.entries():
            self._compare(id, read, entry)
            if read is None and entry is not None and entry.new.dedupe_for is not None:
                self._dedupe(part, entry)
        self.results += [(numbers[topic], id, result) for id, (topic, result) in part.rewritten.items()]
        self._keys(part)
        for name, states in part.tally.items():
            counts = tuple(states[state] for state in _COUNTED)
            if any(counts):
                self.counts.append((numbers[name], *counts))

    @property
    def empty(self) -> bool:
        """Whether there is nothing to be written."""
        return not (
            self.new_jobs
            or self.replaced
            or self.gone
            or self.attempts
            or self.results
            or self.freed
            or self.taken
            or self.counts
            or self.lanes
            or self.laneless
            or self.paused
            or self.announced
            or self.nonces
            or self.forgets
            or self.new_notes
            or self.changed_notes
            or self.gone_notes
            or self.forgets_notes
            or any(map(any, (self.deleted.values(), self.inserted.values(), self.updated.values())))
        )

    def _compare(self, id: int, read: Read | None, entry: Entry | None) -> None:
        if entry is None:
            assert read is not None
            self.gone.append(id)
            self._delete(read)
            if read.given.priority:
                self.laneless.append(id)
            return
        number = self._numbers[entry.new.topic]
        if read is None:
            new = entry.new
            self.new_jobs.append(
                (id, number, entry.created, new.key, new.ttr, new.max_attempts, headers_text(new), new.body)
            )
        elif read.new is not read.given:
            self.replaced.append(_payload(id, entry.new))
        self._move(number, read, entry)
        self._lane(number, read, entry)

    def _lane(self, number: int, read: Read | None, entry: Entry) -> None:
        """Note the row of a job with a priority: when it is due stands there as long as it waits."""
        waits = entry.state is State.DELAYED and entry.run is None
        after = (entry.new.priority, entry.due if waits else None)
        before = (
            (0, None) if read is None else (read.given.priority, read.given.due if read.place is Place.DUE else None)
        )
        if after[0] and after != before:
            self.lanes.append((entry.id, number, *after))
        elif before[0] and not after[0]:
            self.laneless.append(entry.id)

    def _move(self, number: int, read: Read | None, entry: Entry) -> None:
        before = None if read is None else read.place
        history = entry.history
        if entry.run is not None:
            place, row = Place.RUN, run_row(entry)
        elif entry.state is State.DELAYED:
            place, row = Place.DUE, due_row(entry)
        else:
            place = Place.FINISHED
            if not history:
                return  # as it was
            history, last = history[:-1], history[-1]
            if last.result is not None:
                self.results.append((number, entry.id, last.result))
            row = finished_row(entry, last)
        if before is Place.FINISHED and read is not None and read.last is not None:
            history = [read.last, *history]
        self.attempts += [_attempt(entry.id, attempt) for attempt in history]
        if place is not before or place is Place.FINISHED:
            if read is not None:
                self._delete(read)
            self.inserted[place].append((number, *row))
        elif read is not None and row != read.row:
            self.updated[place].append((number, *row))

    def _dedupe(self, part: Part, entry: Entry) -> None:
        """Have it looked at once more whether a job with the key has ended: one may have come and gone meanwhile."""
        if entry.name in part.free_since and part.keys.get(entry.name) == entry.id:
            topic, key = entry.name
            self.deduped.append((self._numbers[topic], key, entry.id, part.free_since[entry.name]))

    def _delete(self, read: Read) -> None:
        self.deleted[read.place].append((self._numbers[read.given.topic], read.id, read.finished))

    def _keys(self, part: Part) -> None:
        for name in part.kept.keys() | part.keys.keys():
            before, after = part.kept.get(name), part.keys.get(name)
            if before != after:
                topic, key = self._numbers[name[0]], name[1]
                if before is not None:
                    self.freed.append((topic, key))
                if after is not None:
                    self.taken.append((topic, key, after))
        self.freed.sort()
        self.taken.sort()  # all in one order: two that take the same keys do not wait for each other

    def _notes(self, part: Part) -> None:
        """Rows in the order of their names: whoever keeps the same does not wait for each other."""
        for name in sorted(part.notes_before.keys() | part.notes.keys()):
            before, after, encoded = part.notes_before.get(name), part.notes.get(name), name.encode()
            if after is None:
                self.gone_notes.append(encoded)
            elif before is None:
                self.new_notes.append((encoded, *after))
            elif before != after:
                self.changed_notes.append((encoded, *after))


def _payload(id: int, new: NewJob) -> tuple[Any, ...]:
    return id, new.ttr, new.max_attempts, headers_text(new), new.body


def _attempt(job: int, attempt: Attempt) -> tuple[Any, ...]:
    assert attempt.outcome is not None
    claim, number, started, ended, outcome, worker, error, _ = attempt
    return job, claim, number, started, ended, OUTCOMES.index(outcome), worker, error


def headers_text(new: NewJob) -> str | None:
    """Return a job's headers as they are stored."""
    return json.dumps(dict(new.headers), separators=(",", ":")) if new.headers else None

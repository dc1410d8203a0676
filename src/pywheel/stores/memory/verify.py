"""Checking a store in memory: what it keeps beside the jobs, against what a look at each job gives."""

from __future__ import annotations

from typing import Any, Final

from ...jobs.job import State
from .. import verify as faults
from ..verify import Finding, verified
from .state import Entry, MemoryState

__all__ = ["verify"]

_COUNTED: Final = (State.DELAYED, State.DONE, State.DEAD, State.CANCELLED)


def verify(state: MemoryState, *, repair: bool) -> list[Finding]:
    """Return what is wrong. For who has the store's lock."""
    return verified(lambda: _find(state), (lambda: _mend(state)) if repair else None)


class _Truth:
    """What there should be beside the jobs."""

    def __init__(self, state: MemoryState) -> None:
        self.running: dict[int, Entry] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.named: dict[tuple[str, str], list[int]] = {}
        self.due: dict[str, list[tuple[int, int]]] = {}
        self.ended: dict[State, list[tuple[int, int]]] = {}
        self.tally: dict[str, dict[State, int]] = {}
        for id, entry in sorted(state._jobs.items()):
            self.tally.setdefault(entry.new.topic, dict.fromkeys(State, 0))[entry.state] += 1
            if entry.state is not State.DELAYED:
                self.ended.setdefault(entry.state, []).append((entry.ended, id))
            elif entry.run is not None:
                self.running[id] = entry
            else:
                self.due.setdefault(entry.new.topic, []).append((entry.due, id))
            if entry.name is not None:
                self.named.setdefault(entry.name, []).append(id)
                holder = self.keys.get(entry.name)
                if _has(entry, entry.name) and (holder is None or holder != state._keys.get(entry.name)):
                    self.keys[entry.name] = id
        for places in (*self.due.values(), *self.ended.values()):
            places.sort()


def _has(entry: Entry | None, name: tuple[str, str]) -> bool:
    """Whether this is a live job that should have a key."""
    return entry is not None and entry.state is State.DELAYED and not entry.passed and entry.name == name


def _claimed(entry: Entry) -> int:
    """Return the last claim in a job's history."""
    return entry.history[-1].claim if entry.history else 0


def _wrong(kept: dict[Any, Any], truth: dict[Any, Any]) -> list[int]:
    """Return the ids that are in one of two indexes alone; an index is made of (time, id), or of ids."""
    places = [{(name, place) for name, places in index.items() for place in places} for index in (kept, truth)]
    return [place[1] if isinstance(place, tuple) else place for _, place in places[0] ^ places[1]]


def _find(state: MemoryState) -> list[Finding]:
    truth, jobs = _Truth(state), state._jobs
    wrong = {*_wrong(state._due, truth.due), *_wrong(state._ended, truth.ended), *_wrong(state._named, truth.named)}
    wrong |= state._running.keys() ^ truth.running.keys()
    running = [entry for entry in jobs.values() if entry.run is not None]
    kept: dict[str, dict[State, int]] = state._tally
    none = dict.fromkeys(State, 0)
    counted = {
        topic
        for topic in kept.keys() | truth.tally.keys()
        if any(kept.get(topic, none)[one] != truth.tally.get(topic, none)[one] for one in _COUNTED)
    }
    over = {*state._notes_over} ^ {*_ends(state)}
    keyless = [entry.id for entry in jobs.values() if entry.name and _has(entry, entry.name)]
    return [
        *faults.TWICE.found(sorted(entry.id for entry in running if entry.state is not State.DELAYED)),
        *faults.NO_JOB.found(sorted(wrong - jobs.keys())),
        *faults.INDEXES.found(sorted(wrong & jobs.keys())),
        *faults.LEASES.found(sorted(e.id for e in running if e.run and e.run.claim != e.claims)),
        *faults.CLAIMS.found(sorted(entry.id for entry in jobs.values() if _claimed(entry) > entry.claims)),
        *faults.KEYS.found(sorted(id for name, id in state._keys.items() if not _has(jobs.get(id), name))),
        *faults.KEYLESS.found(sorted(id for id in keyless if id not in state._keys.values())),
        *faults.COUNTS.found(sorted(counted)),
        *faults.TOPICS.found(sorted(entry.id for entry in jobs.values() if entry.new.topic not in state._paused)),
        *faults.NOTES.found(sorted({name for _, name in over})),
    ]


def _ends(state: MemoryState) -> list[tuple[int, str]]:
    """Return when notes are over, and their names, sorted."""
    return sorted((note.until, name) for name, note in state._notes.items() if note.until is not None)


def _mend(state: MemoryState) -> None:
    state._notes_over[:] = _ends(state)
    for entry in state._jobs.values():
        run = entry.run if entry.state is State.DELAYED else None
        behind = max(entry.claims, _claimed(entry), run.claim + 1 if run and run.claim != entry.claims else 0)
        entry.forgiven += behind - entry.claims
        entry.claims = behind
        entry.run = run and run._replace(claim=entry.claims)
    truth = _Truth(state)
    for kept, there in (
        (state._running, truth.running),
        (state._keys, truth.keys),
        (state._named, truth.named),
        (state._due, truth.due),
        (state._ended, truth.ended),
        (state._tally, truth.tally),
    ):
        kept.clear()
        kept.update(there)  # type: ignore[arg-type]
    for entry in state._jobs.values():
        if entry.name and _has(entry, entry.name) and state._keys.get(entry.name) != entry.id:
            entry.passed = True

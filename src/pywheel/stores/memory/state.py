"""What a store in memory holds, and the steps that its commands share."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from random import uniform
from typing import NamedTuple

from ..._errors import StoreClosed
from ...clock import Clock
from ...jobs import lifecycle
from ...jobs.commands import NONCES_KEPT, NOTES_FORGOTTEN, Ref
from ...jobs.job import Attempt, Due, Job, NewJob, Outcome, State
from ...jobs.lifecycle import Ending, Run
from ...jobs.limits import Gate, Limits, note_of
from ..deaths import KEPT, word
from .notifier import MemoryNotifier, Presence

__all__ = ["Entry", "Kept", "MemoryState", "turn"]

_CLOSED = "this store is closed: open another one"
_new = tuple.__new__  # of a named tuple: without the function that its own is
_LAST = 20  # jobs with a key that are looked at, as a reference by key does in every store


@dataclass(slots=True)
class Entry:
    """A job as it is kept."""

    id: int
    new: NewJob
    due: int
    created: int
    state: State = State.DELAYED  # never RUNNING: that is to have a run
    claims: int = 0
    forgiven: int = 0  # claims that do not count as attempts
    lost: int = lifecycle.NEVER_LOST
    passed: bool = False  # whether it gave its key to a successor
    ended: int = 0
    run: Run | None = None
    started: int = 0
    worker: str = ""
    error: str | None = None  # the last of its attempts' errors
    history: list[Attempt] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The length of the body."""
        return len(self.new.body)

    @property
    def name(self) -> tuple[str, str] | None:
        """Topic and key, None without a key."""
        return None if self.new.key is None else (self.new.topic, self.new.key)


class Kept(NamedTuple):
    """A note as it is kept."""

    value: bytes
    until: int | None  # when it is over

    def at(self, now: int) -> bytes | None:
        """Return the value, None once it is over."""
        return None if self.until is not None and now >= self.until else self.value


def turn(entry: Entry) -> tuple[int, int, int]:
    """Return what due jobs are ordered by."""
    return -entry.new.priority, entry.due, entry.id


class MemoryState:
    """Jobs in dicts, guarded by one lock."""

    draw: Callable[[], float]
    """Gives a number from -1 to 1, for jitter."""

    def __init__(self, url: str, clock: Clock) -> None:
        self.url = url
        self.clock = clock
        self.lock = threading.RLock()
        self.draw = lambda: uniform(-1, 1)
        self._closed = False
        self._last = 0
        self._jobs: dict[int, Entry] = {}
        self._keys: dict[tuple[str, str], int] = {}  # who has the key: a live job
        self._named: defaultdict[tuple[str, str], list[int]] = defaultdict(list)  # all with the key, by id
        self._due: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)  # delayed jobs, sorted
        self._ended: defaultdict[State, list[tuple[int, int]]] = defaultdict(list)  # finished jobs, sorted
        self._running: dict[int, Entry] = {}
        self._tally: defaultdict[str, dict[State, int]] = defaultdict(lambda: dict.fromkeys(State, 0))
        self._paused: dict[str, bool] = {}
        self._lanes: dict[str, set[int]] = {}  # the priorities that jobs of a topic ever had, but for 0
        self._nonces: dict[str, tuple[int, list[int]]] = {}  # of puts: when, and the ids of then; in order of arrival
        self._notes: dict[str, Kept] = {}
        self._notes_over: list[tuple[int, str]] = []  # those with an end, sorted
        self._presence = Presence(self.lock, clock)

    # ---- finding ----------------------------------------------------------------------------------------------------

    def _find(self, ref: Ref) -> Entry | None:
        if isinstance(ref, int):
            return self._jobs.get(ref)
        live = self._keys.get(ref)
        if live is not None and self._record(self._jobs[live]).state.live:
            return self._jobs[live]
        finished = [id for id in self._named.get(ref, ()) if not self._record(self._jobs[id]).state.live]
        return self._jobs[finished[-1]] if finished else None

    def _settled(self, ref: Ref) -> Entry | None:
        """Return a job, with a lease that is over taken as expired."""
        entry = self._find(ref)
        if entry is not None:
            self._settle_lost(entry, self.clock.wall())
        return entry

    def _delayed(self, ref: Ref, expect: tuple[int, int] | None) -> Entry | None:
        """Return a job if it is delayed, and as expected: by its due time and its claims."""
        entry = self._settled(ref)
        if entry is None or entry.state is not State.DELAYED or entry.run is not None:
            return None
        return entry if expect in (None, (entry.due, entry.claims)) else None

    def _held(self, id: int, claims: int, now: int) -> Entry | None:
        entry = self._running.get(id)
        held = entry and entry.run and entry.run.claim == claims and now < entry.run.lease
        return entry if held else None

    # ---- changing ---------------------------------------------------------------------------------------------------

    def _new_id(self) -> int:
        """Return the id of a new job: higher than all before it."""
        self._last += 1
        return self._last

    def _settle_lost(self, entry: Entry, now: int) -> bool:
        """End the job's claim if its lease is over; return whether it was."""
        run = entry.run
        if run is None or now < run.lease:
            return False
        self._end(entry, lifecycle.lost(run), Outcome.LOST, None, run.lease)
        if entry.state is State.DEAD:
            self._note(word(entry.id, entry.claims), Kept(entry.new.topic.encode(), now + KEPT))
            self._forget_notes(now, NOTES_FORGOTTEN)
            self._presence.changed(entry.id, entry.new.topic, run.lease)
        return True

    def _end(self, entry: Entry, ending: Ending, outcome: Outcome, error: str | None, ended: int) -> None:
        """End a claim: write it into the history, and make the job what it leaves behind."""
        run = entry.run
        assert run is not None
        attempt = (run.claim, run.attempt, entry.started, ended, outcome, entry.worker, error, None)
        entry.history.append(_new(Attempt, attempt))
        entry.error = entry.error if error is None else error
        entry.run = None
        del self._running[entry.id]
        entry.forgiven += not ending.spent
        entry.lost = ending.lost
        if ending.state is State.DELAYED:
            entry.due = entry.due if ending.due is None else ending.due
            self._enter(entry)
        else:
            self._finish(entry, ending.state, ended)

    def _finish(self, entry: Entry, state: State, ended: int) -> None:
        self._count(entry, state)
        entry.ended = ended
        insort(self._ended[state], (ended, entry.id))
        if entry.name is not None and self._keys.get(entry.name) == entry.id:
            del self._keys[entry.name]

    def _count(self, entry: Entry, state: State) -> None:
        """Give a job another state."""
        tally = self._tally[entry.new.topic]
        tally[entry.state] -= 1
        tally[state] += 1
        entry.state = state

    def _enter(self, entry: Entry) -> None:
        """Make a job claimable at its due time."""
        topic, place = entry.new.topic, (entry.due, entry.id)
        due = self._due[topic]
        if not due or place > due[-1]:  # as of most puts
            due.append(place)
        else:
            insort(due, place)
        self._presence.changed(entry.id, topic, entry.due)

    def _lately(self, name: tuple[str, str], since: int) -> Entry | None:
        """Return a job with a key that ended after `since`, among the last ones with it."""
        last = [self._jobs[id] for id in self._named.get(name, ())[-_LAST:]]
        return next(
            (one for one in reversed(last) if not one.state.live and one.run is None and one.ended > since), None
        )

    def _exit(self, entry: Entry) -> None:
        due = self._due[entry.new.topic]
        del due[bisect_right(due, (entry.due, entry.id)) - 1]

    def _move(self, entry: Entry, due: int) -> None:
        self._exit(entry)
        self._presence.changed(entry.id, entry.new.topic, min(entry.due, due))
        entry.due = due
        insort(self._due[entry.new.topic], (due, entry.id))

    def _unfinish(self, entry: Entry) -> None:
        """Take a finished job from the list of those."""
        ended = self._ended[entry.state]
        del ended[bisect_left(ended, (entry.ended, entry.id))]

    def _forget(self, entry: Entry) -> None:
        """Drop a job that is not running, and its history."""
        if entry.state is State.DELAYED:
            self._exit(entry)
        else:
            self._unfinish(entry)
        self._tally[entry.new.topic][entry.state] -= 1
        del self._jobs[entry.id]
        if entry.name is not None:
            if self._keys.get(entry.name) == entry.id:
                del self._keys[entry.name]
            self._named[entry.name].remove(entry.id)
            if not self._named[entry.name]:
                del self._named[entry.name]

    def _forget_nonces(self, now: int, limit: int) -> None:
        """Drop up to so many nonces, if they are old enough."""
        for nonce, (when, _) in list(islice(self._nonces.items(), limit)):
            if when <= now - NONCES_KEPT:
                del self._nonces[nonce]

    def _note(self, name: str, note: Kept | None) -> None:
        """Keep a note, or none, instead of the one there is."""
        before = self._notes.pop(name, None)
        if before is not None and before.until is not None:
            del self._notes_over[bisect_left(self._notes_over, (before.until, name))]
        if note is not None:
            self._notes[name] = note
            if note.until is not None:
                insort(self._notes_over, (note.until, name))

    # ---- order and limits -------------------------------------------------------------------------------------------

    def _in_order(self, topic: str, now: int, most: int) -> list[Entry]:
        """Return up to so many jobs that are due, in the order in which they are to be claimed."""
        due = self._due[topic]
        stop = bisect_right(due, (now, self._last))
        if topic not in self._lanes:
            return [self._jobs[id] for _, id in due[: min(most, stop)]]
        return sorted((self._jobs[id] for _, id in due[:stop]), key=turn)[:most]

    def _gate(self, topic: str, limits: Limits | None, now: int) -> Gate | None:
        """Return what the limits of a topic let through now; `_shut` is to follow."""
        if limits is None or topic not in self._paused:
            return None
        note = self._notes.get(note_of(topic))
        return Gate(limits, self._keys_running(topic, now), None if note is None else note.value, now)

    def _keys_running(self, topic: str, now: int) -> list[str | None]:
        runs = ((entry.new, entry.run) for entry in self._running.values())
        return [new.key for new, run in runs if new.topic == topic and run is not None and now < run.lease]

    def _shut(self, topic: str, gate: Gate) -> None:
        """Keep what a gate has let through."""
        if gate.changed:
            self._note(note_of(topic), Kept(gate.value, None))

    def _forget_notes(self, now: int, limit: int) -> None:
        """Drop up to so many notes that are over."""
        for until, name in self._notes_over[:limit]:
            if until <= now:
                self._note(name, None)

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._closed:
            raise StoreClosed(_CLOSED)

    def _record(self, entry: Entry) -> Job:
        """Return the record, with a lease that is over taken as expired."""
        new, run = entry.new, entry.run
        state, due, lost = entry.state, entry.due, entry.lost
        attempt = lifecycle.attempts(entry.claims, entry.forgiven)
        lease = None
        if run and self.clock.wall() < run.lease:
            state, lease = State.RUNNING, run.lease
        elif run:
            ending = lifecycle.lost(run)
            state, lost = ending.state, ending.lost
            due = due if ending.due is None else ending.due
            attempt -= not ending.spent
        topic, body, _, key, ttr, most, headers, _, _, _, _, priority = new
        first = (entry.id, topic, body, due, entry.created, state, key, ttr, most, dict(headers or ()))
        return _new(Job, (*first, entry.claims, attempt, lease, entry.error, lost, priority))

    def _add_notifier(self, name: str) -> MemoryNotifier:
        return MemoryNotifier(self._presence, name, self._due_now)

    def _due_now(self, id: int) -> Due | None:
        """Return what a hint says of a job that is delayed."""
        entry = self._jobs.get(id)
        if entry is None or entry.run is not None or entry.state is not State.DELAYED:
            return None
        return Due(entry.due, id, entry.new.topic, entry.new.priority)

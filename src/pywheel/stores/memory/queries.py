"""Reading a store in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice, pairwise

from ...jobs.checks import an_id
from ...jobs.commands import Ref
from ...jobs.job import Attempt, Counts, Due, Job, Outcome, State, Topic, shard_of
from .. import pages, readings
from ..checks import a_prefix, clamped, note_name
from ..filters import Filter, Span
from ..pages import Asked, Page
from ..readings import Ended
from .state import Entry, MemoryState

__all__ = ["MemoryQueries"]


class MemoryQueries(MemoryState):
    """The reading half of the contract."""

    def get(self, ref: Ref) -> Job | None:
        """Return a job, or None."""
        with self.lock:
            self._open()
            entry = self._find(ref)
            return self._record(entry) if entry else None

    def jobs(self, filter: Filter, after: int, limit: int) -> list[Job]:
        """Return jobs by id. O(jobs)."""
        with self.lock:
            self._open()
            return list(islice((job for job in self._after(filter, after) if filter.fits(job)), max(clamped(limit), 0)))

    def _after(self, filter: Filter, after: int) -> Iterator[Job]:
        """Yield the jobs behind an id that may be meant."""
        ids = (
            self._jobs
            if filter.topic is None or filter.key is None
            else self._named.get((filter.topic, filter.key), ())
        )
        return self._records(filter.state, (id for id in ids if id > after))

    def _records(self, state: State | None, ids: Iterable[int]) -> Iterator[Job]:
        """Yield the records of jobs that may be in a state: with a claim in any, as its lease may be over."""
        entries = map(self._jobs.__getitem__, ids)
        return (self._record(entry) for entry in entries if entry.run or state in (None, entry.state))

    def page(
        self, filter: Filter, after: str = "", limit: int = 100, *, preview: int | None = None, newest: bool = False
    ) -> Page:
        """Return a page of a list. O(jobs)."""
        wanted = pages.asked(filter, after, limit, preview, newest=newest)
        with self.lock:
            self._open()
            jobs = self._records(filter.state, self._listed(wanted))
            return pages.of_whole(list(islice((job for job in jobs if filter.fits(job)), wanted.limit + 1)), wanted)

    def _listed(self, wanted: Asked) -> Iterator[int]:
        """Yield the ids of the jobs behind a place that may be meant."""
        filter, place = wanted.filter, wanted.after
        if wanted.by_due:
            lists = [self._due.get(filter.topic, [])] if filter.topic is not None else list(self._due.values())
            if wanted.newest:
                parts = [reversed(due[: bisect_left(due, place)]) for due in lists]
            else:
                parts = [iter(due[bisect_right(due, place) :]) for due in lists]
            return (id for _, id in merge(*parts, reverse=wanted.newest))
        ids: Collection[int] = self._jobs
        if filter.topic is not None and filter.key is not None:
            ids = self._named.get((filter.topic, filter.key), ())
        if wanted.newest:
            return (id for id in reversed(list(ids)) if id < place.id)
        return (id for id in ids if id > place.id)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of each topic. O(topics + running jobs)."""
        with self.lock:
            self._open()
            tally = {name: dict(self._tally[name]) for name in sorted(self._paused)}
            for entry in self._running.values():
                states = tally[entry.new.topic]
                states[State.DELAYED] -= 1
                states[self._record(entry).state] += 1
            return {name: Counts(*states.values()) for name, states in tally.items()}

    def topics(self) -> list[Topic]:
        """Return all topics, by name."""
        with self.lock:
            self._open()
            return [
                Topic(name, paused, tuple(sorted(self._lanes.get(name, ()), reverse=True)))
                for name, paused in sorted(self._paused.items())
            ]

    def history(self, id: int) -> list[Attempt]:
        """Return what was tried with a job."""
        with self.lock:
            self._open()
            entry = self._jobs.get(an_id(id))
            if entry is None or entry.run is None:
                return list(entry.history) if entry else []
            run = entry.run
            over = self.clock.wall() >= run.lease
            ended, outcome = (run.lease, Outcome.LOST) if over else (None, None)
            return [
                *entry.history,
                Attempt(run.claim, run.attempt, entry.started, ended, outcome, entry.worker, None),
            ]

    def forecast(self, edges: Sequence[int], topic: str | None = None, most: int = 10_000) -> list[int]:
        """Return how many jobs are due between edges. O(topics x edges)."""
        edges = readings.edges_of(edges, most)
        with self.lock:
            self._open()
            lists = self._due.values() if topic is None else [self._due.get(topic, [])]
            places = [sum(bisect_left(due, (edge, 0)) for due in lists) for edge in edges]
            return [min(end - begin, most) for begin, end in pairwise(places)]

    def recent(self, topic: str | None, since: int, limit: int) -> list[Ended]:
        """Return the jobs that ended last. O(those that ended since)."""
        most = readings.most_of(limit)
        with self.lock:
            self._open()
            lists = [ended[bisect_left(ended, (since, 0)) :] for ended in self._ended.values()]
            entries = (self._jobs[id] for _, id in merge(*map(reversed, lists), reverse=True))
            return [
                _ended(entry)
                for entry in islice((e for e in entries if e.history and topic in (None, e.new.topic)), most)
            ]

    def note(self, name: str) -> bytes | None:
        """Return what is kept under a name, or None. O(1)."""
        note_name(name)
        with self.lock:
            self._open()
            kept = self._notes.get(name)
            return None if kept is None else kept.at(self.clock.wall())

    def notes(self, prefix: str, after: str = "", limit: int = 1_000) -> list[tuple[str, bytes]]:
        """Return notes, by name. O(notes)."""
        a_prefix(prefix), a_prefix(after)
        with self.lock:
            self._open()
            now = self.clock.wall()
            names = sorted(name for name in self._notes if name.startswith(prefix) and name > after)
            there = ((name, value) for name in names if (value := self._notes[name].at(now)) is not None)
            return list(islice(there, max(clamped(limit), 0)))

    def windows(self, spans: Sequence[Span], limit: int) -> list[Due]:
        """Return delayed jobs, span by span, by (due, id)."""
        with self.lock:
            self._open()
            limit = clamped(limit)
            found: list[Due] = []
            for topic, shards, after, until, priority in spans:
                if len(found) >= limit:
                    break
                if not self._paused.get(topic):
                    due = self._due.get(topic, [])
                    part = due[bisect_right(due, after) : bisect_right(due, (until, self._last))]
                    mine = (Due(when, id, topic, priority) for when, id in part if shards >> shard_of(id) & 1)
                    if priority or topic in self._lanes:
                        mine = (due for due in mine if self._jobs[due.id].new.priority == priority)
                    found += islice(mine, limit - len(found))
            return found

    def first_dues(self, spans: Sequence[Span]) -> list[int | None]:
        """Return the earliest due time beyond each span."""
        with self.lock:
            self._open()
            return [min(self._dues(*span), default=None) for span in spans]

    def _dues(self, topic: str, shards: int, _: tuple[int, int], until: int, __: int) -> list[int]:
        """Return due times above `until`: the earliest of the delayed jobs, and all of those whose lease is over."""
        due = self._due.get(topic, [])
        beyond = islice(due, bisect_right(due, (until, self._last)), None)
        found = list(islice((when for when, id in beyond if shards >> shard_of(id) & 1), 1))
        records = (self._record(entry) for entry in self._running.values() if entry.new.topic == topic)
        over = (job for job in records if job.state is State.DELAYED and shards >> shard_of(job.id) & 1)
        return found + [job.due for job in over if job.due > until]

    def next_lease(self) -> int | None:
        """Return when the earliest lease is over."""
        with self.lock:
            self._open()
            return min((entry.run.lease for entry in self._running.values() if entry.run), default=None)


def _ended(entry: Entry) -> Ended:
    """Return how a finished job ended."""
    new, last = entry.new, entry.history[-1]
    error = last.error if last.outcome is Outcome.FAILED else None
    where = (entry.id, new.topic, new.key, entry.state, entry.due)
    return Ended(*where, last.started, entry.ended, last.attempt, last.worker, error)

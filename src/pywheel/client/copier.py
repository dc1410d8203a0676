"""Carrying live jobs from one store to another while the first one works, and then going over to the second.

The copies wait there, their topics paused. Each names the job it was made from in a header: whatever ended a copy in
the middle, the next one finds by them what is there. A job in the target with a topic and key of its own notes how far
it has come:

- *carrying*: jobs run in the source. What is carried may be carried once more, changed, or deleted again.
- *switched*: the source is paused, and nothing runs there. Page by page its jobs get their last copies, and are
  cancelled. A copy whose job has ended was deleted before; one whose job is cancelled by now is the job.
- *done*: the target's topics were resumed. What is put to the source all the same is handed over, job by job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from hashlib import blake2b
from secrets import token_hex
from typing import Any, Final

from .._errors import BadJob, JobExists, StoreBusy, StoreError
from ..jobs.checks import MOST
from ..jobs.commands import Cancel, Command, Delete, Expire, Pause, Put, Reschedule
from ..jobs.job import Job, NewJob, State
from ..stores.contract import Filter, Store
from .copy_note import HEADER, NEVER, TOPIC, Carried, Copied, Note, Switched, digest

__all__ = ["Copier"]

_PAGE: Final = 500  # jobs read, and written, at once
_LOOK: Final = 0.2  # seconds between looks whether something still runs
_EXPIRED: Final = 1_000

_Steps = Sequence[tuple[Job, list[Command[Any]]]]
"""Jobs, and what makes their copies."""
Shown = Callable[[str, int], object]
"""Is told what is going on, and how many jobs it is done with."""


class Copier:
    """Copies the live jobs of a store. One at a time for a pair of stores."""

    def __init__(self, source: Store, target: Store, shown: Shown = lambda _what, _done: None) -> None:
        if source.url == target.url:
            raise BadJob(f"{source.url} cannot be copied to itself: give another store")
        self._source, self._target, self._shown = source, target, shown
        self._identity = blake2b(source.url.encode(), digest_size=8).hexdigest()
        self._run = token_hex(8)
        self._floor = 0  # ids up to this may have been given out before this run
        self._deleted: set[int] = set()  # copies, in this run

    # ---- how far it is ----------------------------------------------------------------------------------------------

    def state(self) -> str:
        """Return ``carrying``, ``switched`` or ``done``; ``new`` if nothing was copied yet."""
        note = self._noted()
        return "new" if note is None else note.state

    def _noted(self) -> Note | None:
        job = self._target.get((TOPIC, self._identity))
        return Note(**job.json()) if job is not None and job.state.live else None

    def _write(self, note: Note) -> None:
        job = NewJob(TOPIC, json.dumps(asdict(note)).encode(), NEVER, self._identity, replace=True)
        self._do(self._target, [Put((job,))])

    def _begun(self) -> Note:
        """Return how far it is; begin if it has not. BadJob if the target has live jobs of others.

        It begins anew if the source works again since it was switched: no topic is paused any more.
        """
        note = self._noted()
        if note is None or (note.state == "done" and not self._paused_topics(note)):
            live = [
                name
                for name, counts in self._target.counts().items()
                if name != TOPIC and counts.delayed + counts.running
            ]
            if live:
                raise BadJob(
                    f"{self._target.url} has live jobs, of {live[0][:80]!r}: copy to a store that has none, "
                    "such as one with another schema or prefix"
                )
            note = Note(self._source.url)
            self._write(note)
        [[self._floor]] = self._do(self._target, [Put((NewJob(TOPIC, b"", NEVER),))])
        self._do(self._target, [Delete(self._floor)])
        if not self._target.ids_grow:
            self._floor = MOST
        return note

    def _running_topics(self) -> list[str]:
        """Return the topics of the source that are not paused."""
        return [topic.name for topic in self._source.topics() if not topic.paused and topic.name != TOPIC]

    def _paused_topics(self, note: Note) -> list[str]:
        """Return the topics of the source that a copy has paused."""
        return [topic.name for topic in self._source.topics() if topic.paused and topic.name not in (note.paused or ())]

    # ---- carrying ---------------------------------------------------------------------------------------------------

    def carry(self) -> Carried:
        """Carry what waits in the source, beside its producers and workers; bring up to date what is there already.

        Each time it costs O(jobs of both stores), and some 200 bytes of memory for each. Raises StoreError, and BadJob
        if the target has live jobs that are no copies.
        """
        note = self._begun()
        if note.state != "carrying":
            raise BadJob(f"{self._source.url} was switched to {self._target.url}: give --switch to go on")
        self._pause_target()
        return self._carry(note, self._copies())

    def _carry(self, note: Note, copies: dict[int, Copied]) -> Carried:
        new = changed = waiting = done = 0
        for page in self._pages(self._source):
            steps: _Steps = [(job, self._commands(note, job, copies.get(job.id))) for job in page]
            for (job, _), outcome in zip(steps, self._put(note, steps), strict=True):
                if isinstance(outcome, JobExists):
                    waiting += 1
                    copies.pop(job.id, None)
                elif outcome is not None:
                    new, changed = (new, changed + 1) if job.id in copies else (new + 1, changed)
                    copies[job.id] = Copied(outcome, job.due, digest(job))
            done += len(page)
            self._shown("carrying", done)
        waiting += sum(counts.running for counts in self._source.counts().values())
        return Carried(new, changed, waiting, len(copies))

    def _commands(self, note: Note, job: Job, copy: Copied | None, *, keyed: bool = True) -> list[Command[Any]]:
        """Return what makes a copy like its job; the id of the copy is in the last outcome, or is as it was."""
        version = digest(job)
        if copy is not None and copy.digest == version:
            return [] if copy.due == job.due else [Reschedule(copy.id, job.due)]
        # A nonce is that of one copy of one version of a job: sent twice it happens once, made anew it happens again.
        before = 0 if copy is None else copy.id
        self._deleted.add(before)
        nonce = f"copy:{note.token}:{job.id}:{job.claims}:{before}:{version.hex()}{'' if keyed else ':keyless'}"
        new = NewJob(
            job.topic,
            job.body,
            job.due,
            job.key if keyed else None,
            job.ttr,
            job.max_attempts,
            {**job.headers, HEADER: f"{self._identity} {job.id}"},
        )
        return [*([] if copy is None else [Delete(copy.id)]), Put((new,), nonce)]

    def _put(self, note: Note, steps: _Steps) -> list[int | JobExists | None]:
        """Apply the steps of some jobs; return what `_apply` does.

        A nonce may be known of a copy that somebody has deleted since: then the job is put once more.
        """
        outcomes = self._apply(steps)
        for place, ((job, commands), id) in enumerate(zip(steps, outcomes, strict=True)):
            put = commands[-1] if commands else None
            if type(id) is not int or not isinstance(put, Put) or note.state == "done":
                continue  # once it is done, copies end and are forgotten
            if (id <= self._floor or id in self._deleted) and not self._waits(id, put):
                [outcomes[place]] = self._apply([(job, [Put(put.jobs, f"{put.nonce}:{self._run}")])])
        return outcomes

    def _waits(self, id: int, put: Put) -> bool:
        found = self._target.get(id)
        return found is not None and found.state is State.DELAYED and found.headers == put.jobs[0].headers

    def _apply(self, steps: _Steps) -> list[int | JobExists | None]:
        """Apply the steps of some jobs in one transaction; return the id of each new copy, None where nothing was put.

        A copy that was rescheduled counts as new under its own id.
        """
        outcomes = iter(self._do(self._target, [command for _, commands in steps for command in commands]))
        found: list[int | JobExists | None] = []
        for _, commands in steps:
            last: int | JobExists | None = None
            for command in commands:
                outcome = next(outcomes)
                if isinstance(command, Put):
                    last = outcome if isinstance(outcome, JobExists) else outcome[0]
                elif isinstance(command, Reschedule) and type(command.ref) is int:
                    last = command.ref
            found.append(last)
        return found

    def _copies(self) -> dict[int, Copied]:
        """Return the copies that wait in the target, by the ids of their jobs."""
        found: dict[int, Copied] = {}
        done = 0
        for page in self._pages(self._target):
            for job in page:
                identity, _, id = job.headers.get(HEADER, "").partition(" ")
                if identity == self._identity and id.isdigit():
                    found[int(id)] = Copied(job.id, job.due, digest(job))
            done += len(page)
            self._shown("looking at what is there", done)
        return found

    def _pages(self, store: Store) -> Iterator[list[Job]]:
        """Yield the delayed jobs of a store by id."""
        after = 0
        while page := store.jobs(Filter(state=State.DELAYED), after, _PAGE):
            after = page[-1].id
            yield [job for job in page if job.topic != TOPIC]

    def _pause_target(self) -> None:
        self._do(
            self._target, [Pause(topic.name, paused=True) for topic in self._source.topics() if topic.name != TOPIC]
        )

    # ---- going over -------------------------------------------------------------------------------------------------

    def switch(self, seconds: float) -> Switched:
        """Carry; then pause the source, wait until nothing runs there, carry the rest, and resume the target instead.

        Until copies are handed over any error, or StoreBusy when something has run for so long, resumes the source.
        From then on the next call does what is left to do. The source's topics stay paused, its jobs are cancelled.
        """
        note = self._begun()
        jobs, began = 0, time.monotonic()
        if note.state == "carrying":
            self._pause_target()
            copies = self._copies()
            self._carry(note, copies)
            began = time.monotonic()
            try:
                self._stop_source(note, seconds)
                self._drop_gone(copies)
            except BaseException:
                self._resume_source(note)
                raise
            note.state = "switched"
            self._write(note)  # if nobody knows whether that happened, the source stays as it is
            jobs, _ = self._hand_over(note, copies)
            self._delete([copy.id for copy in copies.values()])  # cancelled in the source a moment ago
        elif note.state == "switched":
            self._stop_source(note, seconds)
            jobs, _ = self._hand_over(note, self._copies())
        if note.state == "switched":
            self._resume_target(note)
        pause = time.monotonic() - began
        self._pause_source()
        late, refused = self._hand_over(note, {})
        return Switched(jobs, pause, late, refused)

    def _stop_source(self, note: Note, seconds: float) -> None:
        """Pause all topics, and wait until nothing runs. StoreBusy if something still does after so long."""
        until = time.monotonic() + seconds
        if note.paused is None:  # else it was paused by a copy that was killed
            note.paused = [topic.name for topic in self._source.topics() if topic.paused]
            self._write(note)
        while True:
            for name in self._pause_source():
                self._source.quiet(name, max(until - time.monotonic(), 0))
            self._do(self._source, [Expire(_EXPIRED)])
            running = {name: counts.running for name, counts in self._source.counts().items() if counts.running}
            if not running and not self._running_topics():
                return
            left = until - time.monotonic()
            what = ", ".join(f"{jobs} of {name[:40]!r}" for name, jobs in running.items()) or "topics made just now"
            if left <= 0:
                raise StoreBusy(
                    f"{self._source.url} still runs {what} after {seconds:g} s: wait for longer, or try again"
                )
            self._shown(f"waiting up to {seconds:g} s for what runs, {what}", 0)
            time.sleep(min(_LOOK, left))

    def _pause_source(self) -> list[str]:
        """Pause what works in the source; return these topics."""
        topics = self._running_topics()
        self._do(self._source, [Pause(name, paused=True) for name in topics])
        return topics

    def _resume_source(self, note: Note) -> None:
        if note.paused is None:
            return
        try:
            self._do(self._source, [Pause(name, paused=False) for name in self._paused_topics(note)])
            note.paused = None
            self._write(note)
        except StoreError as error:
            url = self._source.url
            raise StoreError(
                f"{error}; topics of {url} may stay paused: begin again, or resume them by hand"
            ) from error

    def _resume_target(self, note: Note) -> None:
        names = [topic.name for topic in self._source.topics() if topic.name not in (*(note.paused or ()), TOPIC)]
        self._do(self._target, [Pause(name, paused=False) for name in names])
        note.state = "done"
        self._write(note)

    def _drop_gone(self, copies: dict[int, Copied]) -> None:
        """Delete the copies of jobs that have ended in the source since they were carried."""
        there: set[int] = set()
        for page in self._pages(self._source):
            there.update(job.id for job in page)
            self._shown("looking for what has ended since", len(there))
        gone = [id for id in copies if id not in there]
        self._delete([copies.pop(id).id for id in gone])

    def _delete(self, ids: Sequence[int]) -> None:
        for first in range(0, len(ids), _PAGE):
            self._do(self._target, [Delete(id) for id in ids[first : first + _PAGE]])

    def _hand_over(self, note: Note, copies: dict[int, Copied]) -> tuple[int, int]:
        """Bring copies up to date, page by page, and cancel their jobs in the source; forget these copies.

        Return how many were handed over, and how many were refused for their key.
        """
        handed = refused = 0
        for page in self._pages(self._source):
            steps: _Steps = [(job, self._commands(note, job, copies.get(job.id))) for job in page]
            mine: dict[int, int] = {}  # the copies of jobs
            for (job, _), outcome in zip(steps, self._put(note, steps), strict=True):
                copy = copies.pop(job.id, None)
                if isinstance(outcome, JobExists):
                    id = self._put_beside(note, job, outcome.id)
                    refused += id is None
                else:
                    id = outcome if outcome is not None else copy and copy.id
                if id is not None:
                    mine[job.id] = id
            taken = self._do(self._source, [Cancel(id) for id in mine])
            self._delete([copy for copy, done in zip(mine.values(), taken, strict=True) if not done])
            handed += sum(taken)
            self._shown("handing over", handed)
        return handed, refused

    def _put_beside(self, note: Note, job: Job, holder: int) -> int | None:
        """Put a job whose key is taken in the target: it, or its holder, has handed the key on in the source.

        Return the id of the copy, None if another job has the key.
        """
        assert job.key is not None
        owner, other = self._source.get((job.topic, job.key)), self._target.get(holder)
        plain = self._commands(note, job, None, keyed=False)
        if owner is not None and owner.id != job.id and owner.state.live:
            return self._apply([(job, plain)])[0]  # type: ignore[return-value]  # without a key nothing is taken
        if note.state != "switched" or other is None or not other.headers.get(HEADER, "").startswith(self._identity):
            return None
        without = NewJob(other.topic, other.body, other.due, None, other.ttr, other.max_attempts, other.headers)
        nonce = f"copy:{note.token}:{other.id}:keyless"
        put: list[Command[Any]] = [Delete(other.id), Put((without,), nonce), *self._commands(note, job, None)]
        [outcome] = self._apply([(job, put)])
        return None if isinstance(outcome, JobExists) else outcome

    # ---- the rest ---------------------------------------------------------------------------------------------------

    @staticmethod
    def _do(store: Store, commands: Sequence[Command[Any]]) -> list[Any]:
        """Return the outcomes; raise what is wrong with one, but for a key that is taken."""
        outcomes = store.apply(commands) if commands else []
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, JobExists):
                raise outcome
        return outcomes

"""Copying jobs from one store to another while the source is in use, and then switching to the target.

Copies of waiting jobs wait in the target, with their topics paused. Finished jobs are copied with their history. Each
copy names its original in a header, by which the next run finds the copies of a run that was interrupted. A job in the
target, with a topic and key of its own, records the state of the copy:

- *carrying*: jobs run in the source. A copy may still be replaced, changed or deleted.
- *switched*: the source is paused, and nothing runs there. Its jobs get their last copies, page by page, and are
  cancelled: from then on the copy is the job. Before each page the source records how far that has come.
- *done*: the target's topics were resumed. Jobs that are still put to the source are handed over one by one.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from secrets import token_hex
from typing import Final, NamedTuple

from .._errors import BadOption, JobExists, StoreBusy, StoreError
from ..jobs.checks import MOST
from ..jobs.commands import Cancel, Delete, Expire, Pause, Put, SetNote
from ..jobs.job import Job, NewJob, State, Topic
from ..jobs.lifecycle import ENDINGS
from ..jobs.limits import OVERRIDES
from ..jobs.queries import CountJobs, GetJob, ListTopics
from ..stores.contract import Store, notes
from .copy_steps import PAGE, TOPIC, Copied, Steps, do, identity_of, pages, version

_LOOK: Final = 0.2  # seconds between checks whether something still runs
_EXPIRED: Final = 1_000
_NEVER: Final = 253_370_764_800_000  # the year 9999
_NOTES: Final = ("token:", "outlet:", "schedule:", "schedules:", OVERRIDES)
"""The prefixes of the notes that are copied. Other notes expire along with their subjects."""

Shown = Callable[[str, int], object]
"""Called with the current step, and how many jobs it has finished."""


class CopyProgress(NamedTuple):
    """The result of a carry."""

    new: int  # live jobs
    changed: int  # copied before, and different now
    waiting: int  # not copied yet: they run, or their key is about to change hands
    total: int  # copies of live jobs in the target
    finished: int  # finished jobs, with their history


class Switched(NamedTuple):
    """The result of a switch."""

    jobs: int  # all live jobs that were handed over
    seconds: float  # for how long no job could start in either store
    late: int  # jobs that were put to the source later, and handed over
    refused: int  # late jobs that stay in the source, because a live job of the target has their key
    finished: int  # finished jobs that this call has copied


@dataclass(slots=True)
class Note:
    """The recorded state of a copy."""

    source: str
    state: str = "carrying"
    token: str = field(default_factory=lambda: token_hex(8))  # of this copy
    paused: list[str] | None = None  # topics that were paused in the source before the copy paused all
    whole: bool = False  # whether all jobs that had finished before the pause were copied


class Copier:
    """Copies the jobs of a store. Only one copy at a time may run for a pair of stores."""

    def __init__(self, source: Store, target: Store, shown: Shown = lambda _what, _done: None) -> None:
        if source.url == target.url:
            raise BadOption(f"{source.url} cannot be copied to itself: give another store")
        self._source, self._target, self._shown = source, target, shown

    # ---- how far it is ----------------------------------------------------------------------------------------------

    def state(self) -> str:
        """Return ``carrying``, ``switched`` or ``done``; ``new`` if nothing was copied yet."""
        note = self._noted()
        return "new" if note is None else note.state

    def _noted(self) -> Note | None:
        job = self._target.ask(GetJob((TOPIC, identity_of(self._source))))
        return Note(**job.json()) if job is not None and job.state.live else None

    def _write(self, note: Note) -> None:
        job = NewJob(TOPIC, json.dumps(asdict(note)).encode(), _NEVER, identity_of(self._source), replace=True)
        do(self._target, [Put((job,))])

    def _begun(self) -> Note:
        """Return the recorded state; begin if there is none. BadOption if the target has live jobs of its own.

        The copy begins anew if the source was put to use again after a switch: none of its topics is paused.
        """
        note = self._noted()
        if note is None or (note.state == "done" and not self._paused_topics(note)):
            counts = self._target.ask(CountJobs())
            live = [name for name, of in counts.items() if name != TOPIC and of.delayed + of.running]
            if live:
                raise BadOption(
                    f"{self._target.url} has live jobs, of {live[0][:80]!r}: copy to a store that has none, "
                    "such as one with another schema or prefix"
                )
            note = Note(self._source.url)
            self._write(note)
        return note

    def _steps(self, note: Note, *, with_copies: bool = True) -> Steps:
        """Return the steps of this run, which know the copies in the target."""
        [[floor]] = do(self._target, [Put((NewJob(TOPIC, b"", _NEVER),))])
        do(self._target, [Delete(floor)])
        if not self._target.ids_grow:
            floor = MOST
        steps = Steps(self._source, self._target, note.token, floor)
        done = 0
        for page in pages(self._target) if with_copies else ():
            for job in page:
                id = steps.origin(job)
                if id is not None:
                    kind = steps.live if job.state.live else steps.finished
                    kind[id] = Copied(job.id, job.due, version(job))
            done += len(page)
            self._shown("looking at what is there", done)
        return steps

    def _topics(self) -> list[Topic]:
        """Return the topics of the source."""
        return [topic for topic in self._source.ask(ListTopics()) if topic.name != TOPIC]

    def _running_topics(self) -> list[str]:
        """Return the topics of the source that are not paused."""
        return [topic.name for topic in self._topics() if not topic.paused]

    def _paused_topics(self, note: Note) -> list[str]:
        """Return the topics of the source that the copy has paused."""
        return [topic.name for topic in self._topics() if topic.paused and topic.name not in (note.paused or ())]

    # ---- carrying ---------------------------------------------------------------------------------------------------

    def carry(self) -> CopyProgress:
        """Copy the source while its producers and workers go on; bring existing copies up to date.

        Copies of finished jobs that were deleted in the source stay: jobs that ended in the target look the same.
        It ends after as many jobs as there were at its beginning, so that producers cannot keep it. Each call costs
        O(jobs of both stores), and some 200 bytes of memory for each job. Raises StoreError, and BadOption if the
        target has live jobs that are not copies.
        """
        note = self._begun()
        if note.state != "carrying":
            raise BadOption(f"{self._source.url} was switched to {self._target.url}: give --switch to go on")
        self._pause_target()
        return self._carry(self._steps(note))

    def _carry(self, steps: Steps) -> CopyProgress:
        unseen, last = set(steps.live), MOST
        new = changed = waiting = finished = done = 0
        there = sum(sum(counts) for name, counts in self._source.ask(CountJobs()).items() if name != TOPIC)
        for page in pages(self._source):
            unseen.difference_update(job.id for job in page)
            finished += steps.keep([job for job in page if not job.state.live])
            delayed = [job for job in page if job.state is State.DELAYED]
            waiting += sum(job.state is State.RUNNING for job in page)
            before = {job.id: steps.live.get(job.id) for job in delayed}
            for job, id in zip(delayed, self._bring(steps, delayed), strict=True):
                waiting += isinstance(id, JobExists)
                new += type(id) is int and before[job.id] is None
                changed += type(id) is int and before[job.id] is not None
            done += len(page)
            self._shown("carrying", done)
            if done >= there and page:  # producers may be faster than the copy: the rest is for the next call
                last = page[-1].id
                break
        self._delete([steps.live.pop(id).id for id in unseen if id <= last and id in steps.live])
        self._carry_notes()
        return CopyProgress(new, changed, waiting, len(steps.live), finished)

    def _carry_notes(self) -> None:
        """Make the target's service notes equal to the source's. A note that was deleted in the source is deleted."""
        for prefix in _NOTES:
            given, there = dict(notes(self._source, prefix)), dict(notes(self._target, prefix))
            steps = [SetNote(name, value) for name, value in given.items() if there.get(name) != value]
            steps += [SetNote(name, None) for name in there.keys() - given.keys()]
            for first in range(0, len(steps), PAGE):
                do(self._target, steps[first : first + PAGE])

    def _bring(self, steps: Steps, jobs: Sequence[Job], moved: int = 0) -> list[int | JobExists | None]:
        """Make copies of delayed jobs. A copy whose job no longer waits gives way to a job with its key."""
        found = steps.bring(jobs)
        for place, outcome in enumerate(found):
            if isinstance(outcome, JobExists) and self._gives_way(steps, outcome.id, moved):
                [found[place]] = steps.bring([jobs[place]])
        return found

    def _gives_way(self, steps: Steps, holder: int, moved: int) -> bool:
        """Delete the copy that holds a key, if its job no longer waits; return whether it was deleted."""
        copy = self._target.ask(GetJob(holder))
        id = None if copy is None else steps.origin(copy)
        if id is None or id <= moved or id not in steps.live:
            return False
        job = self._source.ask(GetJob(id))
        if job is not None and job.state is State.DELAYED:
            return False
        self._delete([steps.live.pop(id).id])
        return True

    def _delete(self, ids: Sequence[int]) -> None:
        for first in range(0, len(ids), PAGE):
            do(self._target, [Delete(id) for id in ids[first : first + PAGE]])

    def _pause_target(self) -> None:
        do(self._target, [Pause(topic.name, paused=True) for topic in self._topics()])

    # ---- going over -------------------------------------------------------------------------------------------------

    def switch(self, seconds: float) -> Switched:
        """Carry; then pause the source, wait until nothing runs there, carry the rest, and resume the target instead.

        Before copies are handed over, any error resumes the source, as does StoreBusy if a job still runs after
        `seconds`. After that the next call continues the work. The source's topics stay paused, and its jobs are
        cancelled. Jobs that finished there in the meantime are copied after the pause.
        """
        note = self._begun()
        steps = self._steps(note, with_copies=not note.whole)
        jobs, finished, began = 0, 0, time.monotonic()
        if note.state == "carrying":
            self._pause_target()
            finished = self._carry(steps).finished
            began = time.monotonic()
            try:
                self._stop_source(note, seconds)
            except BaseException:
                self._resume_source(note)
                raise
            note.state = "switched"
            self._write(note)  # if the outcome is uncertain, the source stays as it is
        elif note.state == "switched":
            self._stop_source(note, seconds)
        if note.state == "switched":
            jobs, _ = self._hand_over(steps, note)
            self._carry_notes()
            self._resume_target(note)
        pause = time.monotonic() - began
        finished += self._keep_rest(note, steps)
        self._pause_source()
        steps.over()
        late, refused = self._hand_over(steps)
        return Switched(jobs, pause, late, refused, finished)

    def _stop_source(self, note: Note, seconds: float) -> None:
        """Pause all topics, and wait until nothing runs. StoreBusy if something still runs after `seconds`."""
        until = time.monotonic() + seconds
        if note.paused is None:  # otherwise an interrupted run has paused it
            note.paused = [topic.name for topic in self._topics() if topic.paused]
            self._write(note)
        while True:
            for name in self._pause_source():
                self._source.quiet(name, max(until - time.monotonic(), 0))
            do(self._source, [Expire(_EXPIRED)])
            running = {name: counts.running for name, counts in self._source.ask(CountJobs()).items() if counts.running}
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
        """Pause the running topics of the source; return them."""
        topics = self._running_topics()
        do(self._source, [Pause(name, paused=True) for name in topics])
        return topics

    def _resume_source(self, note: Note) -> None:
        if note.paused is None:
            return
        try:
            do(self._source, [Pause(name, paused=False) for name in self._paused_topics(note)])
            note.paused = None
            self._write(note)
        except StoreError as error:
            url = self._source.url
            raise StoreError(
                f"{error}; topics of {url} may stay paused: begin again, or resume them by hand"
            ) from error

    def _resume_target(self, note: Note) -> None:
        names = [topic.name for topic in self._topics() if topic.name not in (note.paused or ())]
        do(self._target, [Pause(name, paused=False) for name in names])
        note.state = "done"
        self._write(note)

    def _hand_over(self, steps: Steps, note: Note | None = None) -> tuple[int, int]:
        """Bring copies up to date, page by page, and cancel their jobs in the source.

        Copies whose jobs have ended are deleted first. Then the source records the highest id of the page: a job up to
        that id that is cancelled has moved. Without a note the copies are jobs already, and stay. It ends as `carry`
        does, once no copy is left that was there before: each later call would take it for another job. Return how many
        jobs were handed over, and how many were refused because of their key.
        """
        handed = refused = done = 0
        most = sum(of.delayed for name, of in self._source.ask(CountJobs()).items() if name != TOPIC)
        job = None if note is None else self._source.ask(GetJob((TOPIC, note.token)))
        moved = int(job.body) if job is not None and job.state.live else 0  # the jobs up to this id were handed over
        left = deque(sorted(id for id in steps.live if id > moved))
        for page in pages(self._source, State.DELAYED):
            there = {one.id for one in page}
            ended = [id for id in _up_to(left, max(there, default=0)) if id not in there]
            self._delete([steps.live.pop(id).id for id in ended])
            mine: dict[int, int] = {}  # the ids of the copies, by job
            for one, outcome in zip(page, self._bring(steps, page, moved), strict=True):
                if isinstance(outcome, JobExists):
                    refused += 1
                else:
                    steps.finished[one.id] = steps.live.pop(one.id)
                    mine[one.id] = steps.finished[one.id].id
            self._move(note, mine)
            taken = do(self._source, [Cancel(id) for id in mine])
            ended = [id for id, done in zip(mine, taken, strict=True) if not done]  # ended a moment ago
            self._delete([steps.finished.pop(id).id for id in ended])
            handed += sum(map(bool, taken))
            self._shown("handing over", handed)
            done += len(page)
            if done >= most and not left:
                break
        self._delete([steps.live.pop(id).id for id in left])
        return handed, refused

    def _move(self, note: Note | None, ids: Collection[int]) -> None:
        """Record that jobs up to the highest id are handed over. This comes first: the stores share no transaction."""
        if note is not None and ids:
            do(self._source, [Put((NewJob(TOPIC, b"%d" % max(ids), _NEVER, note.token, replace=True),))])

    def _keep_rest(self, note: Note, steps: Steps) -> int:
        """Copy the finished jobs of the source that have no copy yet, and were not handed over; return how many."""
        if note.whole:
            return 0
        kept = done = 0
        for page in chain.from_iterable(pages(self._source, state) for state in ENDINGS):
            kept += steps.keep([job for job in page if not (job.id in steps.finished or job.id in steps.live)])
            done += len(page)
            self._shown("carrying what has finished since", done)
        note.whole = True
        self._write(note)
        do(self._source, [Delete((TOPIC, note.token))])
        return kept


def _up_to(ids: deque[int], last: int) -> Iterator[int]:
    """Yield and remove the ids up to `last`, from the left."""
    while ids and ids[0] <= last:
        yield ids.popleft()

"""The steps that make copies in one store of the jobs of another, and what identifies a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from secrets import token_hex
from typing import Any, Final, NamedTuple

from .._errors import JobExists
from ..jobs.commands import Command, Delete, Edit, Import
from ..jobs.job import Imported, Job, State
from ..jobs.lifecycle import ENDINGS
from ..jobs.queries import Filter, GetHistories, GetJob, ListJobs
from ..stores.contract import Store

TOPIC: Final = "pywheel.copy"
"""The topic of the jobs that record the state of a copy. They are never due."""
HEADER: Final = "pywheel-copied"
"""The header of a copy that names its original: the store, and the id there."""
PAGE: Final = 500  # jobs read, and written, at once


class Copied(NamedTuple):
    """The fields of a copy that are compared with its job."""

    id: int
    due: int
    version: int


def identity_of(store: Store) -> str:
    """Return the text that identifies a store in the headers of copies."""
    return blake2b(store.url.encode(), digest_size=8).hexdigest()


def do(store: Store, commands: Sequence[Command[Any]]) -> list[Any]:
    """Apply commands; return the outcomes. An error among them is raised, except JobExists."""
    outcomes = store.apply(commands) if commands else []
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, JobExists):
            raise outcome
    return outcomes


def pages(store: Store, state: State | None = None) -> Iterator[list[Job]]:
    """Yield the jobs of a store by id."""
    after = 0
    while page := store.ask(ListJobs(Filter(state=state), after, PAGE)):
        after = page[-1].id
        yield [job for job in page if job.topic != TOPIC]


class Steps:
    """The steps of one copy, with its own `token`. Copies with ids up to `floor` were there before this run."""

    def __init__(self, source: Store, target: Store, token: str, floor: int) -> None:
        self._source, self._target = source, target
        self._token, self._floor = token, floor
        self.live: dict[int, Copied] = {}
        """The copies of waiting jobs, by the ids of the jobs in the source."""
        self.finished: dict[int, Copied] = {}
        self._identity, self._theirs = identity_of(source), identity_of(target)
        self._run = token_hex(8)
        self._deleted: set[int] = set()  # copies, in this run
        self._over = False

    def over(self) -> None:
        """Treat the copies as jobs of the target from now on: they may end or be deleted there."""
        self.live, self.finished, self._over = {}, {}, True

    def origin(self, copy: Job) -> int | None:
        """Return the source's id of the job that this is a copy of; None if it is not a copy."""
        return _origin(copy, self._identity)

    # ---- those that wait --------------------------------------------------------------------------------------------

    def bring(self, jobs: Sequence[Job]) -> list[int | JobExists | None]:
        """Copy delayed jobs; return for each the id of its new or changed copy, or None if nothing had changed.

        A JobExists stands for a job whose key another job has. The target may still know the nonce of a copy that was
        deleted since; such a job is copied once more.
        """
        steps = self._steps(jobs)
        found = self._apply(steps)
        for place, (job, commands) in enumerate(zip(jobs, steps, strict=True)):
            id = found[place]
            if isinstance(id, JobExists):  # an older copy with the key was deleted all the same
                self.live.pop(job.id, None)
                self.finished.pop(job.id, None)
            if id is None or isinstance(id, JobExists):
                continue
            last = commands[-1]
            if isinstance(last, Import) and not self._over and (id <= self._floor or id in self._deleted):
                copy = self._target.ask(GetJob(id))
                if copy is None or copy.state is not State.DELAYED or self.origin(copy) != job.id:
                    again = Import(last.jobs, f"{last.nonce}:{self._run}")
                    [[id]] = do(self._target, [again])
                    found[place] = id
            self.live[job.id] = Copied(id, job.due, version(job))
            self.finished.pop(job.id, None)
        return found

    def _steps(self, jobs: Sequence[Job]) -> list[list[Command[Any]]]:
        """Return for each job the commands that make its copy, if it needs any. The last outcome is the copy's id."""
        steps: list[list[Command[Any]]] = []
        changed = []
        for job in jobs:
            copy = self.live.get(job.id)
            steps.append([])
            if copy is None or copy.version != version(job):
                changed.append(len(steps) - 1)
            elif copy.due != job.due:
                steps[-1].append(Edit(copy.id, job.due))
        for place, one in zip(changed, self._with_past([jobs[place] for place in changed]), strict=True):
            steps[place] = self._import(jobs[place].id, one)
        return steps

    def _import(self, id: int, one: Imported) -> list[Command[Any]]:
        # A nonce names one copy of one version of a job: sent twice it happens once, but a new copy happens again.
        copy = self.live.get(id) or self.finished.get(id)
        before = 0 if copy is None else copy.id
        self._deleted.add(before)
        # A late job has no copy any more. The target may know the nonce of one that somebody deleted.
        which = "late" if self._over else before
        nonce = f"copy:{self._token}:{id}:{which}:{_digest(one.job)}{':passed' if one.passed else ''}"
        old = [Delete(there.id) for there in (copy, self._original(one.job)) if there is not None]
        return [*old, Import((self._marked(id, one),), nonce)]

    def _apply(self, steps: Sequence[list[Command[Any]]]) -> list[int | JobExists | None]:
        """Apply the steps of some jobs in one transaction."""
        outcomes = iter(do(self._target, [command for commands in steps for command in commands]))
        found: list[Any] = []
        for commands in steps:
            last = [next(outcomes) for _ in commands][-1] if commands else None
            if isinstance(last, list):
                [last] = last
            elif commands and isinstance(commands[-1], Edit):
                last = commands[-1].ref
            found.append(last)
        return found

    # ---- those that have finished -----------------------------------------------------------------------------------

    def keep(self, jobs: Sequence[Job]) -> int:
        """Copy the finished jobs that have no copy yet, with their history; return how many."""
        finished, live = self.finished, self.live
        new = [job for job in jobs if job.id not in finished or finished[job.id].version != version(job)]
        kept: list[tuple[Job, Imported]] = []
        commands: list[Command[Any]] = []
        for job, one in zip(new, self._with_past(new), strict=True):
            if not one.history:
                continue  # deleted a moment ago
            commands += [Delete(copy.id) for copy in (live.pop(job.id, None), finished.pop(job.id, None)) if copy]
            original = self._original(job)
            if original is not None and (original.state, original.claims) == (job.state, job.claims):
                finished[job.id] = Copied(original.id, original.due, version(original))
                continue  # the job came from the target, and the original is still there
            commands += [] if original is None else [Delete(original.id)]
            kept.append((job, self._marked(job.id, one)))
        names = ",".join(f"{job.id}:{job.claims}" for job, _ in kept)
        nonce = f"copy:{self._token}:{blake2b(names.encode(), digest_size=16).hexdigest()}:{self._run}"
        if kept:
            commands.append(Import(tuple(one for _, one in kept), nonce))
        outcomes = do(self._target, commands)
        for (job, _), id in zip(kept, outcomes[-1] if kept else (), strict=True):
            finished[job.id] = Copied(id, job.due, version(job))
        return len(kept)

    # ---- a job as it is carried -------------------------------------------------------------------------------------

    def _with_past(self, jobs: Sequence[Job]) -> list[Imported]:
        """Return jobs with their histories, up to the claim of each job."""
        tried = [job.id for job in jobs if job.claims]
        histories = dict(zip(tried, self._source.ask(GetHistories(tried)) if tried else (), strict=True))
        found = []
        for job in jobs:
            past = tuple(row for row in histories.get(job.id, ()) if row.claim <= job.claims and row.ended is not None)
            if past and not job.state.live:  # a repaired job may count more claims, or have another ending
                endings, claims = ENDINGS[job.state], past[-1].claim
                job = job._replace(claims=claims, attempt=min(job.attempt, claims))
                if past[-1].outcome not in endings:
                    past = (*past[:-1], past[-1]._replace(outcome=endings[0]))
            found.append(Imported(job, past, self._has_passed(job)))
        return found

    def _has_passed(self, job: Job) -> bool:
        """Whether a running or retried job has handed its key to a successor."""
        if job.key is None or not job.claims or not job.state.live:
            return False
        owner = self._source.ask(GetJob((job.topic, job.key)))
        return owner is not None and owner.id != job.id and owner.state.live

    def _marked(self, id: int, one: Imported) -> Imported:
        headers = {**one.job.headers, HEADER: f"{self._identity} {id}"}
        return one._replace(job=one.job._replace(headers=headers))

    def _original(self, job: Job) -> Job | None:
        """Return the finished job of the target that this job was once copied from: its new copy replaces it."""
        id = _origin(job, self._theirs)
        found = None if id is None else self._target.ask(GetJob(id))
        if found is None or found.state.live or (found.topic, found.created) != (job.topic, job.created):
            return None
        return found


def _origin(copy: Job, identity: str) -> int | None:
    store, _, id = copy.headers.get(HEADER, "").partition(" ")
    return int(id) if store == identity and id.isdigit() else None


def version(job: Job) -> int:
    """Return a hash of a job without its due time. It differs between processes."""
    if not job.state.live:  # a finished job changes in nothing else
        return hash((job.state, job.claims))
    return hash((job.topic, repr(_kept(job)), job.claims, job.attempt, job.lost, job.body))


def _digest(job: Job) -> str:
    """Return a digest of a job without its due time. It is the same in all processes."""
    past = (job.state, job.claims, job.attempt, job.lost)
    parts = json.dumps([job.topic, past, _kept(job)]).encode()
    return blake2b(parts + b"\0" + job.body, digest_size=12).hexdigest()


def _kept(job: Job) -> list[Any]:
    """Return the fields of a job, without the header that a copy has."""
    headers = sorted((name, value) for name, value in job.headers.items() if name != HEADER)
    return [headers if value is job.headers else value for value in job.kept]

"""Encrypting what a store has of bodies and results with the current key, for the first time or anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from .._errors import BadBody
from ..jobs.bodies import is_encrypted
from ..jobs.commands import Rewrite
from ..jobs.job import Job, State
from ..jobs.keyring import Keyring
from ..jobs.queries import Filter, GetHistories, GetJob, ListJobs
from ..jobs.schedule import Schedule
from ..stores.contract import Store, intact
from ..stores.encrypted import EncryptedStore, result_name
from ..stores.schedule_notes import ScheduleNotes
from .copy_steps import TOPIC as COPIES
from .spool import TOPIC as SPOOLED

_PAGE: Final = 100  # jobs in one transaction
_OURS: Final = frozenset({COPIES, SPOOLED})  # topics of pywheel's own notes, which are read without keys
_TRIES: Final = 3
_Content: TypeAlias = tuple[Job, str, bytes, int | None]
"""A job; the name under which its body or result is sealed; the body or result; the claim of a result."""


class Rekeyed(NamedTuple):
    """The progress, in bodies and results."""

    last: int = 0  # the id of the last job looked at: to continue from there, give it as `after`
    rewritten: int = 0
    current: int = 0  # already encrypted with the current key
    unreadable: int = 0  # left as they are: their key is not in the keyring, or they were tampered with
    changed: int = 0  # left as they are: others changed them at the same time, again and again


def rekey(
    store: Store, keyring: Keyring, *, after: int = 0, progress: Callable[[Rekeyed], object] = lambda _: None
) -> Rekeyed:
    """Encrypt the bodies and results of all jobs, live and finished, plain or not, with the keyring's current key.

    After them come the bodies of schedules. Each job is rewritten only if it has not changed meanwhile; programs and
    workers may use the store at the same time. The call may be interrupted and repeated: finished work is not repeated.
    O(jobs); it reads every body.

    Raises:
        StoreError: the store failed; the work reported to `progress` is done.
        NoKey: the current key is not in the keyring.
    """
    keyring.key(keyring.current)
    if isinstance(store, EncryptedStore):
        store = store.behind
    found = Rekeyed(after)
    while jobs := store.ask(ListJobs(Filter(), found.last, _PAGE)):
        found = _page(store, keyring, found._replace(last=jobs[-1].id), jobs)
        found = _results(store, keyring, found, [job for job in jobs if job.state is State.DONE])
        progress(found)
        if len(jobs) < _PAGE:  # the end: who puts meanwhile encrypts, and there may always be somebody
            break
    bodies = _schedules(store, keyring)
    return found._replace(**{name: getattr(found, name) + count for name, count in bodies.items()})


def _schedules(store: Store, keyring: Keyring) -> Counter[str]:
    """Encrypt the bodies of schedules; return how many were rewritten, current and unreadable."""
    notes, found = ScheduleNotes(EncryptedStore(store, keyring)), Counter[str]()
    old: list[str] = []
    for name, note in notes.raw():
        with suppress(BadBody):  # no schedule, whatever the key
            schedule = Schedule.from_note(name, note)
            if schedule.body and not schedule.removed:
                how = _how(notes, keyring, schedule)
                found[how] += 1
                old += [name] if how == "rewritten" else []
    notes.change_many(dict.fromkeys(old, lambda before: before))
    return found


def _how(notes: ScheduleNotes, keyring: Keyring, schedule: Schedule) -> str:
    """Return the field of `Rekeyed` in which a schedule's body counts."""
    if keyring.is_current(schedule.body):
        return "current"
    try:
        if is_encrypted(schedule.body):
            notes.opened(schedule)
    except BadBody:
        return "unreadable"
    return "rewritten"


def _page(store: Store, keyring: Keyring, found: Rekeyed, jobs: list[Job]) -> Rekeyed:
    for _ in range(_TRIES):
        found, changed = _encrypt(store, keyring, found, [(job, job.topic, job.body, None) for job in jobs])
        jobs = [job for job in map(store.ask, map(GetJob, changed)) if job is not None]
        if not jobs:
            return found
    return found._replace(changed=found.changed + len(jobs))


def _results(store: Store, keyring: Keyring, found: Rekeyed, jobs: list[Job]) -> Rekeyed:
    """Encrypt results anew. A result that was replaced meanwhile has the current key already."""
    results: list[_Content] = []
    for job, attempts in zip(jobs, store.ask(GetHistories([job.id for job in jobs])), strict=True):
        if attempts and attempts[-1].result is not None:
            results.append((job, result_name(job.topic), attempts[-1].result, attempts[-1].claim))
    return _encrypt(store, keyring, found, results)[0]


def _encrypt(store: Store, keyring: Keyring, found: Rekeyed, contents: Sequence[_Content]) -> tuple[Rekeyed, list[int]]:
    """Encrypt the contents that lack the current key; return also the ids of the jobs that were changed meanwhile."""
    rewrites, current, unreadable = [], 0, 0
    for job, name, content, claim in contents:
        if job.topic in _OURS:
            continue
        if keyring.is_current(content):
            current += 1
            continue
        try:
            plain = keyring.open(name, job.key, content) if is_encrypted(content) else content
            rewrites.append(Rewrite(job.id, content, keyring.seal(name, job.key, plain), claim))
        except BadBody:
            unreadable += 1
    done = intact(store.apply(rewrites)) if rewrites else []
    found = found._replace(
        rewritten=found.rewritten + sum(done),
        current=found.current + current,
        unreadable=found.unreadable + unreadable,
    )
    return found, [rewrite.id for rewrite, it_was in zip(rewrites, done, strict=True) if not it_was]

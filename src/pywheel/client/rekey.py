"""Encrypting anew what a store has: with the key that encrypts now, or for the first time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from .._errors import BadBody
from ..jobs.bodies import is_encrypted
from ..jobs.commands import Rewrite
from ..jobs.job import Job, State
from ..jobs.keyring import Keyring
from ..jobs.queries import Filter, GetHistories, GetJob, ListJobs
from ..stores.contract import Store, intact
from ..stores.encrypted import EncryptedStore, result_name
from .copy_steps import TOPIC as COPIES
from .spool import TOPIC as SPOOLED

__all__ = ["Rekeyed", "rekey"]

_PAGE: Final = 100  # jobs in one transaction
_OURS: Final = frozenset({COPIES, SPOOLED})  # topics of our own notes, which are read without keys
_TRIES: Final = 3
_Content: TypeAlias = tuple[Job, str, bytes, int | None]
"""A job, under which name its body or its result is sealed, that, and of a result the claim."""


class Rekeyed(NamedTuple):
    """How far it has come, in bodies and results."""

    last: int = 0  # the id of the last job looked at: to go on from there, give it as `after`
    rewritten: int = 0
    current: int = 0  # that had the key already
    unreadable: int = 0  # left as they are: their key is not in the keyring, or they were changed
    changed: int = 0  # left as they are: others changed them at the same time, again and again


def rekey(
    store: Store, keyring: Keyring, *, after: int = 0, progress: Callable[[Rekeyed], object] = lambda _: None
) -> Rekeyed:
    """Encrypt bodies and results of all jobs, live and finished, with the keyring's current key; plain ones too.

    Job by job, each only if it is still the same; what works on the store goes on meanwhile. It may be ended at any
    moment and begun again: what is done is not done again. O(jobs), and it reads every body.

    Raises:
        StoreError: the store failed; what was told to `progress` is done.
        NoKey: the current key is not here.
    """
    keyring.key(keyring.current)
    if isinstance(store, EncryptedStore):
        store = store.behind
    found = Rekeyed(after)
    while jobs := store.ask(ListJobs(Filter(), found.last, _PAGE)):
        found = _page(store, keyring, found._replace(last=jobs[-1].id), jobs)
        found = _results(store, keyring, found, [job for job in jobs if job.state is State.DONE])
        progress(found)
    return found


def _page(store: Store, keyring: Keyring, found: Rekeyed, jobs: list[Job]) -> Rekeyed:
    for _ in range(_TRIES):
        found, changed = _encrypt(store, keyring, found, [(job, job.topic, job.body, None) for job in jobs])
        jobs = [job for job in map(store.ask, map(GetJob, changed)) if job is not None]
        if not jobs:
            return found
    return found._replace(changed=found.changed + len(jobs))


def _results(store: Store, keyring: Keyring, found: Rekeyed, jobs: list[Job]) -> Rekeyed:
    """Encrypt results anew. One that is another one by now has the key."""
    results: list[_Content] = []
    for job, attempts in zip(jobs, store.ask(GetHistories([job.id for job in jobs])), strict=True):
        if attempts and attempts[-1].result is not None:
            results.append((job, result_name(job.topic), attempts[-1].result, attempts[-1].claim))
    return _encrypt(store, keyring, found, results)[0]


def _encrypt(store: Store, keyring: Keyring, found: Rekeyed, contents: Sequence[_Content]) -> tuple[Rekeyed, list[int]]:
    """Encrypt anew what has another key or none; return the ids of the jobs that were changed meanwhile, too."""
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

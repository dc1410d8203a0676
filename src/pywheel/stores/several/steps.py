"""Commands that take several steps, as one store must have answered before another can be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ..._errors import BadJob, JobExists, PywheelError, StoreError
from ...jobs import commands as c
from ...jobs.job import Imported, Job, NewJob, State
from ...jobs.lifecycle import LOST_BEGUN
from ...jobs.queries import GetNextDues, GetNextLease, ListFirstDue
from ..nonces import fingerprinted, same_ids
from .ids import Ids
from .parts import (
    claimed,
    inner_put,
    new_jobs,
    noted,
    outer_error,
    outer_ids,
    outer_job,
    part_of,
    suspects_turn,
    turn,
)

if TYPE_CHECKING:
    from .store import SeveralStore

__all__ = ["STEPS"]

_AHEAD: Final = 1_000  # ms: each store judges by its own clock what is due
_SOME: Final = 250  # leases that are ended by one step before a reserve


def _reserve(store: SeveralStore, command: c.Reserve) -> list[Job]:
    """See where the first jobs are, and reserve as many in each store."""
    leases = [inner.ask(GetNextLease()) for inner in store.stores]
    now = store.clock.wall()  # after an answer: before the first it may be another clock
    over = [place for place, lease in enumerate(leases) if lease is not None and lease <= now]
    while over:
        ended = store.send({place: [c.Expire(_SOME)] for place in over})
        over = [place for place, done in ended.items() if not isinstance(done, StoreError) and done[0].ended == _SOME]
    if command.policy.limits is not None:
        _limited(store, command)
    shares = Counter(store.ids.store(due.id) for due in store.ask(ListFirstDue(command.topic, command.limit)))
    if command.bytes is not None:
        return _in_turn(store, command, shares)
    answers = store.send(
        {place: [c.Reserve(command.topic, share, command.policy, command.worker)] for place, share in shares.items()}
    )
    jobs: list[Job] = []
    failed = None
    for place, answer in answers.items():
        if isinstance(answer, StoreError):
            failed = answer
        else:
            jobs += [outer_job(store.ids, place, job) for job in answer[0]]
    if failed is not None and not jobs:
        raise failed
    return sorted(jobs, key=turn)


def _in_turn(store: SeveralStore, command: c.Reserve, shares: Mapping[int, int]) -> list[Job]:
    """Reserve store by store, from that of the first job on, as what one gives takes of the bytes of the next."""
    jobs, left, failed = list[Job](), command.bytes or 0, None
    for place, share in shares.items():
        part = c.Reserve(command.topic, share, command.policy, command.worker, left, command.least - len(jobs))
        answer = store.send({place: [part]})[place]
        if isinstance(answer, StoreError):
            failed = answer
        else:
            jobs += [outer_job(store.ids, place, job) for job in answer[0]]
            left = (command.bytes or 0) - sum(len(job.body) for job in jobs)
    if failed is not None and not jobs:
        raise failed
    return sorted(jobs, key=turn)


def _claim(store: SeveralStore, command: c.Claim) -> c.Claimed:
    """Claim the first due jobs: each store that has some gives its share, and then those that have more the rest."""
    if command.policy.limits is not None:
        _limited(store, command)
    now = store.clock.wall()
    dues, failed = _next_dues(store, command.topic)
    found: dict[int, list[c.Claimed | PywheelError]] = {place: [error] for place, error in failed.items()}
    later = [due for due in dues.values() if due > now + _AHEAD]
    ready = _ready(dues, now) or [0]  # of a topic without any the first store says whether it is paused
    limit, begin, most, suspects = command.limit, max(command.begin, 0), command.bytes, max(command.suspects, 0)
    while ready and limit > 0:
        some, ready = ready[:limit], ready[limit:]
        tried = some[next(suspects_turn) % len(some)]
        parts = {
            place: _share(store.ids, command, place, share, begins, most // len(some), suspects * (place == tried))
            for place, share, begins in zip(some, _parts(limit, some), _parts(begin, some), strict=True)
        }
        for place, outcome in store.send({place: [part] for place, part in parts.items()}).items():
            one = outcome if isinstance(outcome, StoreError) else outcome[0]
            found.setdefault(place, []).append(one)
            if isinstance(one, c.Claimed):
                limit -= len(one.jobs)
                begin -= one.begun
                most -= sum(len(job.body) for job in one.jobs)
                suspects -= sum(job.lost == LOST_BEGUN for job in one.jobs)
                if len(one.jobs) == parts[place].limit and one.next is not None and one.next <= now + _AHEAD:
                    ready.append(place)
        if most <= 0:
            break
    later += [now] * bool(ready)
    lasts = [(place, one) for place, some in found.items() for one in _with_last_next(some)]
    outcome = claimed(store.ids, command, lasts, now)
    if isinstance(outcome, PywheelError):
        raise outcome
    dued = [outcome.next, *later] if not outcome.paused else []
    first = min((due for due in dued if due is not None), default=None)
    merged: c.Claimed = outcome._replace(next=first)
    return merged


def _next_dues(store: SeveralStore, topic: str) -> tuple[dict[int, int], dict[int, StoreError]]:
    """Return when the first job of a topic is due, by store, and the errors of those that do not answer."""
    answers = dict(enumerate(store.try_each(lambda inner: inner.ask(GetNextDues([topic])))))
    failed = {place: answer for place, answer in answers.items() if isinstance(answer, StoreError)}
    some = {place: answer for place, answer in answers.items() if not isinstance(answer, StoreError)}
    return {place: dues[topic] for place, dues in some.items() if topic in dues}, failed


def _ready(dues: Mapping[int, int], now: int) -> list[int]:
    """Return the stores whose first jobs are due, those of the earliest first."""
    return sorted((place for place, due in dues.items() if due <= now + _AHEAD), key=dues.__getitem__)


def _with_last_next(some: Sequence[c.Claimed | PywheelError]) -> list[c.Claimed | PywheelError]:
    """Return the outcomes of one store: the last of them says when the next job is due."""
    return [one._replace(next=None) if isinstance(one, c.Claimed) else one for one in some[:-1]] + [*some[-1:]]


def _parts(number: int, among: Sequence[int]) -> list[int]:
    """Return a number in as many parts; the first of them are the larger ones."""
    share, more = divmod(number, len(among))
    return [share + (place < more) for place in range(len(among))]


def _share(ids: Ids, command: c.Claim, place: int, limit: int, begin: int, most: int, suspects: int) -> c.Claim:
    """Return what one store is asked for of a claim without ids."""
    after = command.after
    if after is not None:
        after = (after[0], after[1], max(ids.after(place, max(after[2], 0)), 0))
    without = tuple(ids.inner(id) for id in command.without if ids.store(id) == place)
    return replace(
        command, limit=limit, begin=begin, bytes=most, suspects=suspects, after=after, without=without, ids=()
    )


def _limited(store: SeveralStore, command: c.Reserve | c.Claim) -> NoReturn:  # noqa: ARG001
    """Refuse a claim with limits: each store would count its own jobs."""
    raise BadJob(f"limit= and rate= want one store, and {store.url} is {len(store.stores)}: leave out ?stores=")


def _purge(store: SeveralStore, command: c.Purge) -> int:
    """Store by store, as it says how many may be forgotten; a different one comes first each time.

    One that is away is left out, unless all are.
    """
    gone, failed = 0, list[StoreError]()
    for place in store.in_turn():
        if gone >= command.limit:
            break
        try:
            gone += store.one(place, replace(command, limit=command.limit - gone))
        except StoreError as error:
            failed.append(error)
    if len(failed) == len(store.stores):
        raise failed[0]
    return gone


def _expire(store: SeveralStore, command: c.Expire) -> c.Expired:
    ended, leases, dead = 0, [], []
    for place in store.in_turn():
        expired = store.one(place, c.Expire(command.limit - ended))
        ended += expired.ended
        leases += [expired.next_lease] if expired.next_lease is not None else []
        dead += store.ids.all_outer(place, expired.dead)
    return c.Expired(ended, min(leases, default=None), tuple(sorted(dead)))


def _pause(store: SeveralStore, command: c.Pause) -> bool:
    """The first store last: workers look there, and say that they are quiet once nothing can be claimed anywhere."""
    found = store.send_all({place: [command] for place in range(1, store.ids.stores)})
    return any([store.one(0, command), *(changed for [changed] in found.values())])


def _announce(store: SeveralStore, command: c.Announce) -> None:
    """The first store first: who is in another one, and not there, is gone."""
    store.one(0, command)
    store.send_all({place: [command] for place in range(1, store.ids.stores)})


# ---- puts -----------------------------------------------------------------------------------------------------------


def _put(store: SeveralStore, put: c.Put | c.Import) -> list[int]:
    """A put whose keys, or whose key and nonce, are for different stores to decide."""
    ids, nonce = store.ids, put.nonce
    fingerprint = f"m{put.fingerprint}" if isinstance(put, c.Put) and put.fingerprint is not None else None
    if nonce is not None:
        home = ids.of_nonce(nonce)
        known = store.stores[home].nonce(nonce)
        if known is not None:
            return outer_ids(ids, home, same_ids(known, fingerprint))
    found = _put_parts(store, put, _by_store(store, put))
    if nonce is not None:
        store.stores[home].nonce(nonce, fingerprinted(noted(found), fingerprint))
    return found


def _by_store(store: SeveralStore, put: c.Put | c.Import) -> dict[int, list[int]]:
    """Return the places of a put's jobs by store; those without a key go with the first that has one."""
    of = [None if job.key is None else store.ids.of_key(job.topic, job.key) for job in new_jobs(put)]
    first = next(place for place in of if place is not None)
    places: dict[int, list[int]] = {}
    for number, place in enumerate(of):
        places.setdefault(first if place is None else place, []).append(number)
    return places


def _put_parts(store: SeveralStore, put: c.Put | c.Import, by_store: dict[int, list[int]]) -> list[int]:
    """Put the jobs of each store there. If there are several, each is asked first whether it would take them."""
    nonce = None if put.nonce is None else blake2b(put.nonce.encode()).hexdigest()  # of a part of it
    puts = {
        place: inner_put(store.ids, part_of(put, [put.jobs[number] for number in numbers], nonce), place)
        for place, numbers in by_store.items()
    }
    if len(puts) > 1:
        never = _NEVER if isinstance(put, c.Put) else _NEVER_IMPORTED
        looks = {place: [part_of(put, [*part.jobs, *never], part.nonce)] for place, part in puts.items()}
        for place, [refused] in store.send_all(looks).items():
            if isinstance(refused, JobExists) and _NAME not in str(refused):
                raise outer_error(store.ids, place, refused)
    answers = store.send({place: [part] for place, part in puts.items()})
    found: dict[int, Any] = {
        place: answer if isinstance(answer, StoreError) else answer[0] for place, answer in answers.items()
    }
    refused = [(place, outcome) for place, outcome in found.items() if isinstance(outcome, PywheelError)]
    if refused:
        if put.nonce is None:  # else it comes again, and the rest of it with it
            _take_back(store, puts, found)
        place, error = refused[0]
        raise outer_error(store.ids, place, error)
    result = [0] * len(put.jobs)
    for place, numbers in by_store.items():
        for number, id in zip(numbers, outer_ids(store.ids, place, found[place]), strict=True):
            result[number] = id
    return result


_NAME: Final = "pywheel: only looked at"
_NEVER: Final = (NewJob(_NAME, b"", 0, _NAME),) * 2
_NEVER_IMPORTED: Final = (Imported(Job(0, _NAME, b"", 0, 0, State.DELAYED, _NAME)),) * 2
"""With these a put is refused, and says on the way whether it would be without them."""


def _take_back(store: SeveralStore, puts: Mapping[int, c.Put | c.Import], found: dict[int, Any]) -> None:
    """Delete the new jobs of a put that was refused in part: in between somebody else took a key."""
    store.send(
        {
            place: [c.Delete(id) for id, job in zip(outcome, new_jobs(puts[place]), strict=True) if not job.replace]
            for place, outcome in found.items()
            if not isinstance(outcome, PywheelError)
        }
    )


STEPS: Final[dict[type, Callable[[SeveralStore, Any], Any]]] = {
    c.Put: _put,
    c.Import: _put,
    c.Reserve: _reserve,
    c.Claim: _claim,
    c.Purge: _purge,
    c.Expire: _expire,
    c.Pause: _pause,
    c.Announce: _announce,
}

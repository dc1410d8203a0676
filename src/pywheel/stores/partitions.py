"""Several stores used as one. Each step of a queue or worker goes at once to the stores that it concerns.

A request to one store is one transaction; a request to several is one in each: a store that fails has changed nothing,
and the others have. The first store decides which workers are there, and what is paused.
"""

from __future__ import annotations

import os
import socket
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from heapq import merge
from itertools import chain, islice
from operator import attrgetter
from random import choice, randrange, sample
from typing import Any, Final, TypeVar
from zlib import crc32

from .._errors import BadOption, JobExists, PywheelError, StoreError
from ..clock import Clock
from ..jobs import commands as c
from ..jobs import queries as q
from ..jobs.job import Counts, Due, Imported, Job, NewJob, State, Topic
from ..jobs.lifecycle import LOST_BEGUN, rank
from .checks import clamped, fingerprinted, note_name, same_ids, sound
from .contract import Durability, Store, intact, outcome_of
from .pages import BYTES, Asked, Position, asked, latest
from .verify import EXAMPLES, Finding

R = TypeVar("R")
Part = tuple[int, c.Command[Any]]
"""The number of a store, and its command."""
Answers = dict[int, "list[Any] | StoreError"]
"""By store, the outcomes of its commands, or the error instead."""

_BLOCK: Final = 32
_THREADS: Final = 32
_TURN: Final = 64  # jobs put into one store before the next has its turn: threads share its commits meanwhile
_WEAKEST: Final[tuple[Durability, ...]] = ("memory", "everysec", "fsync")
_NOTED: Final = -3  # so that the id 1 is noted as -4: a store may say by -1 to -3 that it refuses
_AGAIN: Final = 100  # ms after which a store that did not answer is asked again
_AHEAD: Final = 1_000  # ms: each store judges by its own clock what is due
_SOME: Final = 250  # leases that are ended by one step before a reserve
_new: Final = tuple.__new__  # faster than a named tuple's own


class Ids:
    """The home of each job among several stores: its id or its key tells the store.

    The stores take turns in blocks of ids. The ids of one store keep their order.
    """

    __slots__ = ("stores",)

    def __init__(self, stores: int) -> None:
        self.stores = stores

    def store(self, id: int) -> int:
        """Return the number of the store that a job lives in."""
        return id // _BLOCK % self.stores

    def inner(self, id: int) -> int:
        """Return a job's id in its own store."""
        return id // _BLOCK // self.stores * _BLOCK + id % _BLOCK

    def split(self, ids: Iterable[int]) -> list[tuple[int, int]]:
        """Return for each id the number of its store, and the id there."""
        stores = self.stores
        return [(id // _BLOCK % stores, id // _BLOCK // stores * _BLOCK + id % _BLOCK) for id in ids]

    def outer(self, store: int, inner: int) -> int:
        """Return the outer id of a store's job: the one that callers see."""
        return (inner // _BLOCK * self.stores + store) * _BLOCK + inner % _BLOCK

    def all_outer(self, store: int, inner: Iterable[int]) -> list[int]:
        """Return the outer ids of a store's jobs."""
        stores = self.stores
        return [(id // _BLOCK * stores + store) * _BLOCK + id % _BLOCK for id in inner]

    def after(self, store: int, id: int) -> int:
        """Return the last id in a store that is no larger than an outer id."""
        turn, place = divmod(id // _BLOCK, self.stores)
        if place == store:
            return turn * _BLOCK + id % _BLOCK
        return (turn + (place > store)) * _BLOCK - 1

    def of(self, ref: c.Ref) -> tuple[int, c.Ref]:
        """Return the store of the job that a reference names, and the reference there."""
        if isinstance(ref, int):
            return self.store(ref), self.inner(ref)
        return self.of_key(*ref), ref

    def of_key(self, topic: str, key: str) -> int:
        """Return the store that decides who holds a key: all jobs that ever had the key live there."""
        return crc32(_bytes(key), crc32(_bytes(topic))) % self.stores

    def of_nonce(self, nonce: str) -> int:
        """Return the store that knows a nonce."""
        return crc32(_bytes(nonce)) % self.stores

    def of_note(self, name: str) -> int:
        """Return the store of a note: that of the nonce behind the first colon of its name."""
        return self.of_nonce(name.partition(":")[2] or name)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


class Inner(Store):
    """A store that may be one of several."""

    @abstractmethod
    def nonce(self, nonce: str, kept: Sequence[int | str] | None = None) -> list[Any] | None:
        """Return the record of the put that had a nonce, or None; in that case store `kept`, if given.

        The record has ids, also negative ones, and the fingerprint with an m before it, if there is one. It is the
        outcome of a later put with that nonce.
        """

    @abstractmethod
    def forget(self, nonce: str) -> None:
        """Delete the record of the put that had a nonce: what it has stored is about to be deleted."""


class SeveralStore(Store):
    """One store made of several of a kind, which nobody else uses.

    One store decides a key, and one a nonce. Puts without either go to one store after the other.
    """

    ids_grow = False
    keeps_limits = False

    def __init__(self, stores: Sequence[Inner]) -> None:
        self.stores = stores
        self.ids = Ids(len(stores))
        self._after_fork()

    def _after_fork(self) -> None:
        """Choose a first store for this process, which has no threads yet. Other processes begin with other stores."""
        self._threads = ThreadPoolExecutor(_THREADS, "pywheel-store")
        self._here = crc32(f"{socket.gethostname()} {os.getpid()}".encode()) % len(self.stores)
        self._left = _TURN

    @property
    def clock(self) -> Clock:  # type: ignore[override]
        """The first store's clock. Each judges by its own what is due."""
        return self.stores[0].clock

    @property
    def durability(self) -> Durability:  # type: ignore[override]
        """The weakest of theirs."""
        return min((store.durability for store in self.stores), key=_WEAKEST.index)

    # ---- asking -----------------------------------------------------------------------------------------------------

    def _together(self, calls: Sequence[Callable[[], R]]) -> list[R | StoreError]:
        """Return the result of each call, or the StoreError that it raised. Raises other errors.

        The first runs in the caller's thread, the others beside it.
        """
        others: list[Callable[[], R | StoreError]] = []
        for call in calls[1:]:
            result: Future[R | StoreError] = Future()
            others.append(result.result)
            try:
                self._threads.submit(_fulfil, result, call)
            except RuntimeError:  # closed, no thread can be started, or the interpreter ends: then they run in turn
                if result.cancel():  # the pool may keep the call all the same, for its next thread
                    others[-1] = partial(_tried, call)
        return [_tried(call) for call in calls[:1]] + [other() for other in others]

    def send(self, batches: Mapping[int, Sequence[c.Command[Any]]]) -> Answers:
        """Return by store the outcomes of its commands, or its error."""
        answers = self._together([partial(self.stores[store].apply, batch) for store, batch in batches.items()])
        return dict(zip(batches, answers, strict=True))

    def send_one(self, commands: Mapping[int, c.Command[Any]]) -> dict[int, Any]:
        """Return by store the outcome of its command, or its error."""
        answers = self.send({store: [command] for store, command in commands.items()})
        return {store: answer if isinstance(answer, StoreError) else answer[0] for store, answer in answers.items()}

    def send_others(self, command: c.Command[R]) -> list[R]:
        """Return the outcomes of a command to all stores but the first. Raises the first error, once all have ended."""
        return intact([*self.send_one(dict.fromkeys(range(1, len(self.stores)), command)).values()])

    def ask_some(self, queries: Mapping[int, q.Query[R]]) -> list[R]:
        """Return the answers of some stores, each to its own query. Raises the first error."""
        return intact(self._together([partial(self.stores[place].ask, query) for place, query in queries.items()]))

    def ask_each(self, query: q.Query[R]) -> list[R]:
        """Return the answer of each store, in order. Raises the first error, once all have ended."""
        return self.ask_some(dict.fromkeys(range(len(self.stores)), query))

    def try_each(self, query: q.Query[R]) -> dict[int, R | StoreError]:
        """Return by store its answer, or its error. Raises the first error if no store answers."""
        found = self._together([partial(store.ask, query) for store in self.stores])
        if all(isinstance(one, StoreError) for one in found):
            intact(found)
        return dict(enumerate(found))

    # ---- writing ----------------------------------------------------------------------------------------------------

    def apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        """Apply commands in order, those for each store in one transaction; see the contract.

        The outcome of a command to a store that is away is that store's error. Raises the error if nothing else
        happened.
        """
        outcomes = sound(commands, self._apply)
        if outcomes and all(isinstance(outcome, StoreError) for outcome in outcomes):
            raise outcomes[0]
        return outcomes

    def _apply(self, commands: Sequence[c.Command[Any]]) -> list[Any]:
        outcomes: list[Any] = []
        now, here = self.clock.wall(), self._here
        if all(type(command) is c.Put and _is_plain(command) for command in commands):
            return self._put_here(commands, here)
        together = Round(self.ids, now)
        for command in commands:
            some = self._put(command, here) if isinstance(command, c.Put | c.Import) else _parts(self.ids, command)
            if some is not None:
                together.add(command, some)
                continue
            outcomes += together.outcomes(self.send(together.batches))
            together = Round(self.ids, now)
            try:
                outcomes.append(_STEPS[type(command)](self, command))
            except PywheelError as error:
                outcomes.append(error)
        outcomes += together.outcomes(self.send(together.batches))
        self._next(here)
        return outcomes

    def _put_here(self, puts: Sequence[Any], here: int) -> list[Any]:
        """Apply puts without keys and nonces, in one store."""
        self._left -= sum(len(put.jobs) for put in puts)
        try:
            found = self.stores[here].apply(puts)
        except StoreError:
            self._left = 0  # the next puts go elsewhere
            raise
        finally:
            self._next(here)
        return [ids if isinstance(ids, PywheelError) else self.ids.all_outer(here, ids) for ids in found]

    def _next(self, here: int) -> None:
        """Move on to the next store, if enough jobs were put into this one."""
        if self._left <= 0:
            self._here, self._left = (here + 1) % len(self.stores), _TURN

    def _put(self, put: c.Put | c.Import, here: int) -> list[Part] | None:
        """Return the store of a put, and its command; None if several stores decide."""
        deciding = {self.ids.of_key(job.topic, job.key) for job in _new_jobs(put) if job.key is not None}
        if put.nonce is not None:
            deciding.add(self.ids.of_nonce(put.nonce))
        if len(deciding) > 1:
            return None
        if not deciding:
            self._left -= len(put.jobs)
        store = deciding.pop() if deciding else here
        return [(store, _inner_put(self.ids, put, store))]

    # ---- looking ----------------------------------------------------------------------------------------------------

    def ask(self, query: q.Query[R]) -> R:
        """Return the answer to a query; see the contract."""
        if type(query) not in _ANSWERS:
            raise TypeError(f"a store takes queries here, not {type(query).__name__}")
        return _ANSWERS[type(query)](self, query)  # type: ignore[no-any-return]  # what the class of the query says

    def died(self, topics: Collection[str]) -> list[int]:
        """Return the ids of jobs that died with a lost lease: each store reports its own, and then forgets them.

        Raises the first error if no store that answers has any.
        """
        answers = self._together([partial(store.died, topics) for store in self.stores])
        found = [id for place, ids in _there(dict(enumerate(answers))) for id in self.ids.all_outer(place, ids)]
        if not found:
            intact(answers)
        return found

    def quiet(self, topic: str, seconds: float) -> bool:
        """Return True once no job claimed before the pause can start, False after `seconds` or if resumed."""
        return self.stores[0].quiet(topic, seconds)

    # ---- life -------------------------------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return facts about the first store's place, and the number of stores."""
        return {**self.stores[0].about(), "stores": len(self.stores)}

    def vacuum(self, pages: int) -> int:
        """Return the number of pages that were freed."""
        return sum(store.vacuum(pages) for store in self.stores)

    def verify(self, *, repair: bool = False) -> list[Finding]:
        """Return the faults of all stores, which are checked one after the other."""
        found: dict[tuple[str, bool], Finding] = {}
        for place, store in enumerate(self.stores):
            for finding in store.verify(repair=repair):
                ids = [self.ids.outer(place, one) if isinstance(one, int) else one for one in finding.examples]
                kind = finding.what, finding.repaired
                known = found.get(kind, finding._replace(number=0, examples=()))
                examples = (*known.examples, *ids)[:EXAMPLES]
                found[kind] = known._replace(number=known.number + finding.number, examples=examples)
        return list(found.values())

    def close(self) -> None:
        """Close all stores, and let the threads end."""
        for store in self.stores:
            store.close()
        self._threads.shutdown(wait=False)


def _fulfil(result: Future[R | StoreError], call: Callable[[], R]) -> None:
    """Call, unless that was cancelled, and set the result."""
    if result.set_running_or_notify_cancel():
        try:
            result.set_result(_tried(call))
        except BaseException as error:  # noqa: BLE001  (raised where the result is asked for)
            result.set_exception(error)


def _tried(call: Callable[[], R]) -> R | StoreError:
    try:
        return call()
    except StoreError as error:
        return error


def _is_plain(put: c.Put) -> bool:
    """Whether any store may take a put."""
    return put.nonce is None and all(job.key is None for job in put.jobs)


def _new_jobs(put: c.Put | c.Import) -> Sequence[NewJob]:
    return put.jobs if isinstance(put, c.Put) else [one.new for one in put.jobs]


def _inner_put(ids: Ids, put: c.Put | c.Import, store: int) -> c.Put | c.Import:
    """Return a put as its store gets it. A parent in that store gets its inner id; one elsewhere is dropped."""
    if isinstance(put, c.Import) or all(job.parent is None for job in put.jobs):
        return put
    jobs = []
    for job in put.jobs:
        if job.parent is not None:
            id, claims = job.parent
            job = job._replace(parent=(ids.inner(id), claims) if ids.store(id) == store else None)
        jobs.append(job)
    return replace(put, jobs=tuple(jobs))


# ---- commands in parts ----------------------------------------------------------------------------------------------


class Round:
    """Commands that go out at once, each to one store or to some. Each job passes here: the code is fast."""

    def __init__(self, ids: Ids, now: int) -> None:
        self._ids = ids
        self._now = now
        self.batches: dict[int, list[c.Command[Any]]] = {}
        """The commands for each store, in order."""
        self._asked: list[tuple[c.Command[Any], list[tuple[int, int]]]] = []

    def add(self, command: c.Command[Any], parts: Sequence[Part]) -> None:
        """Add a command, in parts for the stores."""
        batches, places = self.batches, []
        for store, part in parts:
            if store not in batches:
                batches[store] = []
            places.append((store, len(batches[store])))
            batches[store].append(part)
        self._asked.append((command, places))

    def outcomes(self, answers: Answers) -> Iterator[Any]:
        """Yield the outcomes of the commands, in order."""
        for command, places in self._asked:
            store, place = places[0]
            answer = answers[store]
            outcome = answer[place] if type(answer) is list else answer
            if outcome is True:  # the usual outcome
                yield outcome
            elif type(command) is c.Claim:
                found = [(store, _outcome(answers[store], place)) for store, place in places]
                yield _claimed(self._ids, command, found, self._now)
            elif isinstance(outcome, PywheelError):
                yield _outer_error(self._ids, store, outcome)
            else:
                yield _outer_ids(self._ids, store, outcome) if type(command) in (c.Put, c.Import) else outcome


def _outcome(answer: list[Any] | StoreError, place: int) -> Any:
    return answer[place] if type(answer) is list else answer


def _parts(ids: Ids, command: c.Command[Any]) -> list[Part] | None:
    """Return each store's part of a command that is not a put; None if that takes several steps."""
    if isinstance(command, c.Claim) and (command.limit > 0 or command.policy.limits is not None):
        return None
    split = _SPLIT.get(type(command))
    return None if split is None else split(ids, command)


def _by_ref(ids: Ids, command: Any) -> list[Part]:
    store, ref = ids.of(command.ref)
    return [(store, replace(command, ref=ref))]


def _by_id(ids: Ids, command: Any) -> list[Part]:
    """Return the part of a command on an id. Much faster than `replace`."""
    kind = type(command)
    id, *rest = _FIELDS_OF[kind](command)
    return [(ids.store(id), kind(ids.inner(id), *rest))]


_NAMED: Final[tuple[Any, ...]] = (c.Rewrite, c.Begin, c.Ack, c.Nack, c.Release, c.Touch)
_FIELDS_OF: Final = {kind: attrgetter(*kind.__slots__) for kind in _NAMED}


def _claim_ids(ids: Ids, command: c.Claim) -> list[Part]:
    """Return the parts of a claim by ids. The first ids may begin, suspects go to one store, bytes are divided."""
    by_store: dict[int, list[int]] = {}
    begins: Counter[int] = Counter()
    for place, (store, inner) in enumerate(ids.split(command.ids)):
        by_store.setdefault(store, []).append(inner)
        begins[store] += place < command.begin
    if len(by_store) < 2:
        [(store, some)] = by_store.items() or [(0, [])]
        return [(store, replace(command, ids=tuple(some)))]
    turn, most = randrange(len(by_store)), command.bytes // len(by_store)
    return [
        (
            store,
            replace(
                command,
                ids=tuple(some),
                begin=begins[store],
                suspects=command.suspects * (place == turn),
                bytes=most,
            ),
        )
        for place, (store, some) in enumerate(by_store.items())
    ]


_SPLIT: Final[dict[type, Callable[[Ids, Any], list[Part]]]] = {
    **dict.fromkeys((c.Cancel, c.Edit, c.Retry, c.Delete), _by_ref),
    **dict.fromkeys(_NAMED, _by_id),
    c.SetNote: lambda ids, command: [(ids.of_note(command.name), command)],
    c.Claim: _claim_ids,
}


# ---- outcomes -------------------------------------------------------------------------------------------------------


def _outer_ids(ids: Ids, store: int, found: Sequence[int]) -> list[int]:
    """Return a store's ids as outer ids, or the outer ids that it has noted: see `_put_several`."""
    if not found or found[0] > 0:
        return ids.all_outer(store, found)
    return [_NOTED - id for id in found]


def _outer_job(ids: Ids, store: int, job: Job) -> Job:
    return _new(Job, (ids.outer(store, job[0]), *job[1:]))


def _outer_dues(ids: Ids, store: int, found: Sequence[Due]) -> list[Due]:
    outer = ids.all_outer(store, [due.id for due in found])
    return [_new(Due, (due, id, *where)) for (due, _, *where), id in zip(found, outer, strict=True)]


def _outer_error(ids: Ids, store: int, error: PywheelError) -> PywheelError:
    if isinstance(error, JobExists) and error.id:
        id = ids.outer(store, error.id)
        return JobExists(str(error).replace(f"job {error.id} ", f"job {id} ", 1), id)
    return error


def _claimed(ids: Ids, command: Any, found: Sequence[tuple[int, Any]], now: int) -> Any:
    """Return the outcome of a claim. Ids of a store that did not answer are left, if others answered."""
    begun: list[Job] = []
    held: list[Job] = []
    left: list[Due] = []
    paused, failed = False, None
    nexts: list[int] = []
    for store, outcome in found:
        if isinstance(outcome, PywheelError):
            failed = outcome
            nexts.append(now + _AGAIN)
            left += [Due(now + _AGAIN, id, command.topic) for id in command.ids if ids.store(id) == store]
            continue
        jobs = [_outer_job(ids, store, job) for job in outcome.jobs]
        begun += jobs[: outcome.begun]
        held += jobs[outcome.begun :]
        left += _outer_dues(ids, store, outcome.left)
        paused |= outcome.paused
        nexts += [] if outcome.next is None else [outcome.next]
    if failed is not None and not (begun or held):
        return failed
    if len(found) > 1:
        begun.sort(key=rank)
        held.sort(key=rank)
        # Due jobs come in the order of claims, then the others.
        left.sort(key=lambda due: (due.due > now, 0 if due.due > now else -due.priority, due))
    paused &= not (begun or held)
    first = min(nexts, default=None) if command.limit > 0 and not paused else None
    return c.Claimed(begun + held, len(begun), left, paused, next=first)


# ---- commands in steps: one store must have answered before the next is asked ---------------------------------------


def _refuse_limits(store: SeveralStore, policy: c.ClaimPolicy) -> None:
    """Refuse a claim with limits: each store would count its own jobs."""
    if policy.limits is not None:
        raise BadOption(f"limit= and rate= want one store, and {store.url} is {len(store.stores)}: leave out ?stores=")


def _reserve(store: SeveralStore, command: c.Reserve) -> list[Job]:
    """Look where the first jobs are, and reserve as many in each store.

    With `bytes` the stores follow each other, from that of the first job on: each uses up some of the next one's bytes.
    """
    _refuse_limits(store, command.policy)
    leases = [inner.ask(q.GetNextLease()) for inner in store.stores]
    now = store.clock.wall()  # after an answer: a server's clock is unknown before
    over = [place for place, lease in enumerate(leases) if lease is not None and lease <= now]
    while over:
        ended = store.send_one(dict.fromkeys(over, c.Expire(_SOME)))
        over = [place for place, done in _there(ended) if done.ended == _SOME]
    shares = Counter(store.ids.store(due.id) for due in store.ask(q.ListFirstDue(command.topic, command.limit)))
    parts = {place: replace(command, limit=share) for place, share in shares.items()}
    jobs, failed, most = list[Job](), None, command.bytes
    for some in [parts] if most is None else [{place: part} for place, part in parts.items()]:
        left = None if most is None else most - sum(len(job.body) for job in jobs)
        least = command.least - len(jobs)
        wanted = {place: replace(part, bytes=left, least=least) for place, part in some.items()}
        for place, answer in store.send_one(wanted).items():
            if isinstance(answer, StoreError):
                failed = answer
            else:
                jobs += [_outer_job(store.ids, place, job) for job in answer]
    if failed is not None and not jobs:
        raise failed
    return sorted(jobs, key=rank)


def _claim(store: SeveralStore, command: c.Claim) -> c.Claimed:
    """Claim the first due jobs: each store gives its share, and then stores with more jobs give the rest."""
    _refuse_limits(store, command.policy)
    now = store.clock.wall()
    answers = store.try_each(q.GetNextDues([command.topic]))
    found: list[tuple[int, Any]] = [(place, one) for place, one in answers.items() if isinstance(one, StoreError)]
    nexts = {place: answer[command.topic] for place, answer in _there(answers) if command.topic in answer}
    ready = sorted((place for place, due in nexts.items() if due <= now + _AHEAD), key=nexts.__getitem__)
    ready = ready or [0]  # of a topic without jobs the first store says whether it is paused
    limit, begin, most, suspects = command.limit, max(command.begin, 0), command.bytes, max(command.suspects, 0)
    while ready and limit > 0:
        some, ready = ready[:limit], ready[limit:]
        tried = choice(some)
        parts = {
            place: _share(store.ids, command, place, share, begins, most // len(some), suspects * (place == tried))
            for place, share, begins in zip(some, _divided(limit, some), _divided(begin, some), strict=True)
        }
        for place, one in store.send_one(parts).items():
            nexts.pop(place, None)
            if isinstance(one, c.Claimed):
                limit -= len(one.jobs)
                begin -= one.begun
                most -= sum(len(job.body) for job in one.jobs)
                suspects -= sum(job.lost == LOST_BEGUN for job in one.jobs)
                if one.next is not None:
                    nexts[place] = one.next
                    if len(one.jobs) == parts[place].limit and one.next <= now + _AHEAD:
                        ready.append(place)
                one = one._replace(next=None)
            found.append((place, one))
        if most <= 0:
            break
    outcome = _claimed(store.ids, command, found, now)
    if isinstance(outcome, PywheelError):
        raise outcome
    dues = [*nexts.values(), *([] if outcome.next is None else [outcome.next])]
    merged: c.Claimed = outcome._replace(next=None if outcome.paused else min(dues, default=None))
    return merged


def _there(answers: Mapping[int, R | StoreError]) -> list[tuple[int, R]]:
    """Return the answers of the stores that answered."""
    return [(place, answer) for place, answer in answers.items() if not isinstance(answer, StoreError)]


def _divided(number: int, among: Sequence[int]) -> list[int]:
    """Return a number in as many parts; the first of them are the larger ones."""
    share, more = divmod(number, len(among))
    return [share + (place < more) for place in range(len(among))]


def _share(ids: Ids, command: c.Claim, place: int, limit: int, begin: int, most: int, suspects: int) -> c.Claim:
    """Return one store's part of a claim without ids."""
    after = command.after
    if after is not None:
        after = (after[0], after[1], max(ids.after(place, max(after[2], 0)), 0))
    without = tuple(ids.inner(id) for id in command.without if ids.store(id) == place)
    return replace(
        command, limit=limit, begin=begin, bytes=most, suspects=suspects, after=after, without=without, ids=()
    )


def _purge(store: SeveralStore, command: c.Purge) -> int:
    """Purge store by store, in any order, until the limit is reached.

    A store that is away is left out, unless all are.
    """
    gone, failed = 0, list[StoreError]()
    for place in sample(range(len(store.stores)), len(store.stores)):
        if gone >= command.limit:
            break
        try:
            gone += outcome_of(store.stores[place], replace(command, limit=command.limit - gone))
        except StoreError as error:
            failed.append(error)
    if len(failed) == len(store.stores):
        raise failed[0]
    return gone


def _expire(store: SeveralStore, command: c.Expire) -> c.Expired:
    """End leases store by store, in any order.

    A store that is away is left out, unless all are.
    """
    ended, leases, dead, failed = 0, list[int](), list[int](), list[StoreError]()
    for place in sample(range(len(store.stores)), len(store.stores)):
        try:
            expired = outcome_of(store.stores[place], c.Expire(command.limit - ended))
        except StoreError as error:
            failed.append(error)
            continue
        ended += expired.ended
        leases += [expired.next_lease] if expired.next_lease is not None else []
        dead += store.ids.all_outer(place, expired.dead)
    if len(failed) == len(store.stores):
        raise failed[0]
    return c.Expired(ended, min(leases, default=None), tuple(sorted(dead)))


def _pause(store: SeveralStore, command: c.Pause) -> bool:
    """Pause in the first store last: workers look there, and report to be quiet once no store allows a claim."""
    changed = store.send_others(command)
    return any([outcome_of(store.stores[0], command), *changed])


def _announce(store: SeveralStore, command: c.Announce) -> None:
    """Announce in the first store first: a worker in another one, and not there, is gone."""
    outcome_of(store.stores[0], command)
    store.send_others(command)


def _put_several(store: SeveralStore, put: c.Put | c.Import) -> list[int]:
    """Apply a put whose keys, or whose key and nonce, are decided by different stores.

    The nonce's store notes the outer ids as negative numbers, to tell them from ids of its own.
    """
    ids, nonce = store.ids, put.nonce
    fingerprint = f"m{put.fingerprint}" if isinstance(put, c.Put) and put.fingerprint is not None else None
    if nonce is not None:
        home = ids.of_nonce(nonce)
        known = store.stores[home].nonce(nonce)
        if known is not None:
            return _outer_ids(ids, home, same_ids(known, fingerprint))
    # Jobs without a key go with the first job that has one.
    of = [None if job.key is None else ids.of_key(job.topic, job.key) for job in _new_jobs(put)]
    first = next(place for place in of if place is not None)
    by_store: dict[int, list[int]] = {}
    for number, place in enumerate(of):
        by_store.setdefault(first if place is None else place, []).append(number)
    found = _put_parts(store, put, by_store)
    if nonce is not None:
        store.stores[home].nonce(nonce, fingerprinted([_NOTED - id for id in found], fingerprint))
    return found


def _put_parts(store: SeveralStore, put: c.Put | c.Import, by_store: dict[int, list[int]]) -> list[int]:
    """Put each store's jobs there. If there are several stores, each is first asked whether it would take them."""
    nonce = None if put.nonce is None else blake2b(put.nonce.encode()).hexdigest()  # the nonce of the parts
    puts = {
        place: _inner_put(store.ids, _part_of(put, [put.jobs[number] for number in numbers], nonce), place)
        for place, numbers in by_store.items()
    }
    if len(puts) > 1:
        never = _NEVER if isinstance(put, c.Put) else _NEVER_IMPORTED
        looks = store.send_one({place: _part_of(put, [*part.jobs, *never], nonce) for place, part in puts.items()})
        for place, refused in zip(looks, intact([*looks.values()]), strict=True):
            if isinstance(refused, JobExists) and _NAME not in str(refused):
                raise _outer_error(store.ids, place, refused)
    found = store.send_one(puts)
    failed = [(place, outcome) for place, outcome in found.items() if isinstance(outcome, PywheelError)]
    refused = [(place, error) for place, error in failed if not isinstance(error, StoreError)]
    if failed:
        if nonce is None or refused:  # else the put comes again, and completes the rest
            # Another caller took a key meanwhile: the new jobs of the other parts are deleted.
            for place, ids in found.items():
                if nonce is not None and not isinstance(ids, PywheelError):
                    store.stores[place].forget(nonce)
            store.send(
                {
                    place: [
                        c.Delete(id) for id, job in zip(ids, _new_jobs(puts[place]), strict=True) if not job.replace
                    ]
                    for place, ids in found.items()
                    if not isinstance(ids, PywheelError)
                }
            )
        [place, error], *_ = refused or failed
        raise _outer_error(store.ids, place, error)
    result = [0] * len(put.jobs)
    for place, numbers in by_store.items():
        for number, id in zip(numbers, _outer_ids(store.ids, place, found[place]), strict=True):
            result[number] = id
    return result


def _part_of(put: c.Put | c.Import, jobs: Sequence[Any], nonce: str | None) -> c.Put | c.Import:
    """Return a command of the same kind with other jobs."""
    return replace(put, jobs=tuple(jobs), nonce=nonce)  # type: ignore[arg-type]  # jobs of that kind


_NAME: Final = "pywheel: only looked at"
_NEVER: Final = (NewJob(_NAME, b"", 0, _NAME),) * 2
_NEVER_IMPORTED: Final = (Imported(Job(0, _NAME, b"", 0, 0, State.DELAYED, _NAME)),) * 2
"""Jobs with which a put is always refused: the refusal shows whether the rest alone would be accepted."""


_STEPS: Final[dict[type, Callable[[SeveralStore, Any], Any]]] = {
    c.Put: _put_several,
    c.Import: _put_several,
    c.Reserve: _reserve,
    c.Claim: _claim,
    c.Purge: _purge,
    c.Expire: _expire,
    c.Pause: _pause,
    c.Announce: _announce,
}


# ---- answers: each store is asked for its part; for a key or an id one store is enough ------------------------------


def _job(store: SeveralStore, query: q.GetJob) -> Job | None:
    place, ref = store.ids.of(query.ref)
    job = store.stores[place].ask(q.GetJob(ref))
    return None if job is None else _outer_job(store.ids, place, job)


def _with_jobs_of(store: SeveralStore, filter: q.Filter) -> Sequence[int]:
    """Return the stores that may have a filter's jobs: one store has all that ever had a topic's key."""
    if filter.topic is None or filter.key is None:
        return range(len(store.stores))
    return [store.ids.of_key(filter.topic, filter.key)]


def _jobs(store: SeveralStore, query: q.ListJobs) -> list[Job]:
    ids, after = store.ids, clamped(query.after)
    queries = {place: replace(query, after=ids.after(place, after)) for place in _with_jobs_of(store, query.filter)}
    answers = zip(queries, store.ask_some(queries), strict=True)
    found = [_outer_job(ids, place, job) for place, some in answers for job in some]
    return sorted(found)[: max(query.limit, 0)] if len(queries) > 1 else found


def _of_each(store: SeveralStore, query: Any) -> list[Any]:
    """Return the stores' answers about jobs, in the order of the ids. Each store is asked once."""
    where = store.ids.split(query.ids)
    by_store: dict[int, list[int]] = {}
    for place, inner in where:
        by_store.setdefault(place, []).append(inner)
    answers = store.ask_some({place: replace(query, ids=ids) for place, ids in by_store.items()})
    found = {place: iter(answer) for place, answer in zip(by_store, answers, strict=True)}
    return [next(found[place]) for place, _ in where]


def _counts(store: SeveralStore, query: q.CountJobs) -> dict[str, Counts]:
    found: dict[str, Counts] = {}
    for topic, numbers in chain.from_iterable(counts.items() for counts in store.ask_each(query)):
        found[topic] = Counts(*map(sum, zip(found.get(topic, Counts()), numbers, strict=True)))
    return dict(sorted(found.items()))


def _topics(store: SeveralStore, query: q.ListTopics) -> list[Topic]:
    """Return all topics. A topic that is paused in some store is paused."""
    found: dict[str, Topic] = {}
    for name, paused, some in chain.from_iterable(store.ask_each(query)):
        before = found.get(name, Topic(name, paused=False))
        both = sorted({*before.priorities, *some}, reverse=True)
        found[name] = Topic(name, before.paused or paused, tuple(both))
    return sorted(found.values())


def _forecast(store: SeveralStore, query: q.GetForecast) -> list[int]:
    return [min(sum(jobs), query.most) for jobs in zip(*store.ask_each(query), strict=True)]


def _ended(store: SeveralStore, query: q.ListEnded) -> list[q.Ended]:
    outer, found = store.ids.outer, enumerate(store.ask_each(query))
    return latest((one._replace(id=outer(place, one.id)) for place, some in found for one in some), query.most)


def _note(store: SeveralStore, query: q.GetNote) -> bytes | None:
    note_name(query.name)
    return store.stores[store.ids.of_note(query.name)].ask(query)


def _notes(store: SeveralStore, query: q.ListNotes) -> list[tuple[str, bytes]]:
    return sorted(chain.from_iterable(store.ask_each(query)))[: max(clamped(query.limit), 0)]


# A worker goes on with the stores that answer: it asks again within a second.


def _next_lease(store: SeveralStore, query: q.GetNextLease) -> int | None:
    return min((end for _, end in _there(store.try_each(query)) if end is not None), default=None)


def _next_dues(store: SeveralStore, query: q.GetNextDues) -> dict[str, int]:
    found: dict[str, int] = {}
    for topic, due in chain.from_iterable(dues.items() for _, dues in _there(store.try_each(query))):
        found[topic] = min(due, found.get(topic, due))
    return found


def _first_due(store: SeveralStore, query: q.ListFirstDue) -> list[Due]:
    found = enumerate(store.ask_each(query))
    jobs = (due for place, some in found for due in _outer_dues(store.ids, place, some))
    return sorted(jobs, key=rank)[: max(query.limit, 0)]


def _claims(store: SeveralStore, query: q.ListClaims) -> list[tuple[int, int]]:
    found = enumerate(store.ask_each(query))
    return [(store.ids.outer(place, id), claims) for place, some in found for id, claims in some]


def _page(store: SeveralStore, query: q.GetPage) -> q.Page:
    """Return a page. Each store is asked for one, and they are merged as far as all stores were looked through."""
    ids, wanted = store.ids, asked(query)
    pages = {
        place: replace(query, after=wanted.cursor(_inner_place(ids, place, wanted)))
        for place in _with_jobs_of(store, query.filter)
    }
    parts: list[list[Any]] = []
    ends: list[Position] = []
    for number, found in zip(pages, store.ask_some(pages), strict=True):
        jobs = [_outer_job(ids, number, job) for job in found.jobs]
        parts.append([(wanted.place(job), job, size) for job, size in zip(jobs, found.sizes, strict=True)])
        if found.next is not None:
            last = asked(replace(query, after=found.next)).after
            ends.append(last._replace(id=ids.outer(number, last.id)))
    # Behind this place some store was not looked through.
    end: Position | None = None if not ends else max(ends) if query.newest else min(ends)
    merged = merge(*parts, key=lambda one: one[0], reverse=query.newest)
    reached = [one for one in merged if end is None or (one[0] >= end if query.newest else one[0] <= end)]
    taken = list(islice(reached, _most(reached, query.limit)))
    if len(taken) < len(reached):
        end = taken[-1][0]
    return q.Page(
        [job for _, job, _ in taken], None if end is None else wanted.cursor(end), [size for *_, size in taken]
    )


def _most(found: Sequence[Any], limit: int) -> int:
    """Return how many of these jobs a page may hold."""
    held = 0
    for place, (_, job, _) in enumerate(found[:limit]):
        held += len(job.body)
        if held >= BYTES:
            return place + 1
    return limit


def _inner_place(ids: Ids, store: int, wanted: Asked) -> Position:
    """Return the place in one store whose later jobs are those behind the page's outer place."""
    due, id = wanted.after
    return Position(due, ids.after(store, id - 1) + 1 if wanted.newest else max(ids.after(store, id), 0))


_ANSWERS: Final[dict[type, Callable[[SeveralStore, Any], Any]]] = {
    q.GetJob: _job,
    q.ListJobs: _jobs,
    q.GetPage: _page,
    q.GetHistories: _of_each,
    q.GetStates: _of_each,
    q.CountJobs: _counts,
    q.ListTopics: _topics,
    q.GetForecast: _forecast,
    q.ListEnded: _ended,
    q.GetNote: _note,
    q.ListNotes: _notes,
    q.GetNextLease: _next_lease,
    q.GetNextDues: _next_dues,
    q.ListFirstDue: _first_due,
    q.ListClaims: _claims,
    q.ListWorkers: lambda store, query: store.stores[0].ask(query),
}

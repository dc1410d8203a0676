"""Claiming: find the due jobs and lock them, choose by `lifecycle` and `limits`, and start the chosen ones.

A claim delivers the rows that it read with the lock. If a put replaces a job meanwhile, the claim either reads the new
body or comes first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, Final, NamedTuple

from ...jobs import lifecycle
from ...jobs.checks import FURTHEST
from ...jobs.commands import Claim, Claimed, Reserve
from ...jobs.job import KEPT, Due, Job
from ...jobs.lifecycle import LOST_BEGUN
from ...jobs.limits import Gate, ShutGate, looked_at, note_of
from ..checks import IDS, clamped
from .notes import set_note
from .read import priorities_of
from .rows import FOUND, TAKEN, Found, found_of, listed, taken_of
from .settle import expire_all, expire_among
from .statement import Insert, Last, Rows, Select, Statement, Steps, WriteJobs, drive_all, once_each
from .transaction import Look, Transaction

_ALL: Final = 65_536  # bytes per job that a claim must allow for bodies to be read at once
_SMALL: Final = 256  # bytes: larger bodies are read only once their jobs are chosen
_LOOKED: Final = " ".join(FOUND)
_TAKEN: Final = " ".join(TAKEN)
_BEYOND: Final = 64  # jobs that a claim looks at beyond twice its limit: others may have locked them
_LOOK_AGAIN: Final = 1_000  # ms after which a claim looks again for earlier jobs
_LATER: Final = 100  # ms after which a worker asks again for a job that another transaction had locked


_TTR, _MOST_ATTEMPTS = KEPT.index("ttr"), KEPT.index("max_attempts")


_by_due: Final = attrgetter("due", "id")
_size: Final = attrgetter("size")
_backoff: Final = lru_cache(partial(lifecycle.backoff, jitter=0, draw=0))


def _look(source: str, body: str = "j.body") -> str:
    columns = listed(FOUND, "j", due="j.next", size="length(j.body)", body=body)
    return f"SELECT {columns} FROM {source}"


_SMALL_ONES: Final = "CASE WHEN length(j.body) <= :small THEN j.body END"


class _Topic(NamedTuple):
    number: int
    paused: int
    lanes: int
    now: int


_BY_ID: Final = "{w: id} {each job j: j.id = w.id AND +j.state = 0 AND %s}"


def _state(number: int) -> Select:
    return Select("SELECT id, paused, lanes, {now} FROM topic WHERE id = :topic", {"topic": number})


# ---- by the index ---------------------------------------------------------------------------------------------------


def reserve(tx: Transaction, commands: Sequence[Reserve]) -> Steps[list[list[Job]]]:
    """Claim due jobs of a topic, and begin them."""
    outcomes: list[list[Job]] = []
    for command in commands:
        limit = clamped(command.limit)
        numbers = yield from tx.numbers((command.topic,))
        if command.topic not in numbers or limit <= 0:
            outcomes.append([])
            continue
        number, bounded = numbers[command.topic], bool(tx.dialect.take)
        limits = command.policy.limits
        whole = limits is None and command.bytes is None
        most = looked_at(limit, limits) + (_BEYOND if limits is not None and tx.dialect.skip else 0)
        small = None if whole else _SMALL
        look = partial(_due, tx, number, most, small, lock=limits is None)
        lapsed = tx.lapsed
        if lapsed and not (bounded and tx.topics.heads.leases_wait(number)):
            yield from expire_all(tx, topic=number)
            lapsed = False
        topic, found, _ = yield from look(bounded=bounded)
        if lapsed and len(found) < most and not topic.paused:  # with enough due jobs, once a second is enough
            ended, _ = yield from expire_all(tx, topic=number)
            if ended:
                topic, found, _ = yield from look()
        if topic.paused:
            outcomes.append([])
            continue
        if limits is None:
            chosen: Sequence[Found]
            chosen, gate = found if whole else lifecycle.reserve(command, found, _size), None
        else:
            topic, chosen, gate = yield from _let_through(tx, topic, command, found, partial(_reserved, command))
        outcomes.append((yield from _start(tx, command, topic, chosen, len(chosen), gate)))
    return outcomes


def _reserved(command: Reserve, found: Sequence[Found], gate: Gate) -> list[Found]:
    return lifecycle.reserve(command, found, _size, lambda one: gate.admits(one.key, one.id))


@lru_cache
def _due_text(behind: bool, without: bool, suspects: bool, whole: bool, lock: bool) -> str:
    return _look(
        "job j WHERE j.state = 0 AND j.topic = :topic AND j.priority = :priority AND j.next <= {now} "
        f"{'AND j.next >= :due AND (j.next > :due OR j.id > :id)' if behind else ''} "
        f"{'AND NOT (j.id {in without})' if without else ''} {'' if suspects else f'AND j.lost < {LOST_BEGUN}'} "
        f"ORDER BY j.next, j.id LIMIT :most {'{skip j}' if lock else ''}",
        "j.body" if whole else _SMALL_ONES,
    )


def _first(where: str) -> str:
    """Return the due time of the first waiting job of a priority, as SQL. For a minimum a database may read all."""
    of = "job j WHERE j.state = 0 AND j.topic = :topic AND j.priority = :priority"
    return f"(SELECT j.next FROM {of} AND {where} ORDER BY j.next, j.id LIMIT 1)"


_NEXT: Final = f"SELECT {_first('j.next > {now}')} AS next"
_EARLIER: Final = f"{_first('j.next >= :since AND j.next < :until')} AS earlier"


def _due(
    tx: Transaction,
    number: int,
    most: int,
    small: int | None,
    *,
    lock: bool,
    after: tuple[int | None, int, int] | None = None,
    without: Collection[int] = (),
    suspects: bool = True,
    probe: bool = False,
    bounded: bool = False,
) -> Steps[tuple[_Topic, list[Found], int | None]]:
    """Return a topic, up to `most` of its due jobs in order, and, with `probe`, the next due time.

    With `lock` the jobs are locked. The look skips jobs up to the place `after`, the ids `without` and, unless
    `suspects` is set, suspects. Bodies longer than `small` are left out. The next due time is now if there may be more
    jobs. A `bounded` look begins where `Heads` says.
    """
    heads, looks = tx.topics.heads, dict[int, Look]()

    def look(priority: int, most: int) -> list[Rows]:
        where: dict[str, Any] = {"topic": number, "priority": priority}
        place = after[1:] if after is not None and after[0] in (None, priority) else None
        batch = [Rows("next", _NEXT, where)] if probe else []
        if bounded:
            head, since, until = looks[priority] = heads.look(number, priority)
            batch.append(Rows("earlier", f"SELECT {_EARLIER}", {**where, "since": since, "until": until}))
            place = place if head is None else (head, -1)
        values = {**where, "most": most, "small": small, **_beyond(place, without)}
        text = _due_text(place is not None, bool(without), suspects, small is None, lock)
        return [Rows(_LOOKED, text, values), *batch]

    known = tx.topics.lanes.get(number, 0)
    answer = yield (_state(number),) if known else (_state(number), *look(0, most))
    topic = _Topic(*answer[0][0])
    tx.topics.lanes[number] = topic.lanes  # they only grow, and nobody can roll back the ones read here
    all_of_them = priorities_of(topic.lanes)
    passed = [one for one in all_of_them if after is not None and after[0] is not None and one > after[0]]
    nexts, found = list[int](), list[Found]()
    for priority in all_of_them[len(passed) :]:
        began = time.monotonic()
        if known or all_of_them != (0,):  # leases begin at the look that found the jobs, not a trip before
            answer = yield (_state(number), *look(priority, most - len(found)))
            topic = _Topic(*answer[0][0])
        seen = answer[1:]
        some = found_of(seen[0])
        if bounded:
            due = some[0].due if some else topic.now
            heads.found(number, priority, looks[priority], due, len(some), began, seen[-1][0][0])
        found += some
        if len(found) >= most:
            return topic, found, topic.now
        nexts += [due for [due] in seen[1] if due is not None] if probe else []
        if bounded and looks[priority].first is not None:
            nexts.append(topic.now if seen[-1][0][0] is not None else topic.now + _LOOK_AGAIN)
    if probe and passed:
        answer = yield [Rows("next", _NEXT, {"topic": number, "priority": priority}) for priority in passed]
        nexts += [due for [[due]] in answer if due is not None]
    return topic, found, min(nexts, default=None)


def _beyond(place: tuple[int, int] | None, without: Collection[int]) -> dict[str, Any]:
    """Return the values of a look that skips jobs up to a place, and some ids."""
    values: dict[str, Any] = {} if place is None else {"due": clamped(place[0]), "id": clamped(place[1])}
    return {**values, "without": sorted(without)} if without else values


def _first_due(tx: Transaction, number: int, command: Claim) -> Steps[tuple[_Topic, list[Found], int | None]]:
    """Return a topic, the due jobs for a claim without ids, in order, and the next due time."""
    limits = command.policy.limits
    limited, walks = limits is not None, limits is not None and limits.per is not None
    most, suspects = clamped(command.limit), max(command.suspects, 0)
    small = None if command.bytes >= _ALL * most else command.bytes // most
    if limited:
        small = min(_SMALL if small is None else small, _SMALL)  # the limit may hold back most of them
    look = partial(
        _due, tx, number, small=small, lock=not limited, after=command.after, without=command.without, probe=True
    )
    # A worker takes a walk through groups to have seen all due jobs.
    bounded = bool(tx.dialect.take) and not walks and command.after is None and not command.without
    topic, found, first = yield from look(most=most, bounded=bounded)
    if len(found) == most and sum(one.lost == LOST_BEGUN for one in found) > suspects:
        tried = [one for one in found if one.lost == LOST_BEGUN]
        topic, others, first = yield from look(most=max(most - suspects, 1), suspects=False)
        found = sorted(tried + others, key=lifecycle.rank)
    return topic, found, first


# ---- by ids ---------------------------------------------------------------------------------------------------------


def claim(tx: Transaction, commands: Sequence[Claim]) -> Steps[list[Claimed]]:
    """Claim jobs, as far as the policy allows. Commands of other kinds begin once all of that is done."""
    outcomes: list[Claimed] = []
    for part in once_each(commands, lambda command: (command.topic,)):
        outcomes += yield from drive_all([_claim(tx, command) for command in part])
    return outcomes


def _claim(tx: Transaction, command: Claim) -> Steps[Claimed]:
    numbers = yield from tx.numbers((command.topic,))
    number = numbers.get(command.topic)
    if number is None:
        return Claimed([], 0, [], paused=False)
    picked = command.limit <= 0 or command.after is not None or command.without or command.policy.limits is not None
    if tx.dialect.take and number in tx.topics.lanes and not picked:  # the first due jobs, whichever they are
        claimed = yield from _take(tx, number, command)
        if claimed is not None:
            return claimed
    others: Sequence[Any] = ()
    first, early = None, list[Found]()
    if command.limit > 0:
        topic, ready, first = yield from _first_due(tx, number, command)
    else:
        topic, found, others = yield from _known(tx, number, command)
        ready = [one for one in found if one.due <= topic.now]
        early = [one for one in found if one.due > topic.now]
    if topic.paused:
        return Claimed([], 0, [], paused=True)
    if command.policy.limits is None:
        (taken, begun), gate = _chosen(command, ready), None
    else:
        topic, taken, gate = yield from _let_through(
            tx, topic, command, ready, lambda some, gate: _chosen(command, some, gate)[0]
        )
        begun = len(taken)
    chosen = {one.id for one in taken}
    left = [one for one in ready if one.id not in chosen] + sorted(early, key=_by_due)
    jobs = yield from _start(tx, command, topic, taken, begun, gate, last=True)
    dues = [Due(one.due, one.id, command.topic, one.priority) for one in left]
    dues += [Due(max(due, topic.now + _LATER), id, command.topic, priority) for id, priority, due in others]
    again, full = (None, ()) if gate is None else (gate.again, gate.full)
    return Claimed(jobs, begun, dues, paused=False, again=again, full=full, next=first)


def _take(tx: Transaction, number: int, command: Claim) -> Steps[Claimed | None]:
    """Claim due jobs in one statement per priority. None if the claim has to choose among them."""
    workers = yield from tx.numbers((command.worker,), add=True, of=tx.workers)
    policy, lanes, most = command.policy, tx.topics.lanes[number], clamped(command.limit)
    delays = list(policy.backoff) or [0]
    values = {
        "topic": number, "lanes": lanes, "worker": workers[command.worker], "slack": policy.slack, "hold": policy.hold,
        "ttr": policy.ttr, "tries": policy.max_attempts, "delays": delays, "last": len(delays), "jitter": policy.jitter,
    }  # fmt: skip
    jobs, nexts, bytes_left = list[Job](), list[int](), command.bytes
    for priority in priorities_of(lanes):
        left = most - len(jobs)
        heads = tx.topics.heads
        head, since, until = look = heads.look(number, priority)
        place = {"topic": number, "priority": priority, "since": since, "until": until}
        more = {
            "priority": priority,
            "most": left,
            "reach": 2 * left + _BEYOND,
            "begin": max(command.begin - len(jobs), 0),
            "bytes": bytes_left,
            "first": -FURTHEST if head is None else head,
        }
        after = Rows("next earlier looked", f"{_NEXT}, {_EARLIER}, {tx.dialect.looked} AS looked", place)
        batch = (_state(number), Rows(_TAKEN, tx.dialect.take, values | more), after)
        began = time.monotonic()
        [[_, paused, now_lanes, now]], rows, [[next_, earlier, looked]] = yield batch if lanes else Last(batch)
        tx.seen = now
        if now_lanes != lanes and not jobs:
            return None  # then `_first_due` reads the priorities
        if paused and not rows:  # else the topic was resumed before the rows were taken
            break
        if rows:
            some = taken_of(command.topic, [*zip(*rows, strict=True)])
            some.sort(key=_by_due)
            jobs += some
            heads.found(number, priority, look, some[0].due, len(some), began, earlier)
            bytes_left -= sum([len(job.body) for job in some])
            tx.changes.leases = min([tx.changes.leases, *[job.lease_until or 0 for job in some]])
        elif looked:
            if not jobs:
                return None
            looked = left  # the next claim chooses among them
        else:
            heads.found(number, priority, look, now, 0, began, earlier)
        if looked == left or now_lanes != lanes:
            return Claimed(jobs, min(max(command.begin, 0), len(jobs)), [], paused=False, next=now)
        nexts += [] if next_ is None else [next_]
        nexts += [] if head is None else [now if earlier is not None else now + _LOOK_AGAIN]
    begun = min(max(command.begin, 0), len(jobs))
    paused = bool(paused) and not jobs
    return Claimed(jobs, begun, [], paused=paused, next=None if paused else min(nexts, default=None))


def _chosen(command: Claim, ready: Sequence[Found], gate: Gate | None = None) -> tuple[Sequence[Found], int]:
    """Return the due jobs to claim, and how many of them begin: under a limit all."""
    lost, sizes = [one.lost for one in ready], [one.size for one in ready]
    admits = None if gate is None else lambda place: gate.admits(ready[place].key, ready[place].id)
    choice = lifecycle.choose(lost, sizes, command.begin, command.suspects, command.bytes, admits)
    return ready if len(choice.taken) == len(ready) else [ready[place] for place in choice.taken], choice.begun


def _known(tx: Transaction, number: int, command: Claim) -> Steps[tuple[_Topic, list[Found], Sequence[Any]]]:
    """Return a topic, the command's jobs that wait, in order and locked, and the jobs that others have locked."""
    ids = sorted({id for id in command.ids if id in IDS})
    small = command.bytes // max(len(ids), 1)
    if command.policy.limits is not None:
        small = min(small, _SMALL)  # the limit may hold back most of them
    lock = "{skip j}" if command.policy.limits is None else ""
    text = _look(f"{_BY_ID % '+j.topic = :topic'} {lock}", _SMALL_ONES)
    looked = Rows(_LOOKED, text, {"w": [(id,) for id in ids], "topic": number, "small": small})
    [[row], rows] = yield (_state(number), looked)
    topic = _Topic(*row)
    if len(rows) < len(ids) and not topic.paused:
        missing = sorted({*ids}.difference([one.id for one in found_of(rows)]))
        ended, _ = yield from expire_among(tx, missing, skip=True)
        if ended:
            [rows] = yield (looked,)
    found = sorted(found_of(rows), key=lifecycle.rank)
    short = len(found) < len(ids) and not topic.paused
    return topic, found, (yield from _others(tx, number, ids, found)) if short else ()


def _others(tx: Transaction, topic: int, ids: Sequence[int], found: Sequence[Found]) -> Steps[list[Any]]:
    """Return id, priority and due time of the waiting jobs that another transaction has locked."""
    if not tx.dialect.skip:
        return []
    missing = sorted({*ids}.difference([one.id for one in found]))
    text = (
        "SELECT j.id, j.priority, j.next AS due FROM job j WHERE j.id {in ids} AND +j.topic = :topic AND +j.state = 0"
    )
    [rows] = yield (Rows("id priority due", text, {"ids": missing, "topic": topic}),)
    return list(rows)


# ---- limits ---------------------------------------------------------------------------------------------------------


def _gates(tx: Transaction, topic: _Topic, command: Reserve | Claim) -> Steps[Callable[[], Gate]]:
    """Return a function that makes a gate for the present limits of a topic.

    A claim under a limit locks the limit's row until the transaction ends. While another claim has the lock, nothing
    passes. Nobody waits for the lock: its owner may be a stopped process, and the transaction covers other topics as
    well.
    """
    limits = command.policy.limits
    assert limits is not None
    label = note_of(command.topic).encode()
    look = Select("SELECT n.value FROM note n WHERE n.label = :label {skip n}", {"label": label})
    shut = partial(ShutGate, limits, topic.now)
    if tx.dialect.skip:  # others may claim at once: a row is needed to lock before anybody has begun
        [rows] = yield (look,)
        if not rows:
            there = Select("SELECT 1 FROM note n WHERE n.label = :label", {"label": label})
            [known] = yield (there,)
            if known:
                return shut
            yield (Insert("note", ("label", "until", "value"), [(label, None, b"")], unless_taken=True),)
    keys = "SELECT j.key FROM job j WHERE j.state = 1 AND j.topic = :topic AND j.next > {now}"
    [rows, running] = yield (look, Rows("key", keys, {"topic": topic.number}))
    if tx.dialect.skip and not rows:
        return shut
    held = [key for [key] in running] if limits.most is not None else []
    return partial(Gate, limits, held, bytes(rows[0][0]) if rows else None, topic.now)


def _let_through(
    tx: Transaction,
    topic: _Topic,
    command: Reserve | Claim,
    found: Sequence[Found],
    choose: Callable[[Sequence[Found], Gate], Sequence[Found]],
) -> Steps[tuple[_Topic, Sequence[Found], Gate]]:
    """Return the jobs of a topic that pass the limits, locked, and their gate.

    Jobs that a limit holds back are not locked, unless others have locked jobs before them: then all are locked that
    can be, and if none of these passes, the ones behind them. Each choice has a gate of its own, as a job that does not
    begin must not count. The returned topic is as of the locking: the leases begin then.
    """
    gates = yield from _gates(tx, topic, command)
    gate = gates()
    chosen = choose(found, gate)
    if not chosen or not tx.dialect.skip:
        return topic, chosen, gate
    topic, locked = yield from _locked(topic, chosen)
    if len(locked) == len(chosen):
        return topic, locked, gate
    topic, locked = yield from _locked(topic, found)
    gate = gates()
    chosen = choose(locked, gate)
    if not chosen and isinstance(command, Claim) and command.limit > 0:
        without = (*command.without, *[one.id for one in found])
        _, found, _ = yield from _first_due(
            tx, topic.number, replace(command, limit=command.limit + _BEYOND, without=without)
        )
        topic, locked = yield from _locked(topic, found)
        gate = gates()
        chosen = choose(locked, gate)
    return topic, chosen, gate


def _locked(topic: _Topic, found: Sequence[Found]) -> Steps[tuple[_Topic, list[Found]]]:
    """Return a topic, and those of its due jobs that others have not locked, in their order."""
    text = _look(f"{_BY_ID % '+j.next <= {now}'} {{skip j}}", _SMALL_ONES)
    values = {"w": sorted((one.id,) for one in found), "small": _SMALL}
    [[row], rows] = yield (_state(topic.number), Rows(_LOOKED, text, values))
    locked = {one.id: one for one in found_of(rows)}
    return _Topic(*row), [locked[one.id] for one in found if one.id in locked]


# ---- starting -------------------------------------------------------------------------------------------------------


_START: Final = (
    "UPDATE job SET state = 1, claims = j.claims + 1, due = j.next, started = :started, worker = :worker, "
    "next = w.next, begun = w.begun, backoff = round(w.backoff * (1 + :jitter * {draw}))"
)
"""The claim of a job. The jitter is that of `lifecycle.backoff`; a test compares them."""


def _start(
    tx: Transaction,
    command: Reserve | Claim,
    topic: _Topic,
    found: Sequence[Found],
    begun: int,
    gate: Gate | None,
    *,
    last: bool = False,
) -> Steps[list[Job]]:
    """Claim these jobs; the first `begun` of them begin."""
    batch: list[Statement] = []
    if gate is not None and gate.changed:
        batch.append(set_note(note_of(command.topic).encode(), gate.value, None))
    if not found:
        if batch:
            yield Last(batch) if last else batch
        return []
    workers = yield from tx.numbers((command.worker,), add=True, of=tx.workers)
    policy, now, delays = command.policy, topic.now, tuple(command.policy.backoff)
    tx.seen = now
    dues, ids, created, *fields, before, unspent, lost, errors, _, bodies = zip(*found, strict=True)
    claims = [number + 1 for number in before]
    attempts = [*map(lifecycle.attempts, claims, unspent)]
    leases = [now + policy.slack + (ttr or policy.ttr) for ttr in fields[_TTR][:begun]]
    leases += [now + policy.hold] * (len(found) - begun)
    tries = [*zip(attempts, fields[_MOST_ATTEMPTS], strict=True)]
    again = {one: _backoff(delays, one[0]) if one[0] < (one[1] or policy.max_attempts) else None for one in {*tries}}
    begins = [1] * begun + [0] * (len(found) - begun)
    rows = sorted(zip(ids, leases, begins, [again[one] for one in tries], strict=True))
    jobs = taken_of(command.topic, [ids, bodies, dues, created, *fields, claims, attempts, leases, errors, lost])
    absent = [id for id, body in zip(ids, bodies, strict=True) if body is None] if None in bodies else []
    values = {"w": rows, "started": now, "worker": workers[command.worker], "jitter": policy.jitter}
    batch.append(WriteJobs(_START, "{w: id, next, begun, backoff}", "+j.state = 0", values))
    if absent:
        batch.append(Rows("id body", "SELECT j.id, j.body FROM job j WHERE j.id {in ids}", {"ids": absent}))
    tx.changes.leases = min(tx.changes.leases, *leases)
    answer = yield Last(batch) if last else batch
    if absent:
        read = dict(answer[-1])
        jobs = [job._replace(body=read[job.id]) if job.id in read else job for job in jobs]
    return jobs

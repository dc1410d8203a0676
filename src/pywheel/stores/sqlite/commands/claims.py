"""Claiming jobs, and making their leases longer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from ....jobs import lifecycle
from ....jobs.commands import Begin, Claim, Claimed, Reserve, Touch
from ....jobs.job import Due, Job, State
from ....jobs.limits import LOOKED_PAST, NONE, Gate, note_of, priorities
from ...checks import in_range
from ..transaction import Transaction
from .endings import held, settle_all_lost, settle_lost

__all__ = ["begin", "claim", "reserve", "touch"]

_RUNNING = State.RUNNING
_DUE = itemgetter(2, 0)
_PLAIN = (None,) * 9
"""What most jobs do not have: key, ttr, max_attempts, headers, claims, forgiven, lost, last error, priority."""
_SMALL: Final = 256  # bytes of a body that are read sooner than asked for
_PRIORITY: Final = 12
_SIZE: Final = 13


def reserve(transaction: Transaction, commands: Sequence[Reserve]) -> list[list[Job]]:
    """Claim what is due in a topic."""
    settle_all_lost(transaction)
    outcomes = []
    for command in commands:
        topic = transaction.row("topic_state", (command.topic,))
        open = topic is not None and not topic[1] and command.limit > 0
        rows = _due(transaction, topic, command) if open else []
        outcomes.append(_start(transaction, rows, len(rows), command))
    return outcomes


def _due(transaction: Transaction, topic: Any, command: Reserve) -> list[Any]:
    """Return the rows of what is to be claimed of a topic, in order."""
    gate = _gate(transaction, topic[0], command)
    most = command.limit if gate is None else max(command.limit, LOOKED_PAST)
    found = _found(transaction, topic, most, transaction.rows if command.bytes is None else transaction.each)
    if gate is None:
        return list(found) if command.bytes is None else lifecycle.reserve(command, found, _size)
    rows = lifecycle.reserve(command, found, _size, lambda row: gate.admits(row[4]))
    _shut(transaction, command.topic, gate)
    return rows


def _found(transaction: Transaction, topic: Any, most: int, read: Callable[..., Iterable[Any]]) -> Iterator[Any]:
    """Yield the rows of up to so many jobs that are due, in order."""
    number, _, lanes = topic
    if not lanes:
        yield from read("due_of_topic", (number, transaction.now, most))
        return
    for priority in priorities(lanes | NONE):
        if most > 0:
            lane = (priority,) if priority else ()
            for row in read("due_of_lane" if priority else "due_without", (number, transaction.now, *lane, most)):
                most -= 1
                yield row


def _size(row: Any) -> int:
    return len(row[1])


def _gate(transaction: Transaction, topic: int, command: Reserve | Claim) -> Gate | None:
    """Return what the limits of a topic let through now; `_shut` is to follow."""
    limits, now = command.terms.limits, transaction.now
    if limits is None:
        return None
    note = transaction.row("note", (note_of(command.topic).encode(),))
    running = transaction.rows("keys_running", (topic, now)) if limits.most is not None else []
    return Gate(limits, [key for [key] in running], note[0] if note else None, now)


def _shut(transaction: Transaction, topic: str, gate: Gate) -> None:
    """Keep what a gate has let through."""
    if gate.changed:
        transaction.run("note_set", (note_of(topic).encode(), None, gate.value))


def claim(transaction: Transaction, commands: Sequence[Claim]) -> list[Claimed]:
    """Claim known jobs, as far as they may be."""
    return [_claim(transaction, command) for command in commands]


def _claim(transaction: Transaction, command: Claim) -> Claimed:
    topic = transaction.row("topic_state", (command.topic,))
    if topic is None or topic[1]:
        return Claimed([], 0, [], paused=topic is not None)
    now = transaction.now
    ids = [*dict.fromkeys(filter(in_range, command.ids))]
    small = command.bytes // max(len(ids), 1)
    if command.terms.limits is not None:
        small = min(small, _SMALL)  # most of them may be left
    rows = _delayed(transaction, ids, topic[0], small)
    rows.sort(key=_DUE)
    ready = [row for row in rows if row[2] <= now]
    early = rows[len(ready) :]
    if topic[2]:
        ready.sort(key=_turn)
    lost, sizes = [row[10] or 0 for row in ready], [row[_SIZE] for row in ready]
    gate = _gate(transaction, topic[0], command)
    admits = None if gate is None else lambda place: gate.admits(ready[place][4], ready[place][0])
    choice = lifecycle.choose(lost, sizes, command.begin, command.suspects, command.bytes, admits)
    if gate is not None:
        _shut(transaction, command.topic, gate)
    left = [ready[place] for place in choice.left] + early
    jobs = _start(transaction, _whole(transaction, [ready[place] for place in choice.taken]), choice.begun, command)
    others = [Due(row[2], row[0], command.topic, row[_PRIORITY] or 0) for row in left]
    again, full = (None, ()) if gate is None else (gate.again, gate.full)
    return Claimed(jobs, choice.begun, others, paused=False, again=again, full=full)


def _turn(row: Any) -> int:
    return -(row[_PRIORITY] or 0)


def _delayed(transaction: Transaction, ids: list[int], topic: int, small: int) -> list[Any]:
    """Return the rows of those that are delayed, longer bodies left out; those whose lease is over are settled."""
    if not ids:
        return []
    asked = {"ids": json.dumps(ids), "topic": topic, "now": transaction.now, "small": small}
    listed, bodies = transaction.row("due_among", asked)
    rows, lost, end = [], [], 0
    for id, due, created, size, here, lease, more in json.loads(listed):
        end += size if here else 0
        if lease is None:
            body = bodies[end - size : end] if here else None
            rows.append((id, body, due, created, *(more or _PLAIN), size))
        elif lease <= transaction.now:
            lost.append(id)
    for id in lost:
        settle_lost(transaction, id)
    return rows + (_delayed(transaction, lost, topic, small) if lost else [])


def _whole(transaction: Transaction, rows: list[Any]) -> list[Any]:
    """Return the rows with their bodies."""
    if not any(row[1] is None for row in rows):
        return rows
    return [row if row[1] is not None else (row[0], *transaction.row("body_of", (row[0],)), *row[2:]) for row in rows]


def _start(transaction: Transaction, rows: list[Any], begun: int, command: Reserve | Claim) -> list[Job]:
    """Claim the rows found; so many begin. One statement for all: between two, other threads would get in."""
    if not rows:
        return []
    (ttr, most, backoff, jitter, slack, hold, _), now, attempts = command.terms, transaction.now, lifecycle.attempts
    jobs: list[Job] = []
    new, topic = tuple.__new__, command.topic
    for number, row in enumerate(rows):
        id, body, due, created, key, own_ttr, limit, headers, claims, forgiven, lost, error, priority, _ = row
        claim = (claims or 0) + 1
        jobs.append(
            new(  # without the function that a named tuple's own is
                Job,
                (
                    id,
                    topic,
                    body,
                    due,
                    created,
                    _RUNNING,
                    key,
                    own_ttr,
                    limit,
                    json.loads(headers) if headers else {},
                    claim,
                    attempts(claim, forgiven or 0),
                    now + ((own_ttr or ttr) + slack if number < begun else hold),
                    error,
                    lost or 0,
                    priority or 0,
                ),
            )
        )
    transaction.run(
        "start",
        {
            "now": now,
            "ttr": ttr,
            "slack": slack,
            "hold": hold,
            "begun": begun,
            "max_attempts": most,
            "first": backoff[0] if backoff else 0,
            "last": backoff[-1] if backoff else 0,
            "backoff": json.dumps(backoff),
            "jitter": jitter,
            "worker": transaction.workers.number(transaction.connection, command.worker),
            "ids": json.dumps([job.id for job in jobs]),
        },
    )
    transaction.leased(min([job.lease_until or now for job in jobs]))
    return jobs


# ---- leases ---------------------------------------------------------------------------------------------------------


def touch(transaction: Transaction, commands: Sequence[Touch]) -> list[bool]:
    """Let leases end later."""
    return _lease(transaction, commands, "lease")


def begin(transaction: Transaction, commands: Sequence[Begin]) -> list[bool]:
    """Note that handlers have begun with held jobs."""
    return _lease(transaction, commands, "begin")


def _lease(transaction: Transaction, commands: Sequence[Touch | Begin], statement: str) -> list[bool]:
    """Give claims new leases. Of several for one claim the last counts, unless an earlier one has ended it."""
    now = transaction.now
    leases: dict[int, int] = {}
    outcomes: list[bool] = []
    for command, claim in zip(commands, held(transaction, commands), strict=True):
        outcomes.append(claim is not None and leases.get(command.id, now + 1) > now)
        if outcomes[-1]:
            leases[command.id] = now + command.ttr
    if leases:
        if len(leases) == 1:
            [(id, lease)] = leases.items()
            transaction.run(f"{statement}_one", (lease, id))
        else:
            transaction.run(statement, (json.dumps(list(leases.items())),))
        transaction.leased(min(leases.values()))
    return outcomes

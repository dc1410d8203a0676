"""Ending claims: ack, nack, release, and leases that are over. What becomes of a job says `lifecycle`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ....jobs import lifecycle
from ....jobs.commands import NOTES_FORGOTTEN, Ack, Begin, Expire, Expired, Nack, Release, Touch
from ....jobs.job import Outcome, State
from ....jobs.lifecycle import Ending, Run
from ...checks import clamped, in_range, storable
from ...deaths import KEPT, word
from ..statements import SQL
from ..tally import DEAD, DONE, LIVE
from ..transaction import FINISHED, OUTCOMES, Transaction

__all__ = ["ack", "expire", "held", "nack", "release", "settle_all_lost", "settle_lost"]

_DEAD = FINISHED.index(State.DEAD)
_ALL = -1


class Running(NamedTuple):
    """A claim under way, with what its end needs."""

    job: int
    topic: int
    due: int
    run: Run


class Ended(NamedTuple):
    """A claim, and how it ends."""

    claim: Running
    ending: Ending
    outcome: Outcome
    at: int
    error: str | None = None


def _running(row: Any) -> Running:
    job, topic, claim, attempt, begun, lease, max_attempts, backoff, due = row
    return Running(job, topic, due, Run(claim, attempt, bool(begun), lease, max_attempts, backoff))


def held(transaction: Transaction, commands: Sequence[Nack | Release | Touch | Begin]) -> list[Running | None]:
    """Return the claim of each command, None where it is not held."""
    ids = list({command.id for command in commands if in_range(command.id)})
    if len(ids) == 1:
        rows = transaction.rows("run_of", ids)
    else:
        rows = transaction.rows("runs_among", (json.dumps(ids),)) if ids else []
    claims = {(row[0], row[2]): _running(row) for row in rows if transaction.now < row[5]}
    return [claims.get((command.id, command.claims)) for command in commands]


def _held_once(transaction: Transaction, commands: Sequence[Nack | Release]) -> list[Running | None]:
    """Return the same for commands that end a claim: a second one comes too late."""
    found = held(transaction, commands)
    seen: set[int] = set()
    once: list[Running | None] = []
    for claim in found:
        once.append(None if claim is None or claim.job in seen else claim)
        if claim is not None:
            seen.add(claim.job)
    return once


# ---- settling -------------------------------------------------------------------------------------------------------


def ack(transaction: Transaction, commands: Sequence[Ack]) -> list[bool]:
    """Make running jobs done; many by as few statements as one."""
    asked = json.dumps([command.id for command in commands])
    jobs, claims, topics = map(json.loads, transaction.row("held_among", (asked, transaction.now)))
    there = dict(zip(jobs, claims, strict=True))
    topic_of = dict(zip(jobs, topics, strict=True))
    outcomes: list[bool] = []
    done: list[int] = []
    kept: list[tuple[bytes, int, int]] = []
    for command in commands:
        outcomes.append(there.get(command.id) == command.claims)
        if outcomes[-1]:
            del there[command.id]  # a second ack of the same claim comes too late
            done.append(command.id)
            if command.result is not None:
                kept.append((command.result, command.id, command.claims))
    if done:
        for topic, count in Counter(map(topic_of.__getitem__, done)).items():
            transaction.tally.moved(topic, LIVE, DONE, count)
        ids = json.dumps(done)
        transaction.run("record_done", (transaction.now, ids))
        if kept:
            transaction.connection.executemany(SQL["keep_result"], kept)
        transaction.run("finish_done", (ids,))
        transaction.run("end_runs", (ids,))
    return outcomes


def nack(transaction: Transaction, commands: Sequence[Nack]) -> list[State | None]:
    """End claims without success."""
    now = transaction.now
    ended: list[Ended] = []
    outcomes: list[State | None] = []
    for command, claim in zip(commands, _held_once(transaction, commands), strict=True):
        if claim is None:
            outcomes.append(None)
            continue
        ending = lifecycle.failed(claim.run, now, command.delay)
        ended.append(Ended(claim, ending, Outcome.FAILED, now, storable(command.error)))
        outcomes.append(ending.state)
    _end(transaction, ended)
    return outcomes


def release(transaction: Transaction, commands: Sequence[Release]) -> list[bool]:
    """Give claims back, unspent."""
    claims = _held_once(transaction, commands)
    ending, now = lifecycle.RELEASED, transaction.now
    _end(transaction, [Ended(claim, ending, Outcome.RELEASED, now) for claim in claims if claim is not None])
    return [claim is not None for claim in claims]


def _end(transaction: Transaction, ended: Sequence[Ended]) -> None:
    """End claims, by a fixed number of statements."""
    if not ended:
        return
    rows = json.dumps([_row(end) for end in ended])
    transaction.run("record_ended", (rows,))
    transaction.run("end_claims", (rows,))
    transaction.run("end_runs_of", (rows,))
    for (job, topic, due, _), ending, _, _, _ in ended:
        if ending.state is State.DEAD:
            transaction.tally.moved(topic, LIVE, DEAD)
        else:
            transaction.changed(job, topic, due if ending.due is None else ending.due)


def _row(end: Ended) -> list[Any]:
    """Return what the statements take of an end."""
    ending = end.ending
    state = _DEAD if ending.state is State.DEAD else None
    outcome = OUTCOMES.index(end.outcome)
    return [
        end.claim.job,
        end.at,
        outcome,
        end.error,
        state,
        ending.due,
        int(not ending.spent),
        ending.lost or None,
    ]


# ---- leases that are over -------------------------------------------------------------------------------------------


def expire(transaction: Transaction, commands: Sequence[Expire]) -> list[Expired]:
    """End the claims whose lease is over."""
    outcomes = []
    for command in commands:
        limit = max(clamped(command.limit), 0)
        ended, dead = _end_lost(transaction, transaction.rows("runs_over", (transaction.now, limit)))
        [next_lease] = transaction.row("next_lease", (transaction.now,))
        transaction.expired(transaction.now if ended == limit else next_lease)
        outcomes.append(Expired(ended, next_lease, dead))
    return outcomes


def settle_lost(transaction: Transaction, id: int) -> bool:
    """End the claim of one job if its lease is over; return whether it was."""
    ended, _ = _end_lost(transaction, [row for row in transaction.rows("run_of", (id,)) if row[5] <= transaction.now])
    return bool(ended)


def settle_all_lost(transaction: Transaction) -> None:
    """End every claim whose lease is over."""
    _end_lost(transaction, transaction.rows("runs_over", (transaction.now, _ALL)))


def _end_lost(transaction: Transaction, rows: Iterable[Any]) -> tuple[int, tuple[int, ...]]:
    """End claims; return how many, and the ids of the jobs that are dead now."""
    claims = [_running(row) for row in rows]
    ended = [Ended(claim, lifecycle.lost(claim.run), Outcome.LOST, claim.run.lease) for claim in claims]
    _end(transaction, ended)
    dead = [end.claim for end in ended if end.ending.state is State.DEAD]
    _leave_word(transaction, dead)
    return len(ended), tuple(sorted(claim.job for claim in dead))


def _leave_word(transaction: Transaction, dead: Sequence[Running]) -> None:
    """Leave word of jobs that are dead as their leases were lost, and wake who is to take it."""
    until = transaction.now + KEPT
    for job, topic, _, run in dead:
        transaction.run("leave_word", (word(job, run.claim).encode(), until, topic))
        transaction.changed(job, topic, run.lease)
    if dead:
        transaction.forget_notes(NOTES_FORGOTTEN * len(dead))

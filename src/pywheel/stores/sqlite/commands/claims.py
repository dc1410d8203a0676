"""Claiming jobs, and ending claims: ack, nack, release, touch, and leases that are over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....jobs.commands import Ack, Claim, Expire, Expired, Nack, Release, Reserve, Touch
from ....jobs.job import SHARDS, Job, Outcome, State
from ..transaction import FINISHED, OUTCOMES, Batch

__all__ = ["ack", "claim", "expire", "nack", "release", "reserve", "settle_lost", "touch"]

_DEAD = FINISHED.index(State.DEAD)
_RUNNING = State.RUNNING
_ALL = -1


class _Run(NamedTuple):
    job: int
    claim: int
    attempt: int
    started: int
    lease: int
    max_attempts: int
    backoff: int
    worker: int

    def row(self, ended: int, outcome: Outcome, error: str | None = None) -> tuple[Any, ...]:
        """Return the row of history."""
        return (
            self.job,
            self.claim,
            self.attempt,
            self.started,
            ended,
            OUTCOMES.index(outcome),
            self.worker,
            error,
        )


# ---- claiming -----------------------------------------------------------------------------------------------------


def reserve(batch: Batch, ops: Sequence[Reserve]) -> list[list[Job]]:
    """Claim what is due in a topic."""
    _end_lost(batch, batch.rows("runs_over", (batch.now, _ALL)))
    outcomes = []
    for op in ops:
        topic = batch.row("open_topic", (op.topic,))
        found = batch.rows("due_of_topic", (topic[0], batch.now, op.limit)) if topic else []
        outcomes.append(_start(batch, found, op))
    return outcomes


def claim(batch: Batch, ops: Sequence[Claim]) -> list[list[Job]]:
    """Claim known jobs, as far as they are in shards that the worker still holds."""
    outcomes = []
    for op in ops:
        held = {shard for shard, epoch in batch.rows("my_shards", (op.worker,)) if op.epochs.get(shard) == epoch}
        ids = op.ids if len(held) == SHARDS else [id for id in op.ids if id % SHARDS in held]
        topic = batch.row("open_topic", (op.topic,)) if ids else None
        found = batch.rows("due_among", (json.dumps(ids), topic[0], batch.now)) if topic else []
        if len(found) > 1:
            found = sorted({row[0]: row for row in found}.values(), key=lambda row: (row[2], row[0]))
        outcomes.append(_start(batch, found, op))
    return outcomes


def _start(batch: Batch, found: list[Any], op: Reserve | Claim) -> list[Job]:
    """Claim the rows found. One statement for all: between two, other threads would get in."""
    if not found:
        return []
    (ttr, most, backoff), topic, now, jobs = op.terms, op.topic, batch.now, []
    for id, body, due, created, key, own_ttr, limit, headers, claims, forgiven, error in found:
        claim = (claims or 0) + 1
        known = json.loads(headers) if headers else {}
        lease = now + (own_ttr or ttr)
        jobs.append(
            Job(
                id,
                topic,
                body,
                due,
                created,
                _RUNNING,
                key,
                own_ttr,
                limit,
                known,
                claim,
                claim - (forgiven or 0),
                lease,
                error,
            )
        )
    batch.run(
        "start",
        {
            "now": now,
            "ttr": ttr,
            "max_attempts": most,
            "first": backoff[0] if backoff else 0,
            "last": backoff[-1] if backoff else 0,
            "backoff": json.dumps(backoff),
            "worker": batch.workers.number(batch.connection, op.worker),
            "ids": json.dumps([job.id for job in jobs]),
        },
    )
    return jobs


# ---- ending claims --------------------------------------------------------------------------------------------------


def _held(batch: Batch, ops: Sequence[Nack | Release | Touch]) -> list[_Run | None]:
    """Return the claim of each command, None where it is not held; a second command on one claim comes too late."""
    if len(ops) == 1:
        found = batch.rows("run_of", (ops[0].id,))
    else:
        found = batch.rows("runs_among", (json.dumps(list({op.id for op in ops})),))
    now = batch.now
    runs = {(row[0], row[1]): _Run._make(row) for row in found if now < row[4]}
    return [runs.pop((op.id, op.claims), None) for op in ops]


def ack(batch: Batch, ops: Sequence[Ack]) -> list[bool]:
    """Make running jobs done; many by as few statements as one."""
    ids = json.dumps([op.id for op in ops])
    jobs, claims = map(json.loads, batch.row("held_among", (ids, batch.now)))
    held = dict(zip(jobs, claims, strict=True))
    outcomes = []
    done = []
    for id, claim in ops:
        outcomes.append(held.get(id) == claim)
        if outcomes[-1]:
            del held[id]  # a second ack of the same claim comes too late
            done.append(id)
    if done:
        ids = json.dumps(done)
        batch.run("record_done", (batch.now, ids))
        batch.run("finish_done", (ids,))
        batch.run("end_runs", (ids,))
    return outcomes


def nack(batch: Batch, ops: Sequence[Nack]) -> list[State | None]:
    """End claims without success."""
    outcomes: list[State | None] = []
    for op, run in zip(ops, _held(batch, ops), strict=True):
        if run is None:
            outcomes.append(None)
            continue
        due = None if op.delay is None or run.attempt >= run.max_attempts else batch.now + op.delay
        outcomes.append(_fail(batch, run, due, Outcome.FAILED, op.error))
    return outcomes


def release(batch: Batch, ops: Sequence[Release]) -> list[bool]:
    """Give claims back, unspent."""
    held = _held(batch, ops)
    for run in filter(None, held):
        batch.run("end_run", (run.job,))
        batch.run("record", run.row(batch.now, Outcome.RELEASED))
        batch.run("give_back", (run.claim, run.job))
        batch.changed(run.job, batch.row("due_of", (run.job,))[0])
    return [run is not None for run in held]


def touch(batch: Batch, ops: Sequence[Touch]) -> list[bool]:
    """Let leases end later."""
    outcomes = []
    for op in ops:  # one by one: a claim may be touched twice
        [run] = _held(batch, [op])
        if run is not None:
            batch.run("touch", (batch.now + op.ttr, op.id))
        outcomes.append(run is not None)
    return outcomes


def _fail(batch: Batch, run: _Run, due: int | None, outcome: Outcome, error: str | None = None) -> State:
    """End a claim: due again then, or dead if that is None."""
    batch.run("end_run", (run.job,))
    batch.run("record", run.row(batch.now, outcome, error))
    if due is None:
        batch.run("finish", (_DEAD, run.claim, run.job))
        return State.DEAD
    batch.run("again", {"id": run.job, "due": due, "claims": run.claim})
    batch.changed(run.job, due)
    return State.DELAYED


# ---- leases that are over -------------------------------------------------------------------------------------------


def expire(batch: Batch, ops: Sequence[Expire]) -> list[Expired]:
    """End the claims whose lease is over."""
    outcomes = []
    for op in ops:
        lost = _end_lost(batch, batch.rows("runs_over", (batch.now, op.limit)))
        named = [(id, batch.row("topic_of", (id,))[0], state) for id, state in lost]
        outcomes.append(Expired(named, batch.row("next_lease", (batch.now,))[0]))
    return outcomes


def settle_lost(batch: Batch, id: int) -> bool:
    """End the claim of one job if its lease is over; return whether it was."""
    return bool(_end_lost(batch, [row for row in batch.rows("run_of", (id,)) if row[4] <= batch.now]))


def _end_lost(batch: Batch, rows: list[Any]) -> list[tuple[int, State]]:
    ended = []
    for run in map(_Run._make, rows):
        due = None if run.attempt >= run.max_attempts else run.lease + run.backoff
        ended.append((run.job, _fail(batch, run, due, Outcome.LOST)))
    return ended

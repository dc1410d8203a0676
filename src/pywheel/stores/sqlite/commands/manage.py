"""Changing jobs by hand: cancel, reschedule, retry, delete, pause, purge."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...._errors import JobExists
from ....jobs import lifecycle
from ....jobs.commands import Cancel, Delete, Pause, Purge, Ref, Reschedule, Retry, Rewrite
from ....jobs.job import State
from ...checks import clamped, in_range
from ..tally import CANCELLED, LIVE
from ..transaction import FINISHED, Transaction
from .endings import settle_all_lost, settle_lost

__all__ = ["cancel", "delete", "pause", "purge", "reschedule", "retry", "rewrite"]


class _Found(NamedTuple):
    """A job to be changed, with a lease that is over settled."""

    id: int
    state: int | None  # as the column has it
    due: int
    claims: int
    topic: int
    key: str | None
    running: int

    @property
    def delayed(self) -> bool:
        """Whether it waits."""
        return self.state is None and not self.running

    @property
    def counted(self) -> int:
        """Which of the counts it belongs to."""
        return LIVE if self.state is None else self.state + 1


def _find(transaction: Transaction, ref: Ref) -> _Found | None:
    """Return the job that is meant."""
    if isinstance(ref, int):
        return _settled(transaction, ref)
    row = transaction.row("topic_id", (ref[0],))
    if row is None:
        return None
    holder = _holder(transaction, row[0], ref[1])
    if holder is not None:
        return holder
    for [id] in transaction.rows("old_of_key", {"topic": row[0], "key": ref[1], "now": transaction.now}):
        found = _settled(transaction, id)
        if found is not None and found.state is not None:
            return found
    return None


def _settled(transaction: Transaction, id: int) -> _Found | None:
    row = transaction.row("job_state", (id,)) if in_range(id) else None
    if row and row[5] and settle_lost(transaction, id):
        row = transaction.row("job_state", (id,))
    return _Found(id, *row) if row else None


def _holder(transaction: Transaction, topic: int, key: str) -> _Found | None:
    """Return the live job that has a key."""
    row = transaction.row("key_holder", (topic, key))
    found = _settled(transaction, row[0]) if row else None
    return found if found is not None and found.state is None else None


# ---- one job --------------------------------------------------------------------------------------------------------


def cancel(transaction: Transaction, commands: Sequence[Cancel]) -> list[bool]:
    """Make delayed jobs cancelled."""
    if len(commands) > 1 and all(command.expect is None for command in commands):
        cancelled = _cancel_plain(transaction, [command.ref for command in commands])
        if cancelled is not None:
            return cancelled
    return [_cancel(transaction, _expected(transaction, command)) for command in commands]


def _cancel_plain(transaction: Transaction, refs: Sequence[Ref]) -> list[bool] | None:
    """Cancel jobs by three statements for all of them. None if one is named by a key or twice, or is running."""
    ids = [ref for ref in refs if isinstance(ref, int) and in_range(ref)]
    if len(set(ids)) < len(refs):
        return None
    rows = transaction.rows("cancellable", (json.dumps(ids),))
    if any(running for _, _, running in rows):
        return None  # its lease may be over: that is settled first, one by one
    chosen = json.dumps([id for id, _, _ in rows])
    transaction.run("cancel_all", (chosen,))
    transaction.run("record_all_cancelled", (transaction.now, chosen))
    for topic, jobs in Counter(topic for _, topic, _ in rows).items():
        transaction.tally.moved(topic, LIVE, CANCELLED, jobs)
    found = {id for id, _, _ in rows}
    return [ref in found for ref in refs]


def _expected(transaction: Transaction, command: Cancel | Reschedule) -> _Found | None:
    """Return the job that is meant if it is delayed, and as expected."""
    found = _find(transaction, command.ref)
    if found is None or not found.delayed:
        return None
    return found if command.expect in (None, (found.due, found.claims)) else None


def _cancel(transaction: Transaction, found: _Found | None) -> bool:
    if found is None:
        return False
    transaction.run("cancel", (found.id,))
    transaction.run("record_cancelled", (found.id, found.claims + 1, transaction.now, found.topic))
    transaction.tally.moved(found.topic, LIVE, CANCELLED)
    return True


def reschedule(transaction: Transaction, commands: Sequence[Reschedule]) -> list[bool]:
    """Give delayed jobs another due time."""
    outcomes = []
    for command in commands:
        found = _expected(transaction, command)
        outcomes.append(found is not None)
        if found is not None:
            due = lifecycle.due(transaction.now, command.due, command.delay)
            transaction.run("reschedule", {"id": found.id, "due": due})
            transaction.changed(found.id, found.topic, min(found.due, due))
    return outcomes


def retry(transaction: Transaction, commands: Sequence[Retry]) -> list[bool | JobExists]:
    """Make finished jobs delayed again."""
    return [_retry(transaction, command) for command in commands]


def _retry(transaction: Transaction, command: Retry) -> bool | JobExists:
    found = _find(transaction, command.ref)
    if found is None or found.state is None:
        return False
    holder = None if found.key is None else _holder(transaction, found.topic, found.key)
    if holder is not None:
        return JobExists(f"job {holder.id} has this key now and is live", holder.id)
    due = lifecycle.due(transaction.now, command.due, command.delay)
    transaction.run("keep_history", (found.id,))
    transaction.run("retry", {"id": found.id, "due": due})
    transaction.tally.moved(found.topic, found.counted, LIVE)
    transaction.changed(found.id, found.topic, due)
    return True


def delete(transaction: Transaction, commands: Sequence[Delete]) -> list[bool]:
    """Forget jobs that are not running."""
    outcomes = []
    for command in commands:
        found = _find(transaction, command.ref)
        outcomes.append(found is not None and not found.running)
        if found is not None and not found.running:
            _forget(transaction, [found.id], [found.topic], found.counted)
    return outcomes


def rewrite(transaction: Transaction, commands: Sequence[Rewrite]) -> list[bool]:
    """Give jobs other bodies for those that they have."""
    return [in_range(command.id) and _rewrite(transaction, command) > 0 for command in commands]


def _rewrite(transaction: Transaction, command: Rewrite) -> int:
    if command.claim is None:
        return transaction.run("rewrite", (command.new, command.id, command.old))
    claim = clamped(command.claim)
    return transaction.run("rewrite_result", (command.new, command.id, claim, command.old))


# ---- many -----------------------------------------------------------------------------------------------------------


def pause(transaction: Transaction, commands: Sequence[Pause]) -> list[bool]:
    """Pause and resume topics."""
    outcomes = []
    for command in commands:
        topic = transaction.topic(command.topic)
        outcomes.append(transaction.run("pause", {"topic": topic, "paused": int(command.paused)}) > 0)
        if outcomes[-1]:
            transaction.reload(topic)
    return outcomes


def purge(transaction: Transaction, commands: Sequence[Purge]) -> list[int]:
    """Forget finished jobs, nonces of long ago, and notes that are over."""
    for command in commands:
        transaction.forget_nonces(max(clamped(command.limit), 0))
        transaction.forget_notes(max(clamped(command.limit), 0))
    return [0 if command.state not in FINISHED else _purge(transaction, command) for command in commands]


def _purge(transaction: Transaction, command: Purge) -> int:
    topic = None
    if command.topic is not None:
        row = transaction.row("topic_id", (command.topic,))
        if row is None:
            return 0
        topic = row[0]
    if command.state is State.DEAD:
        settle_all_lost(transaction)
    span: dict[str, Any] = {
        "topic": topic,
        "state": FINISHED.index(command.state),
        "until": transaction.now - command.age,
        "limit": max(clamped(command.limit), 0),
    }
    statement = "purgeable_dead" if command.state is State.DEAD else "purgeable"
    ids, topics = map(json.loads, transaction.row(statement, span))
    if ids:
        _forget(transaction, ids, topics, FINISHED.index(command.state) + 1)
    return len(ids)


def _forget(transaction: Transaction, ids: list[int], topics: list[int], counted: int) -> None:
    """Drop jobs and their history. The one with the highest id stays as a ghost, so that it is not used again."""
    transaction.tally.fold(transaction.connection)
    for topic, jobs in Counter(topics).items():
        transaction.tally.moved(topic, counted, None, jobs)
    gone = (json.dumps(ids),)
    transaction.run("forget_history", gone)
    if transaction.run("forget", gone) < len(ids):
        transaction.run("make_ghost", gone)
    transaction.run("drop_ghosts")

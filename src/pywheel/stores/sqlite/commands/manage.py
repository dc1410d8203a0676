"""Changing jobs by hand: cancel, reschedule, retry, pause, purge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...._errors import JobExists
from ....jobs.commands import Cancel, Pause, Purge, Ref, Reschedule, Retry
from ....jobs.job import Outcome
from ..transaction import FINISHED, OUTCOMES, Batch
from .claims import settle_lost

__all__ = ["cancel", "pause", "purge", "reschedule", "retry"]

_CANCELLED = OUTCOMES.index(Outcome.CANCELLED)


def _find(batch: Batch, ref: Ref) -> tuple[int, Any]:
    """Return a job's id and its row of `state_of`, with a lease that is over settled; the row is None without a job."""
    if isinstance(ref, int):
        id: int | None = ref
    else:
        found = batch.row("id_of_key", {"topic": ref[0], "key": ref[1]})
        id = found[0] if found else None
    if id is None:
        return 0, None
    row = batch.row("state_of", (id,))
    if row and row[5] and settle_lost(batch, id):
        row = batch.row("state_of", (id,))
    return id, row


def _is_delayed(row: Any) -> bool:
    return row is not None and row[0] is None and not row[5]


def cancel(batch: Batch, ops: Sequence[Cancel]) -> list[bool]:
    """Make delayed jobs cancelled."""
    outcomes = []
    for op in ops:
        id, row = _find(batch, op.ref)
        outcomes.append(_is_delayed(row))
        if outcomes[-1]:
            batch.run("cancel", (id,))
            batch.run("record", (id, row[2] + 1, 0, None, batch.now, _CANCELLED, None, None))
    return outcomes


def reschedule(batch: Batch, ops: Sequence[Reschedule]) -> list[bool]:
    """Give delayed jobs another due time."""
    outcomes = []
    for op in ops:
        id, row = _find(batch, op.ref)
        outcomes.append(_is_delayed(row))
        if outcomes[-1]:
            batch.run("reschedule", {"id": id, "due": op.due})
            batch.changed(id, min(row[1], op.due))
    return outcomes


def retry(batch: Batch, ops: Sequence[Retry]) -> list[bool | JobExists]:
    """Make finished jobs delayed again."""
    outcomes: list[bool | JobExists] = []
    for op in ops:
        id, row = _find(batch, op.ref)
        if row is None or row[0] is None:
            outcomes.append(False)
            continue
        holder = batch.row("key_holder", (row[3], row[4])) if row[4] is not None else None
        if holder:
            outcomes.append(JobExists(f"job {holder[0]} has this key now and is live", holder[0]))
            continue
        batch.run("retry", {"id": id, "due": op.due})
        batch.changed(id, op.due)
        outcomes.append(True)
    return outcomes


def pause(batch: Batch, ops: Sequence[Pause]) -> list[bool]:
    """Pause and resume topics."""
    outcomes = []
    for op in ops:
        changed = batch.run("pause", {"topic": batch.topic(op.topic), "paused": int(op.paused)}) > 0
        if changed and batch.horizon >= 0:
            batch.changed(0, 0)
        outcomes.append(changed)
    return outcomes


def purge(batch: Batch, ops: Sequence[Purge]) -> list[int]:
    """Forget finished jobs."""
    return [0 if op.state.live else _purge(batch, op) for op in ops]


def _purge(batch: Batch, op: Purge) -> int:
    topics = [row[0] for row in batch.rows("topics")] if op.topic is None else [batch.topic(op.topic)]
    gone: list[tuple[int]] = []
    for topic in topics:
        room = op.limit - len(gone)
        gone += batch.rows("purgeable", (topic, FINISHED.index(op.state), op.before, room))
    batch.run_many("purge", gone)
    batch.run_many("purge_history", gone)
    return len(gone)

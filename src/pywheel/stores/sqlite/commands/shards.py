"""Dividing the shards among the workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....jobs.commands import Hold, Leave
from ....jobs.job import SHARDS
from ..transaction import Batch

__all__ = ["hold", "leave"]


def hold(batch: Batch, ops: Sequence[Hold], dead: Callable[[str, str], bool]) -> list[dict[int, int]]:
    """Renew leases on shards, take free ones up to the fair share, give up those beyond it.

    `dead` says of another worker whether it is known not to run any more: its leases do not count.
    """
    return [_hold(batch, op, dead) for op in ops]


def _hold(batch: Batch, op: Hold, dead: Callable[[str, str], bool]) -> dict[int, int]:
    until = batch.now + op.lease
    members = {op.worker}
    before = len(batch.rows("member", (op.worker,)))
    for worker, ends in batch.rows("members"):
        if worker != op.worker and (ends <= batch.now or dead(worker, op.worker)):
            batch.run("part", (worker,))
        else:
            members.add(worker)
    share = -(-SHARDS // len(members))
    known = {id: (worker, epoch, ends) for id, worker, epoch, ends in batch.rows("shards")}
    mine: dict[int, int] = {}
    free: dict[int, int] = {}
    for id in range(SHARDS):
        worker, epoch, ends = known.get(id, (None, 0, 0))
        if worker == op.worker:
            mine[id] = epoch
        elif worker not in members or ends <= batch.now:
            free[id] = epoch
    if before == 0 or len(mine) > share:
        batch.changed(0, 0)  # the others have to give some up, or may take some
    for id in list(mine)[share:]:
        batch.run("set_shard", (id, None, mine.pop(id), 0))
    for id in list(free)[: max(share - len(mine), 0)]:
        mine[id] = free[id] + 1
        batch.run("set_shard", (id, op.worker, mine[id], until))
    batch.run("renew_shards", (until, op.worker))
    batch.run("join", (op.worker, until))
    return mine


def leave(batch: Batch, ops: Sequence[Leave]) -> list[None]:
    """Give up all shards of workers."""
    for op in ops:
        batch.run("leave_shards", (op.worker,))
        batch.changed(0, 0)
        batch.run("part", (op.worker,))
    return [None for _ in ops]

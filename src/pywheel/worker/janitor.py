"""The janitor: ends leases that are over, keeps this worker's shards, and forgets what finished long ago."""

from __future__ import annotations

from typing import Final

from ..jobs.commands import Expire, Expired, Hold, Op, Purge
from ..jobs.job import State

__all__ = ["Janitor"]

ROUND: Final = 60_000  # ms between rounds while nothing happens
SHARD_LEASE: Final = 3 * ROUND
_BATCH: Final = 1_000
_PURGE_EVERY: Final = 3_600_000
_PURGED: Final = (State.DONE, State.CANCELLED)


class Janitor:
    """What is to be done besides jobs, and when. Only the dispatcher uses it."""

    def __init__(self, worker: str, keep: int | None) -> None:
        self._worker = worker
        self._keep = keep
        self._round_at = 0
        self._expire_at = 0
        self._purge_at = 0
        self.epochs: dict[int, int] = {}
        """The shards that this worker holds."""

    def again(self) -> None:
        """Begin a round now: workers came or went, or the clock was stepped."""
        self._round_at = self._expire_at = 0

    def expect(self, lease_until: int) -> None:
        """Look at the leases when this one ends."""
        self._expire_at = min(self._expire_at, lease_until)

    @property
    def next(self) -> int:
        """When there is something to do."""
        return min(self._round_at, self._expire_at)

    def ops(self, now: int) -> list[Op]:
        """Return the commands that are due. Their outcomes go to `learn`, in order."""
        ops: list[Op] = []
        if now >= self._round_at:
            ops.append(Hold(self._worker, SHARD_LEASE))
        if ops or now >= self._expire_at:
            ops.append(Expire(_BATCH))
        if ops and self._keep is not None and now >= self._purge_at:
            ops += [Purge(state, now - self._keep, None, _BATCH) for state in _PURGED]
        return ops

    def learn(self, now: int, op: Op, outcome: object) -> bool:
        """Take in an outcome; return whether the shards changed."""
        if isinstance(op, Hold) and isinstance(outcome, dict):
            self._round_at = now + ROUND
            before, self.epochs = self.epochs, outcome
            return before != outcome
        if isinstance(outcome, Expired):
            self._expire_at = now + ROUND if outcome.next_lease is None else min(outcome.next_lease, now + ROUND)
            if len(outcome.lost) == _BATCH:
                self._expire_at = now
        if isinstance(op, Purge):
            self._purge_at = now if outcome == _BATCH else max(self._purge_at, now + _PURGE_EVERY)
        return False

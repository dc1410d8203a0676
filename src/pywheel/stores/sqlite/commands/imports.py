"""Taking in jobs as another store has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from ...._errors import JobExists
from ....jobs.commands import NONCES_FORGOTTEN, Import
from ....jobs.job import Imported, State
from ...checks import storable
from ..statements import SQL
from ..tally import LIVE
from ..transaction import FINISHED, OUTCOMES, Transaction
from .puts import Keyed
from .rows import headers_text, know_priorities

__all__ = ["take_in"]

_INSERT: Final = SQL["import"]


def take_in(transaction: Transaction, commands: Sequence[Import]) -> list[Any]:
    """Store the jobs of each command, all or none."""
    outcomes = [_once(transaction, command) for command in commands]
    transaction.forget_nonces(NONCES_FORGOTTEN * sum(command.nonce is not None for command in commands))
    return outcomes


def _once(transaction: Transaction, command: Import) -> list[int] | JobExists:
    nonce = command.nonce
    row = None if nonce is None else transaction.row("nonce_ids", (nonce,))
    if row is not None:
        return json.loads(row[0])  # type: ignore[no-any-return]
    keyed = [one.new for one in command.jobs if one.holds_key]
    refusal = Keyed(transaction, keyed).refusal(keyed) if keyed else None
    if refusal is not None:
        return refusal
    ids = [_store(transaction, one) for one in command.jobs]
    if nonce is not None:
        transaction.run("nonce_add", (nonce, transaction.now, json.dumps(ids)))
    return ids


def _store(transaction: Transaction, one: Imported) -> int:
    job, topic = one.job, transaction.topic(one.job.topic)
    state = None if job.state is State.DELAYED else FINISHED.index(job.state)
    values = (
        topic,
        job.due,
        job.due - job.created,
        state,
        job.claims or None,
        (job.claims - job.attempt) or None,
        job.lost or None,
        one.passed or None,
        job.ttr,
        job.max_attempts,
        job.key,
        headers_text(job.headers),
        job.body,
        job.priority or None,
    )
    know_priorities(transaction, (one.new,))
    id = transaction.connection.execute(_INSERT, values).lastrowid
    assert id is not None
    transaction.tally.put(id, id, ((topic, 1),))
    if state is None:
        transaction.changed(id, topic, job.due)
    else:
        transaction.tally.moved(topic, LIVE, state + 1)
    if one.history:
        _store_history(transaction, id, one, None if state is None else topic)
    return id


def _store_history(transaction: Transaction, id: int, one: Imported, topic: int | None) -> None:
    """Write what was tried. `topic` stands in the last row of a finished job, to be found by when it ended."""
    last = one.history[-1]
    rows = [
        (
            id,
            attempt.claim,
            attempt.attempt,
            attempt.started,
            attempt.ended,
            None if attempt.outcome is None else OUTCOMES.index(attempt.outcome),
            None if attempt.worker is None else transaction.workers.number(transaction.connection, attempt.worker),
            storable(attempt.error),
            topic if attempt is last else None,
        )
        for attempt in one.history
    ]
    transaction.connection.executemany(SQL["import_attempt"], rows)
    if last.result is not None:
        transaction.run("keep_result", (last.result, id, last.claim))

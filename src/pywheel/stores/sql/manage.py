"""Changing jobs by hand: cancel, edit, retry, delete, rewrite, pause, purge.

Each job is found and locked first, and its lease is ended if it is over; then the job is changed. Many commands that
name jobs by id take as few statements as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ..._errors import JobExists
from ...jobs import lifecycle
from ...jobs.commands import Cancel, Change, Delete, Edit, Pause, Purge, Retry, Rewrite
from ...jobs.job import KEPT, Outcome, State
from ..checks import IDS, clamped
from .put import EDITED, LAPSED, settled, writing
from .read import LAST_ERROR, NAMED, PASSED_LAPSED
from .rows import ATTEMPTED, DUE, STAYS, columns_of, listed
from .schema import FINISHED, OUTCOMES
from .settle import expire_all, move
from .statement import Do, Drop, Each, Rows, Select, Steps, WriteJobs, drive_all
from .transaction import LIVE, Transaction

C = TypeVar("C", Cancel, Edit, Retry, Delete)
_STATES: Final = (State.DELAYED, State.RUNNING, *FINISHED)
_CANCEL: Final = move(
    str(FINISHED.index(State.CANCELLED)), "{now}", OUTCOMES.index(Outcome.CANCELLED),
    attempt="0", due="j.next", claims="j.claims + 1", unspent="j.unspent + 1", started="NULL", worker="NULL",
)  # fmt: skip


class _Found(NamedTuple):
    """A job to be changed."""

    id: int
    topic: int
    code: int  # 0 delayed, 1 running; 2 plus the number of a finished state
    due: int
    claims: int
    key: str | None

    @property
    def state(self) -> State:
        """The job's state."""
        return _STATES[self.code]

    def may_move(self, expect: tuple[int, int] | None) -> Change:
        """Return whether the job may be cancelled or edited."""
        return lifecycle.may_move(self.state, (self.due, self.claims), expect)


def each(
    change: Callable[[Transaction, Sequence[tuple[C, _Found]]], Steps[list[Any]]],
    tx: Transaction,
    commands: Sequence[C],
) -> Steps[list[Any]]:
    """Return the outcomes of `change` for the jobs that commands name, NOT_FOUND for missing jobs."""
    outcomes: list[Any] = []
    for part in _parts(commands):
        found = yield from _find_all(tx, part)
        pairs = [(command, one) for command, one in zip(part, found, strict=True) if one is not None]
        changed = iter((yield from change(tx, pairs)) if pairs else ())
        outcomes += [Change.NOT_FOUND if one is None else next(changed) for one in found]
    return outcomes


def _parts(commands: Sequence[C]) -> list[Sequence[C]]:
    """Divide commands so that no two commands of a part can name the same job."""
    if len(commands) == 1 or len({c.ref for c in commands if isinstance(c.ref, int)}) == len(commands):
        return [commands]
    return [[command] for command in commands]


def _find_all(tx: Transaction, commands: Sequence[C]) -> Steps[list[_Found | None]]:
    if len(commands) == 1 and not isinstance(commands[0].ref, int):
        return [(yield from _find_named(tx, *commands[0].ref))]
    found = yield from _find(tx, [command.ref for command in commands if isinstance(command.ref, int)])
    return [found.get(command.ref) for command in commands if isinstance(command.ref, int)]


_LIVE: Final = f"SELECT j.id, j.topic, j.state, {DUE} AS due, j.claims, j.key, {LAPSED} FROM job j"
_ENDED: Final = "SELECT j.id, j.topic, j.state + 2 AS state, j.due, j.claims, j.key, 0 AS lapsed FROM finished j"
_COLUMNS: Final = "id topic state due claims key lapsed"


def _find(tx: Transaction, ids: Sequence[int]) -> Steps[dict[int, _Found]]:
    """Return the jobs with these ids, locked, with their lapsed leases ended."""
    values = {"ids": sorted(id for id in ids if id in IDS)}
    looks = [Rows(_COLUMNS, f"{text} WHERE j.id {{in ids}} {{lock j}}", values) for text in (_LIVE, _ENDED)]
    live, ended = yield from settled(tx, *looks)
    return {row[0]: _Found(*row[:6]) for row in (*ended, *live)}


def _find_named(tx: Transaction, name: str, key: str) -> Steps[_Found | None]:
    """Return the live job with a key or, without one, the latest finished one."""
    numbers = yield from tx.numbers((name,))
    if name not in numbers:
        return None
    values = {"topic": numbers[name], "key": key}
    texts = (
        f"{_LIVE} WHERE {NAMED} AND j.passed = 0 {{lock j}}",
        f"{_LIVE} WHERE {PASSED_LAPSED} {{lock j}}",  # `settled` ends these
        f"{_ENDED} WHERE {NAMED} ORDER BY j.id DESC LIMIT 1 {{lock j}}",
    )
    holders, _, ended = yield from settled(tx, *[Rows(_COLUMNS, text, values) for text in texts])
    return next((_Found(*row[:6]) for row in (*holders, *ended)), None)


# ---- one job --------------------------------------------------------------------------------------------------------


def cancel(tx: Transaction, pairs: Sequence[tuple[Cancel, _Found]]) -> Steps[list[Change]]:
    """Cancel delayed jobs."""
    outcomes = [found.may_move(command.expect) for command, found in pairs]
    chosen = sorted(found.id for (_, found), outcome in zip(pairs, outcomes, strict=True) if outcome)
    if chosen:
        values = {"w": [(id,) for id in chosen]}
        yield (WriteJobs(_CANCEL, "{w: id}", "+j.state = 0", values), Drop(chosen))
        there = {found.id: found.topic for _, found in pairs}
        tx.tally.ended([there[id] for id in chosen], FINISHED.index(State.CANCELLED))
    return outcomes


def edit(tx: Transaction, pairs: Sequence[tuple[Edit, _Found]]) -> Steps[list[Change]]:
    """Give delayed jobs another due time, body or fields."""
    outcomes, priorities = list[Change](), set[tuple[int, int]]()
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}  # by the columns that change
    for command, found in pairs:
        outcomes.append(found.may_move(command.expect))
        if not outcomes[-1]:
            continue
        stored = zip(KEPT, columns_of([command.fields.get(name) for name in KEPT]), strict=True)
        values = {name: value for name, value in stored if name in command.fields}
        if command.body is not None:
            values["body"] = command.body
        rows.setdefault(tuple(values), []).append({"id": found.id, **_when(command), **values})
        if priority := values.get("priority"):
            priorities.add((found.topic, priority))
        due = lifecycle.due(tx.now, found.due if command.due is None else command.due, command.delay)
        tx.changes.due(found.topic, found.id, due)
    yield from tx.know_priorities(priorities)
    if rows:
        yield [Each(writing(columns, EDITED if columns else ""), some) for columns, some in rows.items()]
    return outcomes


def _when(command: Edit | Retry) -> dict[str, int | None]:
    return {"due": command.due if command.delay is None else None, "delay": command.delay}


def retry(tx: Transaction, pairs: Sequence[tuple[Retry, _Found]]) -> Steps[list[Change | JobExists]]:
    """Make finished jobs delayed again."""
    return drive_all([_retry(tx, command, found) for command, found in pairs])


def _retry(tx: Transaction, command: Retry, found: _Found) -> Steps[Change | JobExists]:
    outcome = lifecycle.may_retry(found.state)
    if not outcome:
        return outcome
    if found.key is not None:
        values = {"topic": found.topic, "key": found.key}
        text = f"SELECT j.id, {LAPSED} FROM job j WHERE {NAMED} AND j.passed = 0 {{lock j}}"
        [rows] = yield from settled(tx, Rows("id lapsed", text, values))
        if rows:
            return JobExists(f"job {rows[0][0]} has this key now and is live", rows[0][0])
    values = {"ids": [found.id], **_when(command)}
    again = (
        f"INSERT INTO job ({listed(STAYS)}, unspent, next, error) SELECT {listed(STAYS)}, claims, "
        f"coalesce(:due, {{now}} + :delay), {LAST_ERROR} FROM finished j WHERE j.id {{in ids}}"
    )
    yield (Do(again, values), Do(ATTEMPTED, values), Do("DELETE FROM finished WHERE id {in ids}", values))
    tx.tally.add(found.topic, found.code - 1, -1)
    tx.tally.add(found.topic, LIVE, 1)
    tx.changes.due(found.topic, found.id, lifecycle.due(tx.now, command.due, command.delay))
    return outcome


def delete(tx: Transaction, pairs: Sequence[tuple[Delete, _Found]]) -> Steps[list[Change]]:
    """Forget jobs that are not running."""
    outcomes = [lifecycle.may_delete(found.state) for _, found in pairs]
    gone = [found for (_, found), outcome in zip(pairs, outcomes, strict=True) if outcome]
    if gone:
        yield from _forget(tx, "job", [found.id for found in gone if found.state.live])
        yield from _forget(tx, "finished", [found.id for found in gone if not found.state.live])
        for found in gone:
            tx.tally.add(found.topic, max(found.code - 1, LIVE), -1)
    return outcomes


def _forget(tx: Transaction, table: str, ids: Sequence[int]) -> Steps[None]:
    if ids:
        values = {"ids": sorted(ids)}
        yield from tx.dialect.before_forgetting(tx, max(ids))
        yield [Do(f"DELETE FROM {rows} {{in ids}}", values) for rows in ("attempt WHERE job", f"{table} WHERE id")]


def rewrite(_: Transaction, commands: Sequence[Rewrite]) -> Steps[list[bool]]:
    """Replace the bodies or results of jobs that still have the old ones."""
    return drive_all([_rewrite(command) for command in commands])


def _rewrite(command: Rewrite) -> Steps[bool]:
    if command.id not in IDS:
        return False
    values = {"id": command.id, "old": command.old, "new": command.new}
    column, tables, of = "body", ["job", "finished"], ""
    if command.claim is not None:
        column, tables, of = "result", ["finished"], "claims = :claim AND"
        values["claim"] = clamped(command.claim)
    for table in tables:
        text = f"SELECT j.id FROM {table} j WHERE j.id = :id AND {of} {column} = :old {{lock j}}"
        [rows] = yield (Select(text, values),)
        if rows:
            yield (Do(f"UPDATE {table} SET {column} = :new WHERE id = :id", values),)
            return True
    return False


# ---- many -----------------------------------------------------------------------------------------------------------


def pause(tx: Transaction, commands: Sequence[Pause]) -> Steps[list[bool]]:
    """Pause and resume topics."""
    numbers = yield from tx.numbers({command.topic for command in commands}, add=True)
    outcomes = []
    for command in commands:
        topic = numbers[command.topic]
        values = {"topic": topic, "paused": int(command.paused)}
        [rows] = yield (Select("SELECT t.paused FROM topic t WHERE t.id = :topic {lock t}", values),)
        outcomes.append(bool(rows[0][0]) is not command.paused)
        if outcomes[-1]:
            yield (Do(tx.dialect.pausing, values),)
            tx.changes.paused[topic] = command.paused
    return outcomes


def purge(tx: Transaction, commands: Sequence[Purge]) -> Steps[list[int]]:
    """Forget finished jobs, nonces of long ago, and notes that are over."""
    outcomes = []
    for command in commands:
        limit = max(clamped(command.limit), 0)
        yield (tx.forget_nonces(limit), tx.forget_notes(limit))
        outcomes.append((yield from _purge(tx, command, limit)) if command.state in FINISHED else 0)
    return outcomes


_TOGETHER: Final = 32  # topics that are read at once
_OLD: Final = (
    "SELECT j.id FROM finished j WHERE j.topic = :topic AND j.state = :state AND j.ended <= {now} - :age "
    "ORDER BY j.ended, j.id LIMIT :limit"
)
# The time is not compared in the inner query: MySQL would read all that ended later.
_WITH_OLD: Final = (
    "SELECT topic FROM (SELECT t.id AS topic, (SELECT j.ended FROM finished j WHERE j.topic = t.id "
    "AND j.state = :state ORDER BY j.ended, j.id LIMIT 1) AS first FROM topic t) f WHERE first <= {now} - :age"
)


def _purge(tx: Transaction, command: Purge, limit: int) -> Steps[int]:
    if command.state is State.DEAD:
        yield from expire_all(tx)
    state = FINISHED.index(command.state)
    values = {"state": state, "age": command.age, "limit": limit}
    if command.topic is not None:
        topics = list((yield from tx.numbers((command.topic,))).values())
    else:
        [rows] = yield (Rows("topic", _WITH_OLD, values),)
        topics = [number for [number] in rows]
    ids: list[int] = []
    for at in range(0, len(topics), _TOGETHER):
        answers = yield [Rows("id", _OLD, {**values, "topic": number}) for number in topics[at : at + _TOGETHER]]
        ids += [id for rows in answers for [id] in rows]
        if len(ids) >= limit:
            break
    if not ids:
        return 0
    text = "SELECT j.id, j.topic FROM finished j WHERE j.id {in ids} AND +j.state = :state {skip j}"
    [rows] = yield (Rows("id topic", text, {"ids": sorted(ids[:limit]), "state": state}),)
    yield from _forget(tx, "finished", [id for id, _ in rows])
    for _, number in rows:
        tx.tally.add(number, state + 1, -1)
    return len(rows)

"""How claims end: acks, failures, releases, touches, and leases that are over.

Each kind of end is a few statements, for any number of jobs. They change the jobs that the receipts still hold, and
return the ids of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from ...jobs.commands import NOTES_FORGOTTEN, TOUCHED, Ack, Begin, Expire, Expired, Nack, Release, Touch
from ...jobs.job import State
from ..checks import IDS, clamped, storable
from ..contract import DEATHS_KEPT, word_of_death
from .rows import ATTEMPT, MOVED, listed
from .schema import FINISHED, OUTCOMES
from .statement import Drop, Each, Last, Rows, Select, Statement, Steps, WriteJobs, once_each
from .transaction import Transaction

SETTLING: Final = frozenset({Ack, Nack, Release, Touch, Begin})
"""The commands that one settlement may combine."""

_DONE, _CANCELLED, _FAILED, _LOST, _RELEASED = range(len(OUTCOMES))
_DEAD: Final = FINISHED.index(State.DEAD)
_DONE_STATE: Final = FINISHED.index(State.DONE)
_HELD: Final = "+j.state = 1 AND j.claims = w.claims AND j.next > {now}"
"""Whether a receipt still holds its job. The plus keeps a database from searching by state first."""
_LAPSED: Final = "j.state = 1 AND j.next <= {now}"
_THEIR_LAPSED: Final = f"+{_LAPSED}"
_SPENT: Final = "j.backoff IS NULL"
_RECEIPTS: Final = "{w: id, claims}"
_TOPIC: Final = {"id": "j.id", "topic": "j.topic"}
_TTR: Final = f"coalesce(w.ttr, nullif(j.ttr, 0), {TOUCHED})"
_UNTIL: Final = f"CASE WHEN w.begun = 1 AND j.next > {{now}} + w.ttr THEN j.next ELSE {{now}} + {_TTR} END"
_PROLONG: Final = f"UPDATE job SET next = {_UNTIL}, begun = CASE WHEN w.begun = 1 THEN 1 ELSE j.begun END"
_ENDS: Final = {"id": "j.id", "next": _UNTIL}


def move(state: str, ended: str, outcome: int, error: str = "NULL", result: str = "", **changed: str) -> str:
    """Return the statement that writes live jobs as finished ones; a `Drop` has to follow."""
    values = ", ".join(changed.get(column, f"j.{column}") for column in MOVED)
    attempt = changed.get("attempt", "j.claims - j.unspent")
    return (
        f"INSERT INTO finished ({listed(MOVED)}, state, ended, attempt, outcome, error{result and ', result'}) "
        f"SELECT {values}, {state}, {ended}, {attempt}, {outcome}, {error}{result and f', {result}'}"
    )


def _record(outcome: int, ended: str, error: str = "NULL") -> str:
    """Return the statement that records the attempt of a claim that leaves its job live."""
    return (
        f"INSERT INTO attempt (job, {listed(ATTEMPT)}) "
        f"SELECT j.id, j.claims, j.claims - j.unspent, j.started, {ended}, {outcome}, j.worker, {error}"
    )


_FINISH: Final = move(str(_DONE_STATE), "{now}", _DONE, lost="0")
_FINISH_WITH: Final = move(str(_DONE_STATE), "{now}", _DONE, result="w.result", lost="0")
_BURY: Final = move(str(_DEAD), "{now}", _FAILED, "w.error", lost="0")
_BURY_LOST: Final = move(str(_DEAD), "j.next", _LOST, lost="2")


def settle(tx: Transaction, commands: Sequence[Any]) -> Steps[list[Any]]:
    """End, or prolong, the claims of receipts. A second command for a claim sees the effect of the first."""
    if len(commands) == 1 or len({command.id for command in commands}) == len(commands):
        return (yield from _settle(tx, commands, last=True))
    outcomes: list[Any] = []
    parts = once_each(commands, lambda command: (command.id,))
    for number, part in enumerate(parts, 1):
        outcomes += yield from _settle(tx, part, last=number == len(parts))
    return outcomes


_Step = tuple[Statement, Callable[[Transaction, Any], Iterable[int]] | None, set[int]]
"""A statement, a function for its rows, and a set for the ids that the function returns."""


class _Kinds:
    """The receipts of commands, by kind of change."""

    def __init__(self, commands: Sequence[Any], *, bytes_in_lists: int) -> None:
        self.acks: list[tuple[int, int]] = []
        self.acks_with: list[tuple[int, int, bytes]] = []
        self.results: dict[int, bytes] = {}  # written once their jobs are finished
        self.nacks: list[tuple[int, int, int | None, str | None]] = []
        self.releases: list[tuple[int, int]] = []
        self.leases: list[tuple[int, int, int | None, int]] = []
        for command in commands:
            kind, id, claims = type(command), command.id, command.claims
            if id not in IDS or claims not in IDS:
                continue  # no job has such a receipt
            if kind is Ack and command.result is not None and len(command.result) < bytes_in_lists:
                bytes_in_lists -= len(command.result)
                self.acks_with.append((id, claims, command.result))
            elif kind is Ack:
                self.acks.append((id, claims))
                if command.result is not None:
                    self.results[id] = command.result
            elif kind is Nack:
                self.nacks.append((id, claims, command.delay, storable(command.error)))
            elif kind is Release:
                self.releases.append((id, claims))
            else:
                self.leases.append((id, claims, command.ttr, int(kind is Begin)))

    def steps(self, held: set[int], dead: set[int], again: set[int]) -> list[_Step]:
        """Return the steps that end or prolong the claims; each kind in the order of the ids."""
        steps: list[_Step] = []
        acks: tuple[tuple[str, str, list[Any]], ...]
        acks = (_FINISH, _RECEIPTS, self.acks), (_FINISH_WITH, "{w: id, claims, result}", self.acks_with)
        for write, source, receipts in acks:
            if receipts:
                receipts.sort()
                finish = WriteJobs(write, source, _HELD, {"w": receipts}, _TOPIC)
                steps += [(finish, _done, held), (Drop([id for id, *_ in receipts]), None, held)]
        if self.nacks:
            steps += _fail(sorted(self.nacks), dead, again)
        if self.releases:
            steps += _give_back(sorted(self.releases), again)
        if self.leases:
            values = {"w": sorted(self.leases)}
            steps.append((WriteJobs(_PROLONG, "{w: id, claims, ttr, begun}", _HELD, values, _ENDS), _prolonged, held))
        return steps


def _settle(tx: Transaction, commands: Sequence[Any], *, last: bool) -> Steps[list[Any]]:
    kinds = _Kinds(commands, bytes_in_lists=tx.dialect.bytes_in_lists)
    held, dead, again = set[int](), set[int](), set[int]()
    steps = kinds.steps(held, dead, again)
    if steps:
        batch = [statement for statement, _, _ in steps]
        answer = yield Last(batch) if last and not kinds.results else batch
        for (_, take_in, ids), rows in zip(steps, answer, strict=True):
            if take_in is not None:
                ids.update(take_in(tx, rows))
    if kinds.results:  # of jobs that were ended here
        kept = [{"id": id, "result": result} for id, result in kinds.results.items() if id in held]
        keep = (Each("UPDATE finished SET result = :result WHERE id = :id", kept),)
        yield Last(keep) if last else keep
    if len(held) == len(commands):
        return [True] * len(held)
    return list(_outcomes(commands, held, dead, again))


def _fail(nacks: Sequence[tuple[Any, ...]], dead: set[int], again: set[int]) -> list[_Step]:
    failures, values = "{w: id, claims, delay, error}", {"w": nacks}
    buried = f"{_HELD} AND (w.delay IS NULL OR {_SPENT})"
    due = "{now} + w.delay"
    back = f"UPDATE job SET state = 0, next = {due}, due = NULL, lost = 0, error = coalesce(w.error, j.error)"
    return [
        (WriteJobs(_BURY, failures, buried, values, _TOPIC), _buried, dead),
        (Drop([id for id, *_ in nacks]), None, dead),
        (WriteJobs(_record(_FAILED, "{now}", "w.error"), failures, _HELD, values), None, again),
        (WriteJobs(back, failures, _HELD, values, {**_TOPIC, "next": due}), _again, again),
    ]


def _give_back(releases: Sequence[tuple[int, int]], again: set[int]) -> list[_Step]:
    values = {"w": releases}
    back = "UPDATE job SET state = 0, next = j.due, due = NULL, unspent = j.unspent + 1, lost = 0"
    return [
        (WriteJobs(_record(_RELEASED, "{now}"), _RECEIPTS, _HELD, values), None, again),
        (WriteJobs(back, _RECEIPTS, _HELD, values, {**_TOPIC, "next": "j.due"}), _again, again),
    ]


def _ended(state: int, tx: Transaction, rows: Sequence[Any]) -> Iterable[int]:
    tx.tally.ended([topic for _, topic in rows], state)
    return [id for id, _ in rows]


_done: Final = partial(_ended, _DONE_STATE)
_buried: Final = partial(_ended, _DEAD)


def _prolonged(tx: Transaction, rows: Sequence[Any]) -> Iterable[int]:
    tx.changes.leases = min([tx.changes.leases, *(end for _, end in rows)])
    return [id for id, _ in rows]


def _again(tx: Transaction, rows: Sequence[Any]) -> Iterable[int]:
    for id, topic, due in rows:
        tx.changes.due(topic, id, due)
    return [id for id, _, _ in rows]


def _outcomes(commands: Sequence[Any], held: set[int], dead: set[int], again: set[int]) -> Any:
    for command in commands:
        if type(command) is Nack:
            id = command.id
            yield State.DEAD if id in dead else State.DELAYED if id in again else None
        else:
            yield command.id in (again if type(command) is Release else held)


# ---- leases that are over -------------------------------------------------------------------------------------------


def expire(tx: Transaction, commands: Sequence[Expire]) -> Steps[list[Expired]]:
    """End claims whose lease is over."""
    outcomes = []
    for command in commands:
        limit = max(clamped(command.limit), 0)
        ended, dead = yield from expire_all(tx, limit)
        text = "SELECT min(next) FROM job WHERE state = 1 AND next > {now}"
        [[[first]]] = yield (Select(text),)
        tx.changes.expired = True
        outcomes.append(Expired(ended, first, dead))
    return outcomes


def expire_all(
    tx: Transaction, limit: int | None = None, topic: int | None = None
) -> Steps[tuple[int, tuple[int, ...]]]:
    """End claims whose lease is over, of one topic or of all; return their number, and the jobs that died."""
    of_topic = "" if topic is None else " AND j.topic = :topic"
    most = "" if limit is None else " ORDER BY j.next LIMIT :limit"
    text = f"SELECT j.id FROM job j WHERE {_LAPSED}{of_topic}{most}"
    [found] = yield (Rows("id", text, {"topic": topic, "limit": limit}),)
    return (yield from expire_among(tx, [id for [id] in found], skip=True))


def expire_among(tx: Transaction, ids: Sequence[int], *, skip: bool = False) -> Steps[tuple[int, tuple[int, ...]]]:
    """End the lapsed claims among some jobs; return their number, and the jobs that died.

    With `skip`, jobs that others have locked are left out. Jobs are locked by id alone: MySQL locks each index entry
    that it reads, so a search by state would lock running jobs, which then could not end.
    """
    if not ids:
        return 0, ()
    text = f"SELECT j.id FROM job j WHERE j.id {{in ids}} AND {_THEIR_LAPSED} {'{skip j}' if skip else '{lock j}'}"
    [found] = yield (Rows("id", text, {"ids": ids}),)
    return (yield from _lose(tx, [id for [id] in found]))


def _lose(tx: Transaction, ids: Sequence[int]) -> Steps[tuple[int, tuple[int, ...]]]:
    """End the claims of locked jobs whose lease is over, as `lifecycle.lost` says."""
    if not ids:
        return 0, ()
    ids = sorted(ids)
    values = {"w": [(id,) for id in ids]}
    due = "CASE WHEN j.begun = 1 THEN j.next + j.backoff ELSE j.due END"
    again = f"UPDATE job SET state = 0, next = {due}, due = NULL, lost = 1 + j.begun, unspent = j.unspent + 1 - j.begun"
    spent = f"{_THEIR_LAPSED} AND j.begun = 1 AND {_SPENT}"
    buried, _, _, live = yield (
        WriteJobs(_BURY_LOST, "{w: id}", spent, values, {**_TOPIC, "claims": "j.claims", "ended": "j.next"}),
        Drop(ids),
        WriteJobs(_record(_LOST, "j.next"), "{w: id}", _THEIR_LAPSED, values),
        WriteJobs(again, "{w: id}", _THEIR_LAPSED, values, {**_TOPIC, "next": due}),
    )
    tx.tally.ended([topic for _, topic, _, _ in buried], _DEAD)
    _again(tx, live)
    if buried:
        yield from _leave_word(tx, buried)
    return len(ids), tuple(sorted(id for id, *_ in buried))


def _leave_word(tx: Transaction, buried: Sequence[Any]) -> Steps[None]:
    """Leave notes of jobs that died with lost leases, and wake the workers that report them."""
    names = yield from tx.topics.named({topic for _, topic, _, _ in buried})
    text = "INSERT INTO note (label, until, value) VALUES (:label, {now} + :kept, :value) {else label: until, value}"
    notes = []
    for id, topic, claims, ended in buried:
        notes.append({"label": word_of_death(id, claims).encode(), "kept": DEATHS_KEPT, "value": names[topic].encode()})
        tx.changes.due(topic, id, ended)
    yield (Each(text, notes), tx.forget_notes(NOTES_FORGOTTEN * len(notes)))

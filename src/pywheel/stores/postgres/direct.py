"""A worker's step on PostgreSQL, in one trip before the commit.

A claim is a statement that takes all that is asked for and due, or nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ...jobs.commands import Ack, Begin, Claim, Claimed, Command, Touch
from ...jobs.job import Job, State
from ..relational.direct import SETTLING, Direct
from .arrays import numbers

__all__ = ["Step"]

_SETTLING: Final[dict[type, str]] = {Ack: "ack", Begin: "begin_held", Touch: "touch"}


class Step:
    """Commands that are `possible`: a statement for each kind of those for what runs, and one for each claim."""

    def __init__(self, commands: Sequence[Command[Any]], topics: Mapping[str, int]) -> None:
        self._commands = commands
        self._topics = topics

    def send(self, run: Callable[..., Any]) -> None:
        """Send the statements."""
        self._settled: list[tuple[type, Any]] = []
        for kind, name in _SETTLING.items():
            some: list[Any] = [command for command in self._commands if type(command) is kind]
            if kind is Ack and (kept := [ack for ack in some if ack.result is not None]):
                some = [ack for ack in some if ack.result is None]
                results = [ack.result for ack in kept]
                self._settled.append((kind, run("ack_kept", **_receipts(kept), results=results)))
            if some:
                values = _receipts(some)
                if kind is not Ack:
                    values["ttrs"] = numbers(one.ttr for one in some)
                self._settled.append((kind, run(name, **values)))
        self._claimed = [self._claim(run, command) for command in self._commands if type(command) is Claim]

    def _claim(self, run: Callable[..., Any], command: Claim) -> Any:
        terms = command.terms
        ids = sorted(set(command.ids))
        return run(
            "claim",
            topic=self._topics[command.topic],
            ids=numbers(ids),
            count=len(ids),
            bytes=command.bytes,
            begin=max(command.begin, 0),
            ttr=terms.ttr,
            slack=terms.slack,
            hold=terms.hold,
            limit=terms.max_attempts,
            backoff=numbers(terms.backoff),
            jitter=terms.jitter,
            worker=command.worker,
        )

    def outcomes(self, now: int) -> Direct:
        """Return what became of each command."""
        settled: defaultdict[type, set[int]] = defaultdict(set)
        leases: list[int] = []
        for kind, cursor in self._settled:
            rows = cursor.fetchall()
            settled[kind].update((rows[0][0] or ()) if kind is Ack else (id for [id] in rows))
        claimed = iter(self._claimed)
        found: list[Any] = []
        rest: dict[int, Command[Any]] = {}
        for place, command in enumerate(self._commands):
            if isinstance(command, Claim):
                jobs = _jobs(command.topic, next(claimed).fetchall())
                found.append(Claimed(jobs, min(max(command.begin, 0), len(jobs)), [], paused=False))
                leases += [job.lease_until or now for job in jobs]
                if len(jobs) < len(set(command.ids)):
                    rest[place] = _less(command, jobs)
                continue
            assert isinstance(command, SETTLING)
            found.append(command.id in settled[type(command)])
            if not isinstance(command, Ack):
                leases.append(now + command.ttr)
        return Direct(now, found, rest, leases, sum(map(bool, settled.values())))


def _receipts(some: Sequence[Any]) -> dict[str, Any]:
    return {"ids": numbers(one.id for one in some), "claims": numbers(one.claims for one in some)}


def _jobs(topic: str, rows: Sequence[Sequence[Any]]) -> list[Job]:
    new, running = tuple.__new__, State.RUNNING
    return [
        new(  # without the function that a named tuple's own is
            Job,
            (
                id,
                topic,
                body,
                due,
                created,
                running,
                key,
                ttr,
                limit,
                json.loads(headers) if headers else {},
                claims,
                attempt,
                lease,
                error,
                0,
                0,
            ),
        )
        for id, body, due, created, key, ttr, limit, headers, claims, attempt, lease, error in rows
    ]


def _less(command: Claim, jobs: Sequence[Job]) -> Claim:
    """Return what is left of a command once it has these jobs."""
    have = {job.id for job in jobs}
    return Claim(
        command.topic,
        tuple(id for id in command.ids if id not in have),
        command.terms,
        command.worker,
        command.begin - len(jobs),
        command.suspects,
        command.bytes - sum(len(job.body) for job in jobs),
    )

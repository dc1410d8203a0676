"""A worker's step on MySQL: one trip locks, and reads no more than is needed; the next one writes, and commits."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...jobs import lifecycle
from ...jobs.commands import Ack, Begin, Claim, Claimed, Command, Terms
from ...jobs.job import Due, Job, State
from ..relational.direct import SETTLING, Direct
from .statements import Raw, hashes

if TYPE_CHECKING:
    from .session import Trip

__all__ = ["Step"]

_PLAIN: Final = (None,) * 8
"""What most jobs do not have: key, ttr, max_attempts, headers, claims, forgiven, lost, last error."""
_ATTEMPT: Final = "ifnull(d.claims, 0) + 1 - ifnull(d.forgiven, 0)"


class Step:
    """Commands that are `possible`."""

    def __init__(self, commands: Sequence[Command[Any]], topics: Mapping[str, int]) -> None:
        self._topics = topics
        self._claims = {place: command for place, command in enumerate(commands) if isinstance(command, Claim)}
        self._others = {place: command for place, command in enumerate(commands) if isinstance(command, SETTLING)}
        self._outcomes: list[Any] = [None] * len(commands)
        self._leases: list[int] = []
        self._now = 0
        self._acked: list[int] = []
        self._results: list[tuple[int, int, bytes]] = []  # topic, id, what its handler gave
        self._keyed: list[int] = []
        self._counts: Counter[int] = Counter()
        self._renewed: dict[tuple[bool, int], list[int]] = defaultdict(list)
        self._started: list[tuple[Claim, list[int], int]] = []

    # ---- the first trip ---------------------------------------------------------------------------------------------

    def lock(self, trip: Trip) -> None:
        """Lock and read."""
        if self._others:
            trip.add("held", "lock_held", ids=sorted(command.id for command in self._others.values()))
        if self._claims:
            names = {command.topic for command in self._claims.values()}
            trip.add("topics", "topics_of", names=hashes(names))
        for place, command in self._claims.items():
            if command.ids:
                topic = self._topics[command.topic]
                trip.add(f"claim {place}", "lock_claimed", topic=topic, ids=sorted(set(command.ids)))

    def decide(self, found: Mapping[str, Sequence[Any]]) -> Direct:
        """Return what became of each command; `write` writes it."""
        [(self._now,)] = found["now"]
        self._settle({row[0]: row[1:] for row in found.get("held", ())})
        topics = found.get("topics", ())
        paused = {name for _, name, paused, _ in topics if paused}
        laned = {name for _, name, _, lanes in topics if lanes}
        rest = {}
        for place, command in self._claims.items():
            rows = found.get(f"claim {place}", ())
            if command.topic in paused:
                self._outcomes[place] = Claimed([], 0, [], paused=True)
            elif len(rows) < len(set(command.ids)) or command.topic in laned or any(row[3] is None for row in rows):
                self._outcomes[place] = Claimed([], 0, [], paused=False)
                rest[place] = command  # some are elsewhere, or large, or come before others
            else:
                self._outcomes[place] = self._claim(command, rows)
        return Direct(self._now, self._outcomes, rest, self._leases, len(self._counts))

    def _settle(self, held: Mapping[int, Sequence[Any]]) -> None:
        for place, command in self._others.items():
            claims, topic, keyed = held.get(command.id, (None, 0, 0))
            self._outcomes[place] = claims == command.claims
            if claims != command.claims:
                continue
            if isinstance(command, Ack):
                self._acked.append(command.id)
                self._counts[topic] += 1
                if keyed:
                    self._keyed.append(command.id)
                if command.result is not None:
                    self._results.append((topic, command.id, command.result))
            else:
                self._renewed[isinstance(command, Begin), command.ttr].append(command.id)
                self._leases.append(self._now + command.ttr)

    def _claim(self, command: Claim, rows: Sequence[Any]) -> Claimed:
        now, (ttr, _, _, _, slack, hold, _) = self._now, command.terms
        full = [(row, json.loads(row[4]) if row[4] else _PLAIN) for row in rows]
        full.sort(key=lambda pair: (pair[0][1], pair[0][0]))
        ready = [pair for pair in full if pair[0][1] <= now]
        choice = lifecycle.choose(
            [more[6] or 0 for _, more in ready],
            [len(row[3]) for row, _ in ready],
            command.begin,
            command.suspects,
            command.bytes,
        )
        jobs: list[Job] = []
        new, topic, running = tuple.__new__, command.topic, State.RUNNING
        for number, place in enumerate(choice.taken):
            (id, due, created, body, _), (key, own_ttr, limit, headers, claims, forgiven, lost, error) = ready[place]
            claim = (claims or 0) + 1
            attempt = lifecycle.attempts(claim, forgiven or 0)
            lease = now + ((own_ttr or ttr) + slack if number < choice.begun else hold)
            some = json.loads(headers) if headers else {}
            fields = id, topic, body, due, created, running, key, own_ttr, limit, some, claim, attempt, lease, error
            jobs.append(new(Job, (*fields, lost or 0, 0)))  # without the function that a named tuple's own is
        if jobs:
            self._started.append((command, [job.id for job in jobs], choice.begun))
            self._leases.append(min(job.lease_until or now for job in jobs))
        left = [ready[place] for place in choice.left] + full[len(ready) :]
        return Claimed(jobs, choice.begun, [Due(row[1], row[0], topic) for row, _ in left], paused=False)

    # ---- the second trip --------------------------------------------------------------------------------------------

    def write(self, trip: Trip) -> None:
        """Write what was decided."""
        if self._acked:
            acked = sorted(self._acked)
            trip.add("", "finish", ids=acked)
            for topic, id, result in self._results:
                trip.add("", "keep_result", topic=topic, id=id, result=result)
            if self._keyed:
                trip.add("", "free_keys", ids=sorted(self._keyed))
            trip.add("", "delete_run", ids=acked)
            trip.many("insert_count", [(topic, -count, count, 0, 0) for topic, count in self._counts.items()])
        for (begin, ttr), ids in self._renewed.items():
            trip.add("", "renew", begin=begin, ttr=ttr, ids=sorted(ids))
        for command, ids, begun in self._started:
            topic, (ttr, most, _, _, slack, hold, _) = self._topics[command.topic], command.terms
            values = {"topic": topic, "ttr": ttr, "slack": slack, "hold": hold, "limit": most, "worker": command.worker}
            for some, begins in ((ids[:begun], True), (ids[begun:], False)):
                if some:
                    backoff = _backoff(command.terms)
                    trip.add("", "start", ids=sorted(some), begun=begins, backoff=backoff, **values)
            trip.add("", "delete_due", topic=topic, ids=sorted(ids), state=0)


def _backoff(terms: Terms) -> Raw:
    """Return what `lifecycle.backoff` is, for each job by itself."""
    if not terms.backoff:
        return Raw("0")
    delays = ",".join(map(str, map(int, terms.backoff)))
    delay = f"cast(elt(least(greatest({_ATTEMPT}, 1), {len(terms.backoff)}), {delays}) AS signed)"
    drawn = f"round({delay} * (1 + {float(terms.jitter)!r} * (2 * rand() - 1)))" if terms.jitter else delay
    return Raw(f"greatest({drawn}, 0)")

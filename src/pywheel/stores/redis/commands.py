"""Commands as arguments of a script."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from ...jobs import commands as c
from ...jobs.job import NewJob, State
from ...jobs.limits import Limits, note_of
from ..checks import note_name, storable
from .answers import (
    Learn,
    as_it_is,
    changed,
    claim_of,
    expired,
    ids_of,
    kept,
    nacked,
    nothing,
    reserved,
    shared_out,
)
from .connection import encoded
from .pieces import PIECE
from .records import (
    STATES,
    known,
    number,
    packed_created,
    packed_job,
    packed_past,
    plain_start,
    receipt,
    reference,
    to_id,
)
from .scripts import APPLY, PUT, SETTLE, Script

__all__ = ["Request"]

_MOST: Final = 2**31 - 1
_TOPIC: Final = itemgetter(0)
_FEW_OVER: Final = encoded((b"few_over", b"%d" % PIECE))


class Request:
    """Some commands as one call of a script."""

    __slots__ = ("_learn", "_sizes", "announces", "arguments", "count", "ends_leases", "script")

    def __init__(self, commands: Sequence[c.Command[Any]]) -> None:
        self.arguments: list[bytes] = []
        """As they are sent, for `script`."""
        self.count = 0
        """How many they are."""
        self._learn: list[Learn] = []
        self._sizes: list[int] | None = None  # of puts, if there is nothing else
        self.script: Script = SETTLE
        self.announces = False
        """Whether the list of workers changes."""
        self.ends_leases = False
        """Whether more leases may have to be ended than one script ends."""
        if all(type(command) is c.Put for command in commands) and _plain(commands):
            self.script = PUT
            self._sizes = self._jobs(commands)
        else:
            for kind, same in groupby(commands, type):
                _ADD[kind](self, list(same))
            if self.ends_leases:
                self.arguments.insert(0, _FEW_OVER)
                self.count += 2

    def _add(self, *values: bytes) -> None:
        self.arguments.append(encoded(values))
        self.count += len(values)

    def outcomes(self, answer: Any) -> list[Any]:
        """Return the outcomes of the commands, in order."""
        if self._sizes is not None:
            return shared_out(answer, self._sizes)
        found: list[Any] = []
        answers = iter(answer)
        for learn in self._learn:
            learn(answers, found)
        return found

    # ---- puts -------------------------------------------------------------------------------------------------------

    def _puts(self, commands: list[c.Command[Any]]) -> None:
        """Plain ones that follow each other together, others one by one: each of them may be refused."""
        self.script = APPLY
        for plain, same in groupby(commands, lambda command: _plain((command,))):
            if plain:
                self._put(list(same))
            else:
                for command in same:
                    self._put_keyed(command)

    def _put(self, commands: Sequence[Any]) -> None:
        if not any(command.jobs for command in commands):
            for _ in commands:
                self._known([])
            return
        self._add(b"put")
        sizes = self._jobs(commands)
        self._learn.append(lambda answers, found: found.extend(shared_out(next(answers), sizes)))

    def _jobs(self, commands: Sequence[Any]) -> list[int]:
        """Add plain jobs; return how many each command has. On the way of every put, so it is written to be quick."""
        jobs = commands[0].jobs if len(commands) == 1 else [job for command in commands for job in command.jobs]
        if not jobs:
            return [0] * len(commands)
        self._add(b"%d" % len(jobs))
        pieces = self.arguments
        for topic, some in ((jobs[0].topic, jobs),) if len(jobs) == 1 else groupby(jobs, _TOPIC):
            same = list(some)
            self._add(topic.encode(), b"%d" % len(same))
            start = plain_start(topic)
            for job in same:
                _, body, due, _, ttr, most, headers, _, delay, _, _, _ = job
                when = b"%d" % due if delay is None else b"d%d" % delay
                if ttr is not None or most is not None or headers:
                    pieces.append(encoded((when, packed_job(job))))
                else:
                    size = len(start) + len(body)
                    pieces.append(b"$%d\r\n%b\r\n$%d\r\n%b%b\r\n" % (len(when), when, size, start, body))
            self.count += 2 * len(same)
        return [len(command.jobs) for command in commands]

    def _put_keyed(self, command: Any) -> None:
        jobs: Sequence[NewJob] = command.jobs
        mark = None if command.mark is None else f"m{command.mark}"  # never a number
        self._add(b"put_keyed", _nonce(command), (mark or "").encode(), b"%d" % len(jobs))
        for job in jobs:
            key = b"" if job.key is None else b"k" + job.key.encode()
            parent = receipt(*job.parent) if job.parent else None
            how = (b"r" if job.replace else b"n") + (parent or b"")
            if job.dedupe_for is not None:
                how = how[:1].upper() + struct.pack(">d", job.dedupe_for) + how[1:]
            self._add(job.topic.encode(), _when(job.due, job.delay), packed_job(job), key, how)
        self._learn.append(ids_of(jobs, mark))

    def _import(self, commands: list[c.Import]) -> None:
        """Jobs with their past, one command by one: each of them may be refused."""
        self.script = APPLY
        for command in commands:
            jobs = [one.new for one in command.jobs]
            self._add(b"import", _nonce(command), b"%d" % len(jobs))
            for one, new in zip(command.jobs, jobs, strict=True):
                key = b"" if new.key is None else b"k" + new.key.encode()
                how = b"l" if one.holds_key else b""
                stored = packed_created(one.job.created) + packed_job(new)
                self._add(new.topic.encode(), b"%d" % new.due, stored, key, how, packed_past(one), _result(one.result))
            self._learn.append(ids_of(jobs))

    # ---- by hand ----------------------------------------------------------------------------------------------------

    def _by_hand(self, commands: list[Any]) -> None:
        for command in commands:
            ref = reference(command.ref)
            if ref is None:
                self._known(False)
                continue
            self._add(type(command).__name__.lower().encode(), ref)
            if isinstance(command, c.Cancel | c.Reschedule):
                self._add(b"" if command.expect is None else b"%d %d" % command.expect)
            if isinstance(command, c.Reschedule | c.Retry):
                self._add(_when(command.due, command.delay))
            self._learn.append(changed)

    def _rewrite(self, commands: list[c.Rewrite]) -> None:
        for command in commands:
            if not known(command.id):
                self._known(False)
                continue
            if command.claim is None:
                self._add(b"rewrite", to_id(command.id), command.old, command.new)
            else:
                claim = number(command.claim)
                self._add(b"rewrite_result", to_id(command.id), claim, command.old, command.new)
            self._learn.append(changed)

    def _pause(self, commands: list[c.Pause]) -> None:
        for command in commands:
            self._add(b"pause", command.topic.encode(), b"1" if command.paused else b"0")
            self._learn.append(changed)

    def _purge(self, commands: list[c.Purge]) -> None:
        for command in commands:
            state = STATES.index(command.state)
            self.ends_leases |= command.state is State.DEAD
            topic = b"" if command.topic is None else b"t" + command.topic.encode()
            limit = min(max(command.limit, 0), _MOST)
            self._add(b"purge", number(state), number(command.age), number(limit), topic)
            self._learn.append(as_it_is)

    # ---- notes ------------------------------------------------------------------------------------------------------

    def _keep(self, commands: list[c.Keep]) -> None:
        for command in commands:
            value = b"" if command.value is None else b"v" + command.value
            ttl = b"" if command.ttl is None else number(command.ttl)
            if value:
                self.script = APPLY
            self._add(b"keep", note_name(command.name), b"1" if command.absent else b"0", ttl, value)
            self._learn.append(kept)

    # ---- claims -----------------------------------------------------------------------------------------------------

    def _terms(self, command: c.Reserve | c.Claim) -> None:
        ttr, most, backoff, jitter, slack, hold, limits = command.terms
        self._add(
            command.topic.encode(),
            command.worker.encode(),
            number(ttr),
            number(most),
            repr(float(jitter)).encode(),
            number(slack),
            number(hold),
            b"" if limits is None else _limits(command.topic, limits),
            number(len(backoff)),
            *map(number, backoff),
        )

    def _reserve(self, commands: list[c.Reserve]) -> None:
        self.ends_leases = True
        for command in commands:
            self._add(b"reserve")
            self._terms(command)
            self._add(number(min(max(command.limit, 0), _MOST)))
            self._add(b"" if command.bytes is None else number(command.bytes), number(command.least))
            self._learn.append(reserved)

    def _claim(self, commands: list[c.Claim]) -> None:
        for command in commands:
            self._add(b"claim")
            self._terms(command)
            ids = b"".join(map(to_id, dict.fromkeys(filter(known, command.ids))))
            self._add(number(command.begin), number(command.suspects), number(command.bytes), ids)
            self._learn.append(claim_of(command.topic))

    def _settle(self, commands: list[Any]) -> None:
        """Ends of claims, and new leases: those of a kind together, those with a receipt that cannot be left out."""
        kind = type(commands[0])
        receipts = [receipt(command.id, command.claims) for command in commands]
        some = [(packed, command) for packed, command in zip(receipts, commands, strict=True) if packed is not None]
        if some:
            packed = b"".join(packed for packed, _ in some)
            results = [command.result for _, command in some] if kind is c.Ack else []
            kept = results.count(None) < len(results)
            self._add(b"ack_kept" if kept else kind.__name__.lower().encode(), number(len(some)), packed)
            if kept:
                self.script = APPLY
                self._add(*map(_result, results))
            if kind is c.Nack:
                for _, command in some:
                    error = storable(command.error)
                    self._add(b"" if command.delay is None else number(command.delay))
                    self._add(b"" if error is None else b"e" + error.encode())
            elif kind in (c.Begin, c.Touch):
                self._add(*(number(command.ttr) for _, command in some))
        read = nacked if kind is c.Nack else bool
        never = None if kind is c.Nack else False

        def learn(answers: Iterator[Any], found: list[Any]) -> None:
            each = iter(next(answers) if some else ())
            found += [never if packed is None else read(next(each)) for packed in receipts]

        self._learn.append(learn)

    def _expire(self, commands: list[c.Expire]) -> None:
        for command in commands:
            self.ends_leases |= command.limit > PIECE
            self._add(b"expire", number(min(max(command.limit, 0), _MOST)))
            self._learn.append(expired)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _announce(self, commands: list[c.Announce]) -> None:
        self.announces = True
        for command in commands:
            self._add(b"announce", command.worker.encode(), json.dumps(command.topics).encode())
            self._learn.append(nothing)

    def _known(self, outcome: Any) -> None:
        """Note an outcome that nobody need be asked for."""
        self._learn.append(lambda _, found: found.append(outcome))


def _limits(topic: str, limits: Limits) -> bytes:
    most, per, every, burst = limits
    return json.dumps([most or False, per or False, every, burst, note_of(topic)]).encode()


def _plain(commands: Sequence[Any]) -> bool:
    """Whether these puts have no nonce, and their jobs neither keys nor priorities."""
    for command in commands:
        if command.nonce is not None or [job for job in command.jobs if job[3] is not None or job[11]]:
            return False
    return True


def _when(due: int, delay: int | None) -> bytes:
    return b"%d" % due if delay is None else b"d%d" % delay


def _nonce(command: c.Put | c.Import) -> bytes:
    return b"" if command.nonce is None else b"n" + command.nonce.encode()


def _result(result: bytes | None) -> bytes:
    return b"" if result is None else b"r" + result


_ADD: Final[dict[type, Callable[[Request, Any], None]]] = {
    c.Put: Request._puts,
    c.Import: Request._import,
    c.Cancel: Request._by_hand,
    c.Reschedule: Request._by_hand,
    c.Retry: Request._by_hand,
    c.Delete: Request._by_hand,
    c.Rewrite: Request._rewrite,
    c.Pause: Request._pause,
    c.Purge: Request._purge,
    c.Keep: Request._keep,
    c.Reserve: Request._reserve,
    c.Claim: Request._claim,
    c.Begin: Request._settle,
    c.Ack: Request._settle,
    c.Nack: Request._settle,
    c.Release: Request._settle,
    c.Touch: Request._settle,
    c.Expire: Request._expire,
    c.Announce: Request._announce,
}

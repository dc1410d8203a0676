"""Commands as arguments of a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from ...jobs import commands as c
from ...jobs.job import NewJob
from ...jobs.limits import Limits, note_of
from ..checks import clamped, note_name, storable
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
from .connection import encoded, one
from .records import (
    LAST,
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

__all__ = ["Request"]

_MOST: Final = 2**31 - 1
_LANE: Final = attrgetter("topic", "priority")
"""Topic and priority of a new job."""


class Request:
    """Some commands as one call."""

    __slots__ = ("_learn", "announces", "arguments", "count", "function")

    def __init__(self, commands: Sequence[c.Command[Any]]) -> None:
        self.arguments: list[bytes] = []
        """As they are sent, for `function`."""
        self.count = 0
        """How many they are."""
        self._learn: list[Learn] = []
        self.function = "settle"
        self.announces = False
        """Whether the list of workers changes."""
        if len(commands) == 1:
            _ADD[type(commands[0])](self, commands)
            return
        for kind, same in groupby(commands, type):
            _ADD[kind](self, list(same))

    def _add(self, *values: bytes) -> None:
        self.arguments.append(encoded(values))
        self.count += len(values)

    def outcomes(self, answer: Any) -> list[Any]:
        """Return the outcomes of the commands, in order."""
        found: list[Any] = []
        answers = iter(answer)
        for learn in self._learn:
            learn(answers, found)
        return found

    # ---- puts -------------------------------------------------------------------------------------------------------

    def _puts(self, commands: list[c.Command[Any]]) -> None:
        """Plain ones that follow each other together, others one by one: each of them may be refused."""
        self.function = "apply"
        if len(commands) == 1 and _is_plain(commands[0]):
            self._put(commands)
            return
        for plain, same in groupby(commands, _is_plain):
            if plain:
                self._put(list(same))
            else:
                for command in same:
                    self._put_keyed(command)

    def _put(self, commands: Sequence[Any]) -> None:
        """Add plain jobs. On the way of every put, so it is written to be quick."""
        jobs = commands[0].jobs if len(commands) == 1 else [job for command in commands for job in command.jobs]
        sizes = [len(command.jobs) for command in commands]
        if not jobs:
            self._known(*([] for _ in sizes))
            return
        pieces = self.arguments
        pieces.append(b"$3\r\nput\r\n" + one(b"%d" % len(jobs)))
        self.count += 2
        for (topic, priority), some in [(_LANE(jobs[0]), jobs)] if len(jobs) == 1 else groupby(jobs, _LANE):
            same = list(some)
            self._add(topic.encode(), b"%d" % priority, b"%d" % len(same))
            start = plain_start(topic)
            for job in same:
                body, delay = job.body, job.delay
                when = b"%d" % job.due if delay is None else b"d%d" % delay
                if job.ttr is not None or job.max_attempts is not None or job.headers or priority:
                    pieces.append(encoded((when, packed_job(job))))
                else:
                    size = len(start) + len(body)
                    pieces.append(b"$%d\r\n%b\r\n$%d\r\n%b%b\r\n" % (len(when), when, size, start, body))
            self.count += 2 * len(same)
        self._learn.append(lambda answers, found: found.extend(shared_out(next(answers), sizes)))

    def _put_keyed(self, command: Any) -> None:
        jobs: Sequence[NewJob] = command.jobs
        mark = None if command.mark is None else f"m{command.mark}"  # never a number
        self._add(b"put_keyed", _nonce(command), (mark or "").encode(), b"%d" % len(jobs))
        for job in jobs:
            how = (b"r" if job.replace else b"n") + ((receipt(*job.parent) if job.parent else None) or b"")
            self._add(job.topic.encode(), _when(job.due, job.delay), packed_job(job), _key(job), how)
            self._add(b"" if job.dedupe_for is None else number(job.dedupe_for), number(job.priority))
        self._learn.append(ids_of(jobs, mark))

    def _import(self, commands: list[c.Import]) -> None:
        """Jobs with their past, one command by one: each of them may be refused."""
        self.function = "apply"
        for command in commands:
            jobs = [job.new for job in command.jobs]
            self._add(b"import", _nonce(command), b"%d" % len(jobs))
            for job, new in zip(command.jobs, jobs, strict=True):
                stored, how = packed_created(job.job.created) + packed_job(new), b"l" if job.holds_key else b""
                self._add(new.topic.encode(), b"%d" % new.due, stored, _key(new), how)
                self._add(packed_past(job), _result(job.result))
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
            claim = b"" if command.claim is None else number(command.claim)
            self._add(b"rewrite", to_id(command.id), claim, command.old, command.new)
            self._learn.append(changed)

    def _pause(self, commands: list[c.Pause]) -> None:
        for command in commands:
            self._add(b"pause", command.topic.encode(), b"1" if command.paused else b"0")
            self._learn.append(changed)

    def _purge(self, commands: list[c.Purge]) -> None:
        for command in commands:
            state = STATES.index(command.state)
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
                self.function = "apply"
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
            without = b"".join(map(to_id, filter(known, command.without)))
            self._add(number(min(max(command.limit, 0), _MOST)), _place(command.after), without)
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
                self.function = "apply"
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
            self._add(b"expire", number(min(max(command.limit, 0), _MOST)))
            self._learn.append(expired)

    # ---- workers ----------------------------------------------------------------------------------------------------

    def _announce(self, commands: list[c.Announce]) -> None:
        self.announces = True
        for command in commands:
            self._add(b"announce", command.worker.encode(), json.dumps(command.topics).encode())
            self._learn.append(nothing)

    def _known(self, *outcomes: Any) -> None:
        """Note outcomes that nobody need be asked for."""
        self._learn.append(lambda _, found: found.extend(outcomes))


def _limits(topic: str, limits: Limits) -> bytes:
    most, per, every, burst = limits
    return json.dumps([most or False, per or False, every, burst, note_of(topic)]).encode()


def _is_plain(command: Any) -> bool:
    """Whether a put has no nonce, and its jobs no keys."""
    return command.nonce is None and not [job for job in command.jobs if job.key is not None]


def _when(due: int, delay: int | None) -> bytes:
    return b"%d" % due if delay is None else b"d%d" % delay


def _nonce(command: c.Put | c.Import) -> bytes:
    return (command.nonce or "").encode()


def _key(job: NewJob) -> bytes:
    return b"" if job.key is None else b"k" + job.key.encode()


def _place(after: tuple[int | None, int, int] | None) -> bytes:
    """Return the place behind which a claim looks."""
    if after is None:
        return b""
    priority, due, id = after
    behind = to_id(min(max(id, 0), LAST)) + number(clamped(due))
    return behind if priority is None else behind + b" %d" % priority


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

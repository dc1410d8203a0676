"""Limits of a topic: how many of its jobs run at once in the whole store, and how many begin in a span of time.

Limits travel with the claims (`ClaimPolicy.limits`), and the store applies them in the claiming transaction. So they
hold for any set of workers. A claim counts as running until its lease is over. A rate uses the generic cell rate
algorithm: one number, the time at which the next start is due if all starts came evenly.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, NamedTuple, cast

from .._errors import BadOption
from .checks import whole
from .durations import Duration, duration, refuse_long
from .job import PRIORITIES

OVERRIDES: Final = "limit-override:"
"""The prefix of the names of notes with limits that replace those in code."""

_LOOKED_PAST: Final = 1_000
_POLL: Final = 80  # ms until a job that waits for a place is tried again: another worker may have freed one
_MOMENT: Final = 10  # ms until a claim is tried again that came second to another one
_MOST: Final = 1_000_000
_SMOOTH: Final = 100_000  # us within which a rate makes up for late starts, unless a burst is given
_RATE: Final = re.compile(r"\s*([0-9]{1,9})\s*/\s*(.*?\S)(?:\s+burst\s+([0-9]{1,9}))?\s*", re.DOTALL)
_REMEMBERED: Final = 3_600_000_000  # us for which an unused rate is kept after its next start was due
_LONGEST: Final = 180  # characters of a topic that a note's name contains unchanged


def lane(priority: int) -> int:
    """Return the bit of a priority in a set of priorities; 0 for priority 0."""
    return 1 << priority + PRIORITIES if priority else 0


def priorities(lanes: int) -> tuple[int, ...]:
    """Return the priorities of a set of bits, the highest first."""
    return tuple(priority for priority in range(PRIORITIES, -PRIORITIES - 1, -1) if lanes >> priority + PRIORITIES & 1)


class Limit(NamedTuple):
    """How many jobs of a topic, or of each group of them, may run at once."""

    most: int
    per: str | None = None
    """The text that ends the group's part of a key, such as ":". A job without a key is in no group."""


class Rate(NamedTuple):
    """How many jobs of a topic may begin in each `period`, on average."""

    jobs: int
    period: Duration
    burst: int | None = None
    """The most starts at once after a pause; default: the starts of a tenth of a second, at least 1. No period has more
    than jobs + burst - 1 starts."""


class Limits(NamedTuple):
    """A limit and a rate, as they travel with a claim."""

    most: int | None = None
    per: str | None = None
    every: int = 0  # us from one start to the next, 0 without a rate
    burst: int = 1


def limits_of(limit: int | Limit | None, rate: str | Rate | None) -> Limits | None:
    """Return a handler's limits, None if it has none. BadOption if they make no sense."""
    if limit is None and rate is None:
        return None
    most, per = _parts(limit)
    if limit is not None:
        whole(most, "limit", _MOST, error=BadOption)
    if per is not None and (not isinstance(per, str) or not 0 < len(per) <= 100):
        raise BadOption(f"per= of a Limit must be the text after the name of a group, such as ':', not {per!r:.40}")
    every, burst = (0, 1) if rate is None else _cells(_rate(rate))
    return Limits(most, per, every, burst)


def looked_at(limit: int, limits: Limits | None) -> int:
    """Return how many due jobs a `Reserve` of `limit` jobs looks at: groups may hold back the first ones."""
    return limit if limits is None or limits.per is None else max(limit, _LOOKED_PAST)


def _parts(limit: int | Limit | None) -> tuple[Any, Any]:
    return limit if isinstance(limit, Limit) else (limit, None)


def _rate(rate: Any) -> Rate:
    if isinstance(rate, Rate):
        return rate
    if isinstance(rate, str):
        refuse_long(rate, "a rate", error=BadOption)
    found = _RATE.fullmatch(rate) if isinstance(rate, str) else None
    if found is None:
        raise BadOption(f"rate must be text such as '100/m' or '5/s', or a Rate, not {rate!r:.40}")
    period = found[2] if found[2][0].isdigit() else f"1{found[2]}"
    return Rate(int(found[1]), period, int(found[3]) if found[3] else None)


def _cells(rate: Rate) -> tuple[int, int]:
    """Return the us from one start to the next, rounded up, and the burst."""
    jobs = whole(rate.jobs, "the number of a rate", _MOST, error=BadOption)
    period = duration(rate.period, "the period of a rate", 1, error=BadOption)
    every = -(-period * 1000 // jobs)
    if rate.burst is None:
        return every, max(_SMOOTH // every, 1)
    return every, whole(rate.burst, "the burst of a rate", _MOST, error=BadOption)


def note_of(topic: str) -> str:
    """Return the name of the note that holds a topic's rate, and guards its limits."""
    return f"limit:{_short(topic)}"


def _short(topic: str) -> str:
    return topic if len(topic) <= _LONGEST else blake2b(topic.encode(), digest_size=32).hexdigest()


# ---- set at run time ------------------------------------------------------------------------------------------------


class LimitOverride(NamedTuple):
    """The limits that an operator has set for a topic, in place of its handler's. All None: no limits."""

    limit: int | None = None
    per: str | None = None
    rate: str | None = None

    @classmethod
    def of(cls, limit: int | Limit | None, rate: str | Rate | None) -> LimitOverride:
        """Return the override of these values, which `limits_of` describes. BadOption if they make no sense."""
        limits_of(limit, rate)
        if isinstance(rate, Rate):
            period = rate.period if isinstance(rate.period, str) else f"{duration(rate.period, 'period')}ms"
            rate = f"{rate.jobs}/{period}" + (f" burst {rate.burst}" if rate.burst else "")
        found = cls(*_parts(limit), rate)
        _ = found.limits  # must be readable
        return found

    @classmethod
    def read(cls, note: bytes | None) -> LimitOverride | None:
        """Return the override in a note; None if there is none, or it cannot be read here."""
        try:
            found = cls(*json.loads(note or b""))
            _ = found.limits
        except (ValueError, TypeError):
            return None
        return found

    @property
    def note(self) -> bytes:
        """The note with this override."""
        return json.dumps(self).encode()

    @property
    def options(self) -> dict[str, Any]:
        """The override as options of a handler."""
        return {"limit": self.limit if self.per is None else Limit(cast(int, self.limit), self.per), "rate": self.rate}

    @property
    def limits(self) -> Limits | None:
        """The override as it travels with a claim. BadOption if it makes no sense."""
        return limits_of(**self.options)

    @property
    def text(self) -> str:
        """The override in words."""
        most = f"{self.limit} at once{f' of each group up to {self.per!r}' if self.per else ''}" if self.limit else None
        return ", ".join(filter(None, (most, self.rate))) or "no limit"


def override_name(topic: str) -> str:
    """Return the name of the note that sets a topic's limits."""
    return OVERRIDES + _short(topic)


# ---- what they let through ------------------------------------------------------------------------------------------


def _dues(value: bytes) -> dict[tuple[int, int], int]:
    """Return the rates in a note, each with the time at which its next start is due."""
    cells = (re.split("[/=]", cell) for cell in value.decode().split(",") if cell)
    return {(int(every), int(burst)): int(due) for every, burst, due in cells}


class Gate:
    """The limits' decisions at one moment. The caller asks for one job after the other, in their order.

    `running` are the keys of the running jobs. `value` is the note's: for each recently used rate the us from one start
    to the next, its burst, and when its next start is due, in us. Each start counts for all rates. So if programs give
    different rates, each rate is kept, whichever program starts a job.
    """

    def __init__(self, limits: Limits, running: Iterable[str | None], value: bytes | None, now: int) -> None:
        self._limits = limits
        self._now = now * 1000
        self._groups = Counter(map(self._group, running))
        self._before = value or b""
        self._guarded = value is not None or limits.most is None
        self._others = {rate: due for rate, due in _dues(self._before).items() if due > self._now - _REMEMBERED}
        latest = max(self._others.values(), default=0)
        known = self._others.pop((limits.every, limits.burst), None)
        # A new rate has no record of earlier starts. It assumes the latest start that any rate has noted, capped at its
        # own burst: only a slower rate, or another clock, can have noted a later one.
        noted = latest if known is None else known
        self._due = min(noted, self._now + limits.burst * limits.every)
        # A cap is written, though nothing begins: counted anew from each later moment, it would never be reached.
        self._changed = bool(limits.every and noted > (self._now if known is None else self._due))
        self._again: int | None = None
        self._begun = False
        self._full: list[tuple[int, str]] = []

    def admits(self, key: str | None, id: int = 0) -> bool:
        """Whether a job with this key may begin. If so, it counts as running from now on."""
        most, per, every, burst = self._limits
        group = self._group(key)
        if most is not None and group is not None and self._groups[group] >= most:
            if per is not None:
                self._full.append((id, group))
            self._hold(self._now + _POLL * 1000)
            return False
        if every:
            first = self._due - (burst - 1) * every
            if first > self._now:
                self._hold(first)
                return False
            self._due = self._next(self._due, every, burst)
            self._others = {rate: self._next(due, *rate) for rate, due in self._others.items()}
            self._changed = True
        self._groups[group] += 1
        self._begun = True
        return True

    @property
    def again(self) -> int | None:
        """When to try again the jobs that were held back, in ms; None if none was."""
        return None if self._again is None else -(-self._again // 1000)

    @property
    def full(self) -> tuple[tuple[int, str], ...]:
        """The ids of the jobs that a limit by key held back, with their groups."""
        return tuple(self._full)

    @property
    def changed(self) -> bool:
        """Whether to write the note. The first start writes it, so that concurrent claims lock its row."""
        return self._changed or (self._begun and not self._guarded)

    @property
    def value(self) -> bytes:
        """The new content of the note."""
        if not self._changed:
            return self._before
        every, burst = self._limits.every, self._limits.burst
        cells = [((every, burst), self._due), *self._others.items()]
        return b",".join(b"%d/%d=%d" % (*rate, due) for rate, due in cells)

    def _next(self, due: int, every: int, burst: int) -> int:
        """Return when the next start of a rate is due after a start now."""
        return min(max(due, self._now) + every, self._now + burst * every)

    def _group(self, key: str | None) -> str | None:
        """Return the group that a job counts in; None if the job is not limited."""
        per = self._limits.per
        if per is None:
            return ""
        return None if key is None else key.partition(per)[0]

    def _hold(self, until: int) -> None:
        self._again = until if self._again is None else min(self._again, until)


class ShutGate(Gate):
    """A gate that admits no job: another claim is deciding which jobs begin."""

    def __init__(self, limits: Limits, now: int) -> None:
        super().__init__(limits, (), b"", now)

    def admits(self, key: str | None, id: int = 0) -> bool:  # noqa: ARG002
        """Hold the job back for a moment."""
        self._hold(self._now + _MOMENT * 1000)
        return False

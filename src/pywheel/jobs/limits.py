"""Limits of a topic: how many of its jobs run at once in the whole store, and how many begin in a span of time.

They travel with the claims (`ClaimPolicy.limits`), and the store keeps them in the transaction that claims: so they
hold whatever workers there are. What counts as running is a claim whose lease is not over. A rate is kept by the
generic cell rate algorithm: one number says when the next start is due if all came evenly.
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

__all__ = [
    "OVERRIDES",
    "PRIORITIES",
    "Gate",
    "Limit",
    "LimitOverride",
    "Limits",
    "Rate",
    "ShutGate",
    "lane",
    "limits_of",
    "looked_at",
    "note_of",
    "override_name",
    "priorities",
]

OVERRIDES: Final = "limit-override:"
"""What the names of the notes begin with that set limits in place of code."""

_LOOKED_PAST: Final = 1_000
_POLL: Final = 80  # ms after which a job that waits for a place is asked for again: another worker may have freed one
_MOMENT: Final = 10  # ms after which a claim is tried again that another one was before
_MOST: Final = 1_000_000
_SMOOTH: Final = 100_000  # us within which a rate makes up for starts that came late, unless a burst is given
_RATE: Final = re.compile(r"\s*([0-9]{1,9})\s*/\s*(.*?\S)(?:\s+burst\s+([0-9]{1,9}))?\s*", re.DOTALL)
_REMEMBERED: Final = 3_600_000_000  # us for which a rate is kept that nobody has asked for since its next start was due
_LONGEST: Final = 180  # characters of a topic that stands in the name of a note as it is


def lane(priority: int) -> int:
    """Return the bit that stands for a priority among those of a topic; none for 0."""
    return 1 << priority + PRIORITIES if priority else 0


def priorities(lanes: int) -> tuple[int, ...]:
    """Return the priorities of these bits, the highest first."""
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
    """How many may begin at once after a pause; by default as many as begin in a tenth of a second, at least 1. In no
    period more than jobs + burst - 1 begin."""


class Limits(NamedTuple):
    """Both, as they travel."""

    most: int | None = None
    per: str | None = None
    every: int = 0  # us from one start to the next, 0 without a rate
    burst: int = 1


def limits_of(limit: int | Limit | None, rate: str | Rate | None) -> Limits | None:
    """Return what a handler asked for, None if it asked for nothing. BadOption if it makes no sense."""
    if limit is None and rate is None:
        return None
    most, per = _parts(limit)
    if limit is not None:
        whole(most, "limit", _MOST, error=BadOption)
    if per is not None and (not isinstance(per, str) or not 0 < len(per) <= 100):
        raise BadOption(f"per= of a Limit is the text behind the name of a group, such as ':', not {per!r:.40}")
    every, burst = (0, 1) if rate is None else _cells(_rate(rate))
    return Limits(most, per, every, burst)


def looked_at(limit: int, limits: Limits | None) -> int:
    """Return among how many due jobs a `Reserve` looks for so many: groups may hold up the first of them."""
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
        raise BadOption(f"rate is text such as '100/m' or '5/s', or a Rate, not {rate!r:.40}")
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
    """Return the name of the note in which a topic's rate stands, and which guards its limits."""
    return f"limit:{_short(topic)}"


def _short(topic: str) -> str:
    return topic if len(topic) <= _LONGEST else blake2b(topic.encode(), digest_size=32).hexdigest()


# ---- set at run time ------------------------------------------------------------------------------------------------


class LimitOverride(NamedTuple):
    """The limits of a topic as an operator set them, in place of what its handler says. All None: it has none."""

    limit: int | None = None
    per: str | None = None
    rate: str | None = None

    @classmethod
    def of(cls, limit: int | Limit | None, rate: str | Rate | None) -> LimitOverride:
        """Return what these say, as `limits_of` takes them. BadOption if it makes no sense."""
        limits_of(limit, rate)
        if isinstance(rate, Rate):
            period = rate.period if isinstance(rate.period, str) else f"{duration(rate.period, 'period')}ms"
            rate = f"{rate.jobs}/{period}" + (f" burst {rate.burst}" if rate.burst else "")
        found = cls(*_parts(limit), rate)
        _ = found.limits  # as it is read
        return found

    @classmethod
    def read(cls, note: bytes | None) -> LimitOverride | None:
        """Return what a note says; None if there is none, or none that can be read here."""
        try:
            found = cls(*json.loads(note or b""))
            _ = found.limits
        except (ValueError, TypeError):
            return None
        return found

    @property
    def note(self) -> bytes:
        """The note that says this."""
        return json.dumps(self).encode()

    @property
    def options(self) -> dict[str, Any]:
        """The same as options of a handler."""
        return {"limit": self.limit if self.per is None else Limit(cast(int, self.limit), self.per), "rate": self.rate}

    @property
    def limits(self) -> Limits | None:
        """The same as it travels. BadOption if it makes no sense."""
        return limits_of(**self.options)

    @property
    def text(self) -> str:
        """The same in words."""
        most = f"{self.limit} at once{f' of each group up to {self.per!r}' if self.per else ''}" if self.limit else None
        return ", ".join(filter(None, (most, self.rate))) or "no limit"


def override_name(topic: str) -> str:
    """Return the name of the note that sets a topic's limits."""
    return OVERRIDES + _short(topic)


# ---- what they let through ------------------------------------------------------------------------------------------


def _dues(value: bytes) -> dict[tuple[int, int], int]:
    """Return what a note says: by rate, when its next start is due."""
    cells = (re.split("[/=]", cell) for cell in value.decode().split(",") if cell)
    return {(int(every), int(burst)): int(due) for every, burst, due in cells}


class Gate:
    """What limits let through at a moment. Jobs are asked for one by one, in their order.

    `running` are the keys of those that run, `value` is the note's: of each rate that anybody asked for of late, us
    from one start to the next, burst, and when its next start is due, in us. Each start counts for all of them: so
    where programs say different rates, each keeps its own, whoever begins what.
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
        # A rate that is new does not know what has begun: it takes the worst for granted, as far as that is its affair.
        # Further off is only what a slower rate has noted, or another clock: nobody waits for those.
        self._due = min(latest if known is None else known, self._now + limits.burst * limits.every)
        self._changed = bool(limits.every and known is None and latest > self._now)
        self._again: int | None = None
        self._begun = False
        self._full: list[tuple[int, str]] = []

    def admits(self, key: str | None, id: int = 0) -> bool:
        """Whether a job with this key may begin; then it counts."""
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
        """When to ask again for what was held back, in ms; None if nothing was."""
        return None if self._again is None else -(-self._again // 1000)

    @property
    def full(self) -> tuple[tuple[int, str], ...]:
        """The ids of those that a limit by key held back, with their groups."""
        return tuple(self._full)

    @property
    def changed(self) -> bool:
        """Whether the note is to be written. The first start writes it: those who claim at once lock its row."""
        return self._changed or (self._begun and not self._guarded)

    @property
    def value(self) -> bytes:
        """What the note is to say."""
        if not self._changed:
            return self._before
        every, burst = self._limits.every, self._limits.burst
        cells = [((every, burst), self._due), *self._others.items()]
        return b",".join(b"%d/%d=%d" % (*rate, due) for rate, due in cells)

    def _next(self, due: int, every: int, burst: int) -> int:
        """Return when the next start of a rate is due, once one begins now."""
        return min(max(due, self._now) + every, self._now + burst * every)

    def _group(self, key: str | None) -> str | None:
        """Return what is counted together; None is not limited."""
        per = self._limits.per
        if per is None:
            return ""
        return None if key is None else key.partition(per)[0]

    def _hold(self, until: int) -> None:
        self._again = until if self._again is None else min(self._again, until)


class ShutGate(Gate):
    """A gate that nothing goes through: another claim is deciding what begins."""

    def __init__(self, limits: Limits, now: int) -> None:
        super().__init__(limits, (), b"", now)

    def admits(self, key: str | None, id: int = 0) -> bool:  # noqa: ARG002
        """Hold it back for a moment."""
        self._hold(self._now + _MOMENT * 1000)
        return False

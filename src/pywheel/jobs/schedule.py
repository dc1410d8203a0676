"""Schedules: which jobs are put when, again and again, and what happens to late and overlapping ones.

A *tick* is one time of a schedule, and the job that is put for it. All processes compute the same ticks.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from secrets import token_hex
from typing import Any, Final, Literal

from .._errors import BadBody, BadJob, BadOption
from . import cron
from .checks import did_you_mean
from .durations import duration, moment, span_text
from .job import Job, NewJob

CatchUp = Literal["none", "one", "all"]
"""The treatment of ticks that could not begin in time."""
Overlap = Literal["skip", "queue", "overlap"]
"""The treatment of a tick while the previous one still runs."""

NAME: Final = "pywheel-schedule"
"""The header of a tick's job with the name of its schedule."""
TICK: Final = "pywheel-tick"
"""The header with the tick's time, in UTC, in the format of ISO 8601."""
VERSION: Final = "pywheel-version"
"""The header with the version of the schedule at the put; BY_HAND for a tick that `run` has put."""
OVERLAP: Final = "pywheel-overlap"
"""The header of a tick for which later ones wait: its value is "queue"."""
BY_HAND: Final = "by hand"

SHORTEST: Final = 1_000
"""The shortest time between two ticks, ms."""
LATE: Final = 60_000
"""ms after which a tick that has not begun is missed, and dropped unless the schedule catches up."""
MOST_MISSED: Final = 1_000
"""The most missed ticks that a schedule catches up with at once."""
_LONGEST_NAME: Final = 180  # characters: a note's has 200
_ROOM: Final = 32_768  # bytes of a body and of headers: all of it is one note
_LOOK_BACK: Final = 31 * 86_400_000  # ms: it is not known for longer which ticks were put
_RULES: Final = 20  # earlier rules that are kept: up to 20 changes between two plans lose no tick


@dataclass(frozen=True, slots=True)
class Former:
    """The rule of a schedule before a change: its ticks until then still run, if they have not yet."""

    every: int | None
    cron: str | None
    tz: str
    jitter: int
    since: int
    until: int
    version: str

    def after(self, time: int) -> int | None:
        """Return its first tick later than `time`; None if there is none, or it cannot be computed here."""
        with suppress(BadOption):  # its missed ticks are lost; the rule that follows goes on
            tick = _first_after(self, time)
            return tick if tick is not None and tick <= self.until else None
        return None

    def last(self, time: int) -> int | None:
        """Return its last tick not later than `time`; None if there is none, or it cannot be computed here."""
        with suppress(BadOption):
            return _last_until(self, min(time, self.until))
        return None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule, as a store keeps it. `ScheduleOptions` describes its fields; durations are in ms."""

    name: str
    topic: str
    body: bytes = b""
    every: int | None = None
    cron: str | None = None
    tz: str = "UTC"
    catch_up: CatchUp = "none"
    overlap: Overlap = "skip"
    jitter: int = 0
    ttr: int | None = None
    max_attempts: int | None = None
    headers: dict[str, str] | None = None
    priority: int = 0
    declared: str | None = None
    """The module that declares it; None if it was made by a call."""
    paused: bool = False
    since: int = 0
    """Its ticks come after this time: when it was made, changed or resumed."""
    version: str = ""
    """A hash that differs after every change of its fields."""
    removed: bool = False
    """Whether it was removed. It is kept for a while, so that a new one of the same name has another version."""
    past: tuple[Former, ...] = field(default=(), repr=False)
    """Its rules before earlier changes, as far as they had ticks. None from before a pause."""

    @property
    def active(self) -> bool:
        """Whether ticks are put."""
        return not (self.paused or self.removed)

    @property
    def timing(self) -> str:
        """When its ticks come, for people."""
        if self.every is not None:
            return f"every {span_text(self.every)}"
        return f"{self.cron} {self.tz}"

    # ---- ticks ------------------------------------------------------------------------------------------------------

    def after(self, time: int) -> int | None:
        """Return its first tick later than `time`, by the rule that applies at the tick; None if there is none."""
        for former in self.past:
            if time < former.until and (tick := former.after(time)) is not None:
                return tick
        return _first_after(self, time)

    def until(self, time: int) -> int | None:
        """Return its last tick not later than `time`, by the rule that applied at the tick; None if there is none."""
        tick = _last_until(self, time)
        for former in reversed(self.past):
            if tick is not None:
                break
            tick = former.last(time)
        return tick

    def ticks(self, after: int, until: int) -> Iterator[int]:
        """Yield its ticks later than `after`, up to `until`."""
        tick = self.after(after)
        while tick is not None and tick <= until:
            yield tick
            tick = self.after(tick)

    def missed(self, after: int, now: int) -> list[int]:
        """Return the ticks later than `after`, up to `now`, that are still put although their time is over."""
        last = self.until(now)
        if last is None or last <= after:
            return []
        lot = max(self.jitter, *(former.jitter for former in self.past), 0)
        least = {"none": now - LATE - lot, "one": last, "all": now - _LOOK_BACK}[self.catch_up]
        found: list[int] = []
        tick: int | None = last
        for _ in range(MOST_MISSED):
            if tick is None or tick < least or tick <= after:
                break
            if self.catch_up != "none" or self.due(tick) >= now - LATE:  # with jitter it may be due later
                found.append(tick)
            tick = self.until(tick - 1)
        return found[::-1]

    def due(self, tick: int) -> int:
        """Return the due time of a tick's job: the same in all processes, so that any of them may put it."""
        jitter = self._rule(tick).jitter
        if not jitter:
            return tick
        draw = int.from_bytes(blake2b(f"{self.name}\0{tick}".encode(), digest_size=8).digest())
        return tick + draw % jitter

    def version_at(self, tick: int) -> str:
        """Return the schedule's version that a tick belongs to."""
        return self._rule(tick).version

    def puts(self, tick: int | None, version: str | None) -> bool:
        """Whether a tick that was put for a version belongs to the schedule, or to one of its earlier rules."""
        return version == self.version or (tick is not None and version == self.version_at(tick))

    def unplanned(self, known: int, recent: int) -> int:
        """Return the time after which some ticks may not be put yet, if ticks were put up to `known`.

        A rule that began later than `recent` was not known then.
        """
        began = [*(former.since for former in self.past), self.since]
        return min([known, *(since for since in began if since > recent)])

    def _rule(self, tick: int) -> Former | Schedule:
        return next((former for former in self.past if former.since < tick <= former.until), self)

    def key(self, tick: int) -> str:
        """Return the key of a tick's job."""
        return f"{self.name}@{written(tick)}"

    def job(self, tick: int, *, by_hand: bool = False) -> NewJob:
        """Return a tick's job."""
        marks = {NAME: self.name, TICK: written(tick), VERSION: BY_HAND if by_hand else self.version}
        if self.overlap == "queue":
            marks[OVERLAP] = self.overlap
        return NewJob(
            self.topic,
            self.body,
            tick if by_hand else self.due(tick),
            f"{self.key(tick)} {BY_HAND} {token_hex(4)}" if by_hand else self.key(tick),
            self.ttr,
            self.max_attempts,
            {**(self.headers or {}), **marks},
            priority=self.priority,
        )

    # ---- as it is kept ----------------------------------------------------------------------------------------------

    @property
    def at_rest(self) -> Schedule:
        """The schedule as it was given, without its history."""
        return replace(self, paused=False, since=0, version="", removed=False, past=())

    def following(self, before: Schedule | None, since: int) -> Schedule:
        """Return the schedule with the version that follows another one's. All processes compute the same version.

        Ticks up to `since` are those of the other one, unless that was paused.
        """
        said = f"{'' if before is None else before.version} {self.at_rest!r}"
        version = blake2b(said.encode(), digest_size=8).hexdigest()
        return replace(self, since=since, version=version, past=() if before is None else before._until_now(since))

    def _until_now(self, now: int) -> tuple[Former, ...]:
        """Return the rules of its ticks until now, as far as some of these may still run."""
        if not self.active:
            return ()
        mine = Former(self.every, self.cron, self.tz, self.jitter, self.since, now, self.version)
        since = now - _LOOK_BACK
        return tuple(rule for rule in (*self.past, mine) if (rule.last(rule.until) or since) > since)[-_RULES:]

    def begun(self, now: int) -> Schedule:
        """Return the schedule with a beginning not later than `now`, after a change under a clock that was ahead."""
        past = tuple(replace(former, until=min(former.until, now)) for former in self.past if former.since < now)
        return replace(self, since=min(self.since, now), past=past)

    def kept(self) -> bytes:
        """Return the schedule as a note. BadJob if it is too long for one."""
        fields = {name: value for name, value in asdict(self).items() if value not in (None, ()) and name != "name"}
        fields["body"] = b64encode(self.body).decode()
        text = json.dumps(fields).encode()
        if len(text) > 2 * _ROOM and self.past:
            return replace(self, past=()).kept()
        if len(text) > 2 * _ROOM:
            raise BadJob(f"body and headers of a schedule have {_ROOM} bytes at most: put a name of it into the body")
        return text

    @classmethod
    def from_note(cls, name: str, note: bytes) -> Schedule:
        """Return the schedule in a note. BadBody if the note is not one. Unknown fields are ignored."""
        try:
            fields = json.loads(note)
            known = {field: fields[field] for field in cls.__dataclass_fields__ if field in fields}
            past = tuple(Former(**former) for former in fields.get("past", ()))
            kept = cls(**{**known, "name": name, "body": b64decode(fields.get("body", "")), "past": past})
        except (ValueError, TypeError, AttributeError) as error:
            raise BadBody(f"the stored schedule {name[:80]!r} cannot be read: {error}") from error
        periods: list[Any] = [kept.every, *(former.every for former in past)]
        for every in periods:
            if every is not None and not (isinstance(every, int) and every >= SHORTEST):
                raise BadBody(f"the stored schedule {name[:80]!r} cannot be read: every is {every!r:.40}")
        return kept


def _first_after(rule: Former | Schedule, time: int) -> int | None:
    """Return the first tick of a rule later than `time`, and later than `since`; None if there is none."""
    time = max(time, rule.since)
    if rule.every is not None:
        return (time // rule.every + 1) * rule.every
    return cron.after(rule.cron or "", rule.tz, time)


def _last_until(rule: Former | Schedule, time: int) -> int | None:
    """Return the last tick of a rule not later than `time`, and later than `since`; None if there is none."""
    found = time // rule.every * rule.every if rule.every else cron.until(rule.cron or "", rule.tz, time)
    return None if found is None or found <= rule.since else found


def tick_of(job: Job) -> int | None:
    """Return the time of the tick that a job was put for, in ms; None if the job belongs to no schedule."""
    text = job.headers.get(TICK)
    if text is None:
        return None
    try:
        return moment(datetime.fromisoformat(text))
    except ValueError:  # a header of the same name from elsewhere
        return None


def written(tick: int) -> str:
    """Return a time in the format of ISO 8601, in UTC, without a fraction if it is a whole second."""
    precision = "milliseconds" if tick % 1000 else "seconds"
    return datetime.fromtimestamp(tick / 1000, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def schedule_name(value: Any) -> str:
    """Return a valid name of a schedule. BadOption for anything else."""
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_NAME or not value.isprintable():
        raise BadOption(
            f"the name of a schedule must have 1 to {_LONGEST_NAME} printable characters, not {value!r:.200}"
        )
    return value


def timing(every: Any, expression: Any, tz: Any) -> dict[str, Any]:
    """Return the fields for the times of ticks. BadOption if they make no sense, or not exactly one rule is given."""
    if (every is None) is (expression is None):
        raise BadOption("a schedule has every= or cron=, one of them")
    if every is None:
        text, zone = cron.checked(expression, "UTC" if tz is None else tz)
        return {"cron": text, "tz": zone}
    if tz is not None:
        raise BadOption("tz= is for cron=: every= goes by UTC, whatever the zone")
    period = duration(every, "every", error=BadOption)
    if period < SHORTEST:
        raise BadOption(f"every must be 1 s or more, and is {every!r:.60}: Timers.call_every is for less")
    return {"every": period}


def one_of(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return one of some words. BadOption for another word."""
    if value not in choices:
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise BadOption(f"{name} is one of {', '.join(choices)}, not {value!r:.40}{near}")
    return str(value)

"""Alarms: what a person must know of a store, told once when it begins and once when it is over.

An alarm begins when its limit is passed, and is over when it was well below that for `Rules.calm`: so one that
flutters is one alarm. Nothing here reads a store or a clock: `look` is given both.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple

from .._errors import StoreError
from .gauges import StoreGauges, TopicGauges

__all__ = ["Alarm", "Alarms", "Limits", "Rules"]


@dataclass(frozen=True, slots=True)
class Limits:
    """When a topic is worth an alarm. None: never."""

    late: float | None = 60.0
    """For how many seconds a due job may wait for a worker."""
    dead: int | None = 1
    """So many more dead jobs, within `Rules.within`."""
    no_worker: float | None = 15.0
    """For how many seconds a due job may wait while no worker handles its topic."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What to watch for. All durations are seconds."""

    limits: Limits = field(default_factory=Limits)
    topics: Mapping[str, Limits] = field(default_factory=dict)
    """By pattern, such as ``shop.*``: the first that fits counts."""
    store_away: float | None = 15.0
    """For how long the store may be away. None: never an alarm."""
    within: float = 300.0
    """In which time dead jobs are counted, up to twice that."""
    calm: float = 30.0
    """How long an alarm must be quiet until it is over."""

    def of(self, topic: str) -> Limits:
        """Return the limits of a topic."""
        fitting = (limits for pattern, limits in self.topics.items() if fnmatchcase(topic, pattern))
        return next(fitting, self.limits)


class Alarm(NamedTuple):
    """One alarm, as it is now or as it was at last."""

    name: str  # late, dead, no_worker or store_away
    topic: str | None
    firing: bool  # False: it is over
    since: int  # when it began, ms
    value: float  # seconds, or jobs
    limit: float
    text: str  # what is wrong, and what to do

    def record(self, time: Callable[[int], str]) -> dict[str, Any]:
        """Return it as JSON can say it."""
        state = "firing" if self.firing else "over"
        return {
            "alarm": self.name,
            "topic": self.topic,
            "state": state,
            "since": time(self.since),
            "value": self.value,
            "limit": self.limit,
            "text": self.text,
        }


class _Sign(NamedTuple):
    """What one look says of one alarm."""

    value: float
    limit: float
    bad: bool  # over its limit
    good: bool  # well below
    text: str


@dataclass(slots=True)
class _State:
    """One alarm that has begun, or may soon."""

    alarm: Alarm
    quiet_since: float | None = None


_Key = tuple[str, str | None]
_HALF: Final = 0.5  # of its limit: below that an alarm is on the way to be over


class Alarms:
    """Turns looks at a store into alarms. For one thread.

    Args:
        rules: what to watch for.
        store: what the store is called in texts.
    """

    def __init__(self, rules: Rules, store: str) -> None:
        self._rules = rules
        self._store = store
        self._states: dict[_Key, _State] = {}
        self._since: dict[_Key, float] = {}  # when what may become an alarm began
        self._dead: tuple[dict[str, int], dict[str, int]] | None = None  # how many there were, at two times
        self._turned = 0.0

    @property
    def firing(self) -> dict[tuple[str, str | None], Alarm]:
        """All alarms that have begun and are not over, by name and topic."""
        return {key: state.alarm for key, state in self._states.items()}

    def look(self, found: StoreGauges | StoreError, now: float, wall: int) -> list[Alarm]:
        """Take in what a store holds, or why it cannot say. Return what begins and what is over.

        `now` are seconds that never go back, `wall` are ms since 1970. O(topics).
        """
        signs: dict[_Key, _Sign | None] = {}
        if isinstance(found, StoreError):
            signs["store_away", None] = self._away(found, now)
            return self._change(signs, now, wall, gone=False)
        self._since.pop(("store_away", None), None)
        for name, topic in found.topics.items():
            for what, sign in self._signs(name, topic, now):
                signs[what, name] = sign
        self._count_dead(found.topics, now)
        return self._change(signs, now, wall, gone=True)

    # ---- what a look says -------------------------------------------------------------------------------------------

    def _away(self, error: StoreError, now: float) -> _Sign | None:
        limit = self._rules.store_away
        if limit is None:
            return None
        away = self._for(("store_away", None), now)
        text = (
            f"{self._store} has not answered for {_seconds(away)} ({str(error)[:300]}). Jobs wait until it does; "
            "workers go on by themselves then. See that its server or its disk is there."
        )
        return _Sign(away, limit, away >= limit, False, text)

    def _signs(self, name: str, topic: TopicGauges, now: float) -> list[tuple[str, _Sign]]:
        limits = self._rules.of(name)
        signs = []
        quoted, shown = shlex.quote(name), repr(name) if len(name) <= 100 else f"{name[:100]!r}..."
        if limits.no_worker is not None and topic.abandoned:
            wait = self._for(("no_worker", name), now)
            text = (
                f"no worker handles topic {shown}, and a job has been due for {_seconds(topic.late)}. Start one: "
                f"pywheel work MODULE:QUEUE --topics {quoted}; or let it wait: pywheel pause {quoted}"
            )
            signs.append(("no_worker", _Sign(topic.late, limits.no_worker, wait >= limits.no_worker, False, text)))
        else:
            self._since.pop(("no_worker", name), None)
        if limits.late is not None and topic.workers and not topic.paused:
            text = (
                f"jobs of topic {shown} start {_seconds(topic.late)} late, the objective is {_seconds(limits.late)}; "
                f"{topic.workers} workers handle it. Start more, or let its handler run more at once (concurrency=); "
                "pywheel workers says which of them have no room"
            )
            good = topic.late <= limits.late * _HALF
            signs.append(("late", _Sign(topic.late, limits.late, topic.late > limits.late, good, text)))
        if limits.dead is not None and topic.counts.dead:
            more = self._more_dead(name, topic.counts.dead)
            text = (
                f"{more} more jobs of topic {shown} are dead, {topic.counts.dead} in all. See why: pywheel list "
                f"--topic {quoted} --state dead; when that is mended: pywheel retry-many --topic {quoted}"
            )
            signs.append(("dead", _Sign(more, limits.dead, more >= limits.dead, more == 0, text)))
        return signs

    def _for(self, key: _Key, now: float) -> float:
        """Return for how long this has been so."""
        return now - self._since.setdefault(key, now)

    def _more_dead(self, topic: str, dead: int) -> int:
        if self._dead is None:  # before the first look nobody knows since when
            return 0
        return max(dead - min(known.get(topic, 0) for known in self._dead), 0)

    def _count_dead(self, topics: Mapping[str, TopicGauges], now: float) -> None:
        """Remember how many are dead; fewer, as some were retried, at once."""
        there = {name: topic.counts.dead for name, topic in topics.items() if topic.counts.dead}
        if self._dead is None:
            self._dead, self._turned = (there, there), now
        elif now - self._turned >= self._rules.within:
            self._dead, self._turned = (self._dead[1], there), now
        before, after = self._dead
        self._dead = _least(before, there), _least(after, there)

    # ---- what becomes of it -----------------------------------------------------------------------------------------

    def _change(self, signs: Mapping[_Key, _Sign | None], now: float, wall: int, *, gone: bool) -> list[Alarm]:
        """Return the alarms that begin or are over. What has no sign any more is quiet, if `gone`."""
        changes = []
        for key, sign in signs.items():
            state = self._states.get(key)
            if sign is None:
                continue
            if state is None:
                if sign.bad:
                    alarm = Alarm(*key, True, wall, sign.value, sign.limit, sign.text)
                    self._states[key] = _State(alarm)
                    changes.append(alarm)
            elif sign.good:
                state.quiet_since = now if state.quiet_since is None else state.quiet_since
            else:
                state.quiet_since = None
                state.alarm = state.alarm._replace(value=sign.value, text=sign.text)
        for key, state in list(self._states.items()):
            if gone and key not in signs and state.quiet_since is None:
                state.quiet_since = now
            if state.quiet_since is not None and now - state.quiet_since >= self._rules.calm:
                del self._states[key]
                lasted = _seconds((wall - state.alarm.since) / 1000)
                changes.append(state.alarm._replace(firing=False, text=f"over, after {lasted}: {state.alarm.text}"))
        return changes


def _least(known: Mapping[str, int], there: Mapping[str, int]) -> dict[str, int]:
    return {topic: min(count, there[topic]) for topic, count in known.items() if topic in there}


def _seconds(seconds: float) -> str:
    """Return a duration for people."""
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"

"""Periodic jobs: calls that make, inspect and stop schedules, and checks shared with schedules declared in code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict, Unpack, cast

from .._errors import BadOption, NoSuchSchedule
from ..jobs.checks import MOST, whole
from ..jobs.commands import Put
from ..jobs.durations import Duration, duration
from ..jobs.handler import is_async
from ..jobs.job import Job, NewJob
from ..jobs.new_job import misspelt, new_job
from ..jobs.queries import GetJob
from ..jobs.schedule import CatchUp, Overlap, Schedule, one_of, schedule_name, timing
from ..stores.checks import checked
from ..stores.schedule_notes import ScheduleNotes, as_said, removed
from .calls import Applies, AsyncApplies, Calls, in_a_thread

_OF_JOB: Final = frozenset({"ttr", "max_attempts", "headers", "priority"})
_AS_MANY_AS_THERE_ARE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Scheduled(NamedTuple):
    """A schedule, with its next and its last tick."""

    schedule: Schedule
    next: int | None  # time of the next tick, ms; None if it is paused, or this process cannot compute it
    last: int | None  # time of the last tick, ms; None if none came since it was made or resumed
    job: Job | None  # the job of the last tick; None if none was put, or it was deleted

    @property
    def outcome(self) -> str | None:
        """The state of the last tick's job, "skipped" for a cancelled one; None if there is no such job."""
        if self.job is None:
            return None
        return "skipped" if self.job.state == "cancelled" else str(self.job.state)

    def about(self) -> dict[str, Any]:
        """Return the schedule as a dict, for people and programs: `every` in seconds, times in ms."""
        one = self.schedule
        return {
            "name": one.name,
            "topic": one.topic,
            "every": None if one.every is None else one.every / 1000,
            "cron": one.cron,
            "tz": one.tz if one.cron is not None else None,
            "catch_up": one.catch_up,
            "overlap": one.overlap,
            "paused": one.paused,
            "next": self.next,
            "last": self.last,
            "outcome": self.outcome,
            "job": None if self.job is None else self.job.id,
        }


class ScheduleOptions(TypedDict, total=False):
    """The options of a schedule and of its jobs.

    Args:
        every: the period, 1 s or more: ticks come at its multiples since 1970, in UTC
        cron: a cron expression instead of a period: five fields, or six with seconds first
        tz: the time zone of the cron expression, such as "Europe/Berlin" (default: UTC)
        catch_up: what happens to ticks that could not begin within a minute of their time: "none" drops them, "one"
            runs the last one, "all" runs all, up to 1 000 of the last 31 days
        overlap: what happens to a tick while the previous one still runs: "skip" drops it, "queue" lets it wait,
            "overlap" runs both. Default: "skip"; with catch_up="all": "queue"
        jitter: each tick comes up to this much later, at random, so that many schedules do not come at once
        ttr: of each job, as for `put`
        max_attempts: of each job
        headers: of each job
        priority: of each job
    """

    every: Duration | None
    cron: str | None
    tz: str | None
    catch_up: CatchUp
    overlap: Overlap | None
    jitter: Duration
    ttr: Duration | None
    max_attempts: int | None
    headers: Mapping[str, str] | None
    priority: int


Page: TypeAlias = list[Scheduled]  # within the class, `list` is a method


class Schedules(Applies):
    """The schedules of a queue: each puts a job again and again, by a period or a cron expression.

    One of the workers puts each tick ahead of its time, once. So any number of workers may run the same code. A
    schedule made by a call needs a handler for its topic, and one worker of any program to put its ticks.
    """

    def set(self, name: str, topic: str, body: Any = None, /, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Make a schedule, or change the one of this name; return it. A paused one stays paused. O(log notes).

        A change cancels the ticks that were put ahead. Ticks due before now stay, and missed ticks are made up for as
        the new `catch_up` says. A call with the same arguments changes nothing.

        The name has up to 180 characters. The body is the body of each job: bytes, or any JSON value.
        `ScheduleOptions` describes the options.

        Raises:
            BadJob, BadOption: an argument makes no sense.
            ExtraMissing: ``pip install 'pywheel-timer[cron]'``.
            StoreError: the store cannot do it; nothing was changed.
        """
        misspelt(options, ScheduleOptions, "a schedule")
        of_job: Any = {option: options[option] for option in _OF_JOB & options.keys()}  # type: ignore[literal-required]
        when = timing(options.get("every"), options.get("cron"), options.get("tz"))
        tick = how(options.get("catch_up", "none"), options.get("overlap"), options.get("jitter", 0))
        new = new_job(self._calls.max_body, topic, body, **of_job)
        schedule = schedule_of(schedule_name(name), new, **when, **tick)
        store = self._calls.store
        return cast(Schedule, ScheduleNotes(store).change(schedule.name, as_said(schedule, store)))

    def list(self, *, after: str = "", limit: int = 1_000) -> Page:
        """Return up to `limit` schedules whose names come after `after`, by name. O(log jobs) each.

        Raises:
            BadJob: the limit is not a whole number.
        """
        return self.page(after, whole(limit, "limit", MOST))

    def get(self, name: str) -> Scheduled:
        """Return a schedule with its next and its last tick. NoSuchSchedule if there is none."""
        return self._scheduled(self._there(ScheduleNotes(self._calls.store).get(schedule_name(name)), name))

    def pause(self, name: str) -> bool:
        """Stop a schedule from putting jobs until it is resumed; return False if it was paused already.

        Ticks that were put ahead are cancelled; running jobs go on. NoSuchSchedule if there is none.
        """
        return self._change(name, lambda schedule: None if schedule.paused else replace(schedule, paused=True))

    def resume(self, name: str) -> bool:
        """Let a paused schedule go on from now; return whether it was paused. Missed ticks are not made up for.

        NoSuchSchedule if there is none.
        """

        def resumed(schedule: Schedule) -> Schedule | None:
            following = schedule.following(schedule, self._calls.store.clock.wall())
            return replace(following, paused=False) if schedule.paused else None

        return self._change(name, resumed)

    def run(self, name: str) -> int:
        """Put an extra tick of a schedule now, even if it is paused; return the id of its job.

        The schedule's `overlap` applies to it. NoSuchSchedule if there is none.
        """
        return self._apply(Put((self.tick(name),)))[0]

    def tick(self, name: str) -> NewJob:
        """Return the job that `run` puts. NoSuchSchedule if there is no such schedule."""
        notes, now = ScheduleNotes(self._calls.store), self._calls.store.clock.wall()
        schedule = self._there(notes.get(schedule_name(name)), name)
        return replace(schedule, body=notes.opened(schedule)).job(now, by_hand=True)

    def delete(self, name: str) -> bool:
        """Remove a schedule; return whether there was one.

        Ticks that were put ahead are cancelled; running jobs go on. A schedule declared in code comes back when a
        worker with that code starts.
        """
        notes, known = ScheduleNotes(self._calls.store), schedule_name(name)
        return notes.get(known) is not None and notes.change(known, removed) is not None

    def page(self, after: str, limit: int, wanted: Callable[[Schedule], bool] | None = None) -> Page:
        """Return the next `limit` wanted schedules whose names come after `after`."""
        return [self._scheduled(schedule) for schedule in ScheduleNotes(self._calls.store).page(after, limit, wanted)]

    def _scheduled(self, schedule: Schedule) -> Scheduled:
        now = self._calls.store.clock.wall()
        try:
            following = schedule.after(now) if schedule.active else None
            last = schedule.until(now)
        except BadOption:  # cronsim is not installed
            following = last = None
        job = None if last is None else self._calls.store.ask(GetJob((schedule.topic, schedule.key(last))))
        return Scheduled(schedule, following, last, job)

    def _change(self, name: str, change: Callable[[Schedule], Schedule | None]) -> bool:
        changes: list[bool] = []

        def changing(before: Schedule | None) -> Schedule | None:
            after = change(self._there(before, name))
            changes.append(after is not None)
            return after

        ScheduleNotes(self._calls.store).change(schedule_name(name), changing)
        return any(changes[1:])  # the first call only asks whether there is anything to change

    @staticmethod
    def _there(schedule: Schedule | None, name: str) -> Schedule:
        if schedule is None or schedule.removed:
            raise NoSuchSchedule(f"there is no schedule {name!r:.200}")
        return schedule


class AsyncSchedules(AsyncApplies):
    """The methods of `Schedules`, awaited."""

    def __init__(self, calls: Calls) -> None:
        self._sync = Schedules(calls)

    set = in_a_thread(Schedules.set)
    list = in_a_thread(Schedules.list)
    get = in_a_thread(Schedules.get)
    pause = in_a_thread(Schedules.pause)
    resume = in_a_thread(Schedules.resume)
    run = in_a_thread(Schedules.run)
    delete = in_a_thread(Schedules.delete)


def schedule_of(name: str, job: NewJob, **fields: Any) -> Schedule:
    """Return a schedule that puts a job like this one. BadJob if a store would refuse the job."""
    checked(Put((job,)))
    headers = None if job.headers is None else dict(job.headers)
    policy: dict[str, Any] = {"ttr": job.ttr, "max_attempts": job.max_attempts, "priority": job.priority}
    return Schedule(name, job.topic, job.body, headers=headers, **policy, **fields)


def how(catch_up: Any, overlap: Any, jitter: Any) -> dict[str, Any]:
    """Return the checked options for late, overlapping and simultaneous ticks. BadOption."""
    one_of(catch_up, "catch_up", ("none", "one", "all"))
    if overlap is None:
        overlap = "queue" if catch_up == "all" else "skip"
    one_of(overlap, "overlap", ("skip", "queue", "overlap"))
    if catch_up == "all" and overlap == "skip":
        raise BadOption(
            "catch_up='all' with overlap='skip' would skip what it catches up with: say 'queue' or 'overlap'"
        )
    return {"catch_up": catch_up, "overlap": overlap, "jitter": duration(jitter, "jitter", error=BadOption)}


def taking_the_job(function: Any) -> Callable[..., Any]:
    """Return a handler that calls a function with the Job, or with nothing. TypeError if it needs other arguments."""
    if not callable(function):
        raise TypeError(f"a schedule is declared above a function, not {type(function).__name__}")
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind not in _AS_MANY_AS_THERE_ARE
    ]
    if len(needed) > 1 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in needed):
        names = ", ".join(parameter.name for parameter in needed)
        raise TypeError(f"a periodic function takes no arguments, or the Job: nothing gives it {names[:200]}")
    if needed:
        return cast(Callable[..., Any], function)
    if is_async(function):

        @wraps(function)
        async def alone(*_: Job) -> Any:
            return await function()
    else:

        @wraps(function)
        def alone(*_: Job) -> Any:
            return function()

    return alone

"""Periodic jobs: schedules that are made, looked at and stopped by calls, and what those of code have in common."""

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

__all__ = ["AsyncSchedules", "ScheduleOptions", "Scheduled", "Schedules", "how", "schedule_of", "taking_the_job"]

_OF_JOB: Final = frozenset({"ttr", "max_attempts", "headers", "priority"})
_AS_MANY_AS_THERE_ARE: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Scheduled(NamedTuple):
    """A schedule, and where it is."""

    schedule: Schedule
    next: int | None  # when its next tick comes, ms; None if it is paused, or this process cannot compute it
    last: int | None  # when its last one came, ms; None if none did since it was made or resumed
    job: Job | None  # that one's job; None if it was left out, or is forgotten by now

    @property
    def outcome(self) -> str | None:
        """What became of the last tick: a state, or "skipped"; None if there was none, or nothing is known of it."""
        if self.job is None:
            return None
        return "skipped" if self.job.state == "cancelled" else str(self.job.state)

    def about(self) -> dict[str, Any]:
        """Return what there is to say of it, for people and programs: `every` in seconds, times in ms."""
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
    """What may be said of a schedule, and of its jobs.

    Args:
        every: how often: at the multiples of this since 1970, in UTC; 1 s or more
        cron: when, instead: a cron expression, of five fields, or of six with seconds first
        tz: the time zone of that, such as "Europe/Berlin"; UTC unless told
        catch_up: what becomes of ticks that could not begin within a minute of their time: "none" runs; "one" does,
            the last of them; "all" do, 1 000 of the last 31 days at most
        overlap: what becomes of a tick while the one before still runs: "skip" leaves it out, "queue" has it wait,
            "overlap" runs it too. "skip" unless told, with catch_up="all" "queue"
        jitter: each tick comes up to so much later, by lot: so that many schedules do not come at once
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

    A tick is put ahead of its time by whichever worker plans, once. So any number of workers may run the same code, or
    none of it: a schedule that was made by a call needs a handler for its topic, and one worker of any program.
    """

    def set(self, name: str, topic: str, body: Any = None, /, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Make a schedule, or change the one of this name; return it. One that is paused stays so. O(log notes).

        What was put ahead for the one before is cancelled. Ticks that came before now stay, and those that were missed
        are made up for as `catch_up` says now. The same said again changes nothing.

        The name has up to 180 characters. The body is that of its jobs: bytes, or anything that JSON can say.
        `ScheduleOptions` says what the options mean.

        Raises:
            BadJob, BadOption: an argument makes no sense.
            CronMissing: ``pip install 'pywheel-timer[cron]'``.
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
            BadJob: the limit is no whole number.
        """
        return self.page(after, whole(limit, "limit", MOST))

    def get(self, name: str) -> Scheduled:
        """Return a schedule and where it is. NoSuchSchedule if there is none."""
        return self._scheduled(self._there(ScheduleNotes(self._calls.store).get(schedule_name(name)), name))

    def pause(self, name: str) -> bool:
        """Let a schedule put nothing until it is resumed; return whether it did. What runs goes on.

        Ticks that were put ahead are cancelled. NoSuchSchedule if there is none.
        """
        return self._change(name, lambda schedule: None if schedule.paused else replace(schedule, paused=True))

    def resume(self, name: str) -> bool:
        """Let a paused schedule go on from now; return whether it was paused. Nothing is made up for.

        NoSuchSchedule if there is none.
        """

        def resumed(schedule: Schedule) -> Schedule | None:
            following = schedule.following(schedule, self._calls.store.clock.wall())
            return replace(following, paused=False) if schedule.paused else None

        return self._change(name, resumed)

    def run(self, name: str) -> int:
        """Put a tick of a schedule now, beside its others, paused or not; return the id of its job.

        It gives way to one that runs, as the schedule says. NoSuchSchedule if there is none.
        """
        notes, now = ScheduleNotes(self._calls.store), self._calls.store.clock.wall()
        schedule = self._there(notes.get(schedule_name(name)), name)
        job = replace(schedule, body=notes.opened(schedule)).job(now, by_hand=True)
        return self._apply(Put((job,)))[0]

    def delete(self, name: str) -> bool:
        """Remove a schedule; return whether there was one. What was put ahead is cancelled, what runs goes on.

        One that code declares comes back when a worker with that code starts.
        """
        notes, known = ScheduleNotes(self._calls.store), schedule_name(name)
        return notes.get(known) is not None and notes.change(known, removed) is not None

    def page(self, after: str, limit: int, wanted: Callable[[Schedule], bool] | None = None) -> Page:
        """Return a page of those that are wanted."""
        return [self._scheduled(schedule) for schedule in ScheduleNotes(self._calls.store).page(after, limit, wanted)]

    def _scheduled(self, schedule: Schedule) -> Scheduled:
        now = self._calls.store.clock.wall()
        try:
            following = schedule.after(now) if schedule.active else None
            last = schedule.until(now)
        except BadOption:  # no cronsim here
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
        return any(changes[1:])  # the first time it was only asked whether there is anything to do

    @staticmethod
    def _there(schedule: Schedule | None, name: str) -> Schedule:
        if schedule is None or schedule.removed:
            raise NoSuchSchedule(f"there is no schedule {name!r:.200}")
        return schedule


class AsyncSchedules(AsyncApplies):
    """`Schedules`, awaited."""

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
    """Return a schedule that puts such a job. BadJob for what no store would take of it."""
    checked(Put((job,)))
    headers = None if job.headers is None else dict(job.headers)
    policy: dict[str, Any] = {"ttr": job.ttr, "max_attempts": job.max_attempts, "priority": job.priority}
    return Schedule(name, job.topic, job.body, headers=headers, **policy, **fields)


def how(catch_up: Any, overlap: Any, jitter: Any) -> dict[str, Any]:
    """Return how ticks come that are late, meet others, or are many. BadOption."""
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
    """Return a function that takes the Job, or nothing. TypeError if it must be given more."""
    if not callable(function):
        raise TypeError(f"a schedule is declared above a function, not {type(function).__name__}")
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind not in _AS_MANY_AS_THERE_ARE
    ]
    if len(needed) > 1 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in needed):
        names = ", ".join(parameter.name for parameter in needed)
        raise TypeError(f"a periodic function takes nothing, or the Job: who would give it {names[:200]}?")
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

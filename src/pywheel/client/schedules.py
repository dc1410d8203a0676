"""Periodic jobs: schedules that code declares above a function, and those that are made, looked at and stopped."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

from .._errors import BadJob, NoSuchSchedule
from ..jobs.checks import MOST, whole
from ..jobs.commands import Put
from ..jobs.durations import Duration, duration
from ..jobs.handler import is_async
from ..jobs.job import Job, NewJob
from ..jobs.queries import GetJob
from ..jobs.schedule import CatchUp, Overlap, Schedule, one_of, schedule_name, timing
from ..stores.schedule_notes import Declared, ScheduleNotes, as_said, removed
from .base import Base
from .task import Task

__all__ = ["Scheduled", "Schedules"]

F = TypeVar("F", bound=Callable[..., Any])
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


class Schedules(Base):
    """Puts a job again and again, by a period or a cron expression.

    A tick is put ahead of its time by whichever worker plans, once. So any number of workers may run the same code, or
    none of it: a schedule that was made by a call needs a handler for its topic, and one worker of any program.
    """

    handlers: dict[str, Any]
    declared: Declared

    # ---- declared by code -------------------------------------------------------------------------------------------

    def every(
        self,
        period: Duration,
        *,
        name: str | None = None,
        catch_up: CatchUp = "none",
        overlap: Overlap | None = None,
        jitter: Duration = 0,
        **handler: Any,
    ) -> Callable[[F], F]:
        """Return a decorator that has a function run every so often: at the multiples of `period` since 1970, in UTC.

        The function takes nothing, or the Job, or it is a Task whose arguments all have defaults. The store hears of it
        when a worker starts; the one that starts last says what holds. `schedule` says what the other arguments mean;
        those of `handler` may be given too.

        Raises:
            BadJob: an argument makes no sense, or the name is taken.
        """
        return self._declaring(name, timing(period, None, None), _options(catch_up, overlap, jitter), handler)

    def cron(
        self,
        expression: str,
        *,
        tz: str = "UTC",
        name: str | None = None,
        catch_up: CatchUp = "none",
        overlap: Overlap | None = None,
        jitter: Duration = 0,
        **handler: Any,
    ) -> Callable[[F], F]:
        """Return a decorator that has a function run when a cron expression says, in a time zone.

        It has five fields, minute, hour, day, month and weekday, or six with seconds first. All else is as for `every`.

        Raises:
            CronMissing: ``pip install 'pywheel-timer[cron]'``.
            BadJob: an argument makes no sense, or the name is taken.
        """
        return self._declaring(name, timing(None, expression, tz), _options(catch_up, overlap, jitter), handler)

    def _declaring(
        self, given: str | None, when: dict[str, Any], options: dict[str, Any], handler: dict[str, Any]
    ) -> Callable[[F], F]:
        def declare(function: F) -> F:
            called = schedule_name(getattr(function, "__name__", None) if given is None else given)
            if isinstance(function, Task):
                if handler:
                    raise BadJob(f"{', '.join(handler)[:80]}: give what is for the handler to @queue.task")
                said = _of(called, function.job(), declared=function.__module__, **when, **options)
                self.declared.add(said, function)
                return cast(F, function)
            runs = _taking_the_job(function)
            self.declared.add(Schedule(called, called, declared=function.__module__, **when, **options), runs)
            try:
                cast(Any, self).handler(called, **handler)(runs)
            except BaseException:
                self.declared.discard(called)
                raise
            return cast(F, runs)

        return declare

    # ---- made by calls ----------------------------------------------------------------------------------------------

    def schedule(
        self,
        name: str,
        topic: str,
        body: Any = None,
        /,
        *,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str | None = None,
        catch_up: CatchUp = "none",
        overlap: Overlap | None = None,
        jitter: Duration = 0,
        ttr: Duration | None = None,
        max_attempts: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Schedule:
        """Make a schedule, or change the one of this name; return it. One that is paused stays so. O(log notes).

        What was put ahead for the one before is cancelled. Ticks that came before now stay, and those that were missed
        are made up for as `catch_up` says now. The same said again changes nothing.

        Args:
            name: its name, of up to 180 characters.
            topic: of the jobs that it puts.
            body: of these jobs: bytes, or anything that JSON can say.
            every: how often: at the multiples of this since 1970, in UTC; 1 s or more.
            cron: when, instead: a cron expression.
            tz: the time zone of that, such as "Europe/Berlin"; UTC unless told.
            catch_up: what becomes of ticks that could not begin within a minute of their time: "none" runs; "one" does,
                the last of them; "all" do, 1 000 of the last 31 days at most.
            overlap: what becomes of a tick while the one before still runs: "skip" leaves it out, "queue" has it wait,
                "overlap" runs it too. "skip" unless told, with catch_up="all" "queue".
            jitter: each tick comes up to so much later, by lot: so that many schedules do not come at once.
            ttr: as for `put`, and so are the next two.
            max_attempts: how often each job is tried.
            headers: text by name.

        Raises:
            BadJob: an argument makes no sense.
            CronMissing: ``pip install 'pywheel-timer[cron]'``.
            StoreError: the store cannot do it; nothing was changed.
        """
        new = cast(Any, self).job(topic, body, ttr=ttr, max_attempts=max_attempts, headers=headers)
        schedule = _of(schedule_name(name), new, **timing(every, cron, tz), **_options(catch_up, overlap, jitter))
        return cast(Schedule, ScheduleNotes(self.store).change(schedule.name, as_said(schedule, self.store)))

    async def aschedule(self, name: str, topic: str, body: Any = None, /, **options: Any) -> Schedule:
        """`schedule`, for asyncio, with the same arguments."""
        return await asyncio.to_thread(partial(self.schedule, name, topic, body, **options))

    def schedules(self, *, after: str = "", limit: int = 1_000) -> list[Scheduled]:
        """Return up to `limit` schedules whose names come after `after`, by name. O(log jobs) each.

        Raises:
            BadJob: the limit is no whole number.
        """
        return self._listed(after, whole(limit, "limit", MOST))

    async def aschedules(self, *, after: str = "", limit: int = 1_000) -> list[Scheduled]:
        """`schedules`, for asyncio."""
        return await asyncio.to_thread(partial(self.schedules, after=after, limit=limit))

    def get_schedule(self, name: str) -> Scheduled:
        """Return a schedule and where it is. NoSuchSchedule if there is none."""
        return self._scheduled(self._there(ScheduleNotes(self.store).get(schedule_name(name)), name))

    async def aget_schedule(self, name: str) -> Scheduled:
        """`get_schedule`, for asyncio."""
        return await asyncio.to_thread(self.get_schedule, name)

    def pause_schedule(self, name: str) -> bool:
        """Let a schedule put nothing until it is resumed; return whether it did. What runs goes on.

        Ticks that were put ahead are cancelled. NoSuchSchedule if there is none.
        """
        return self._change(name, lambda schedule: None if schedule.paused else replace(schedule, paused=True))

    async def apause_schedule(self, name: str) -> bool:
        """`pause_schedule`, for asyncio."""
        return await asyncio.to_thread(self.pause_schedule, name)

    def resume_schedule(self, name: str) -> bool:
        """Let a paused schedule go on from now; return whether it was paused. Nothing is made up for.

        NoSuchSchedule if there is none.
        """

        def resumed(schedule: Schedule) -> Schedule | None:
            following = schedule.following(schedule, self.store.clock.wall())
            return replace(following, paused=False) if schedule.paused else None

        return self._change(name, resumed)

    async def aresume_schedule(self, name: str) -> bool:
        """`resume_schedule`, for asyncio."""
        return await asyncio.to_thread(self.resume_schedule, name)

    def run_schedule(self, name: str) -> int:
        """Put a tick of a schedule now, beside its others, paused or not; return the id of its job.

        It gives way to one that runs, as the schedule says. NoSuchSchedule if there is none.
        """
        notes, now = ScheduleNotes(self.store), self.store.clock.wall()
        schedule = self._there(notes.get(schedule_name(name)), name)
        job = replace(schedule, body=notes.opened(schedule)).job(now, by_hand=True)
        return self.apply(Put((job,)))[0]

    async def arun_schedule(self, name: str) -> int:
        """`run_schedule`, for asyncio."""
        return await asyncio.to_thread(self.run_schedule, name)

    def remove_schedule(self, name: str) -> bool:
        """Remove a schedule; return whether there was one. What was put ahead is cancelled, what runs goes on.

        One that code declares comes back when a worker with that code starts.
        """
        notes, known = ScheduleNotes(self.store), schedule_name(name)
        return notes.get(known) is not None and notes.change(known, removed) is not None

    async def aremove_schedule(self, name: str) -> bool:
        """`remove_schedule`, for asyncio."""
        return await asyncio.to_thread(self.remove_schedule, name)

    # ---- below ------------------------------------------------------------------------------------------------------

    def _listed(self, after: str, limit: int, wanted: Callable[[Schedule], bool] | None = None) -> list[Scheduled]:
        return [self._scheduled(schedule) for schedule in ScheduleNotes(self.store).page(after, limit, wanted)]

    def _scheduled(self, schedule: Schedule) -> Scheduled:
        now = self.store.clock.wall()
        try:
            following = schedule.after(now) if schedule.active else None
            last = schedule.until(now)
        except BadJob:  # no cronsim here
            following = last = None
        job = None if last is None else self.store.ask(GetJob((schedule.topic, schedule.key(last))))
        return Scheduled(schedule, following, last, job)

    def _change(self, name: str, change: Callable[[Schedule], Schedule | None]) -> bool:
        changes: list[bool] = []

        def changing(before: Schedule | None) -> Schedule | None:
            after = change(self._there(before, name))
            changes.append(after is not None)
            return after

        ScheduleNotes(self.store).change(schedule_name(name), changing)
        return any(changes[1:])  # the first time it was only asked whether there is anything to do

    @staticmethod
    def _there(schedule: Schedule | None, name: str) -> Schedule:
        if schedule is None or schedule.removed:
            raise NoSuchSchedule(f"there is no schedule {name!r:.200}")
        return schedule


def _of(name: str, job: NewJob, **fields: Any) -> Schedule:
    """Return a schedule that puts such a job."""
    headers = None if job.headers is None else dict(job.headers)
    policy: dict[str, Any] = {"ttr": job.ttr, "max_attempts": job.max_attempts, "priority": job.priority}
    return Schedule(name, job.topic, job.body, headers=headers, **policy, **fields)


def _options(catch_up: Any, overlap: Any, jitter: Any) -> dict[str, Any]:
    one_of(catch_up, "catch_up", ("none", "one", "all"))
    if overlap is None:
        overlap = "queue" if catch_up == "all" else "skip"
    one_of(overlap, "overlap", ("skip", "queue", "overlap"))
    if catch_up == "all" and overlap == "skip":
        raise BadJob("catch_up='all' with overlap='skip' would skip what it catches up with: say 'queue' or 'overlap'")
    return {"catch_up": catch_up, "overlap": overlap, "jitter": duration(jitter, "jitter")}


def _taking_the_job(function: Any) -> Callable[..., Any]:
    """Return a function that takes the Job, or nothing. BadJob if it must be given more."""
    if not callable(function):
        raise BadJob(f"a schedule is declared above a function, not {type(function).__name__}")
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind not in _AS_MANY_AS_THERE_ARE
    ]
    if len(needed) > 1 or any(parameter.kind is parameter.KEYWORD_ONLY for parameter in needed):
        names = ", ".join(parameter.name for parameter in needed)
        raise BadJob(f"a periodic function takes nothing, or the Job: who would give it {names[:200]}?")
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

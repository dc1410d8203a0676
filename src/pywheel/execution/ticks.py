"""Admission of claimed jobs: a job may have expired; a tick's schedule may have changed, or an earlier tick still run.

A worker calls `admit` after the claim and before the handler starts. Of two claimed ticks, the one that was claimed
later gives way. Where ticks wait for each other, a later one also gives way, and the end of the one before wakes it.
As the end and the wait may come in one moment, maybe in two workers, each looks for the other one once it is stored.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from .._errors import BadBody, PywheelError, StoreError
from ..jobs.commands import Edit
from ..jobs.handler import NotNow, Skipped, expired
from ..jobs.job import Job, State
from ..jobs.queries import Filter, GetHistories, GetJob, GetPage
from ..jobs.schedule import BY_HAND, LATE, NAME, OVERLAP, VERSION, Schedule, tick_of
from ..stores.contract import Store
from ..stores.schedule_notes import ScheduleNotes

_PAGE: Final = 1_000
_AWAY: Final = 1.0  # seconds until a tick is claimed again, if the store did not answer whether it may run
_SHORTEST: Final = 100  # ms until a tick looks again that waits for another one: an eighth of its wait
_LONGEST: Final = 10_000
_FAR: Final = 8  # ticks before or after one that are looked at, past those that do not run now


class Behind(NotNow):
    """A tick waits for the one before it, which runs, or waits itself."""


def is_tick(job: Job) -> bool:
    """Whether a job was put for a schedule."""
    return NAME in job.headers


def admit(store: Store, job: Job) -> None:
    """Return if a claimed job may run. A few queries for a tick, none for others.

    Raises:
        Skipped: the job has expired, or its schedule has changed or skips it. Cancel the job.
        NotNow: the tick must wait for an earlier one, or the store does not answer.
    """
    if late := expired(job, store.clock.wall()):
        raise late
    if not is_tick(job):
        return
    try:
        schedule = ScheduleNotes(store).get(job.headers[NAME])
        _ask(store, schedule, job, tick_of(job))
    except BadBody as error:
        raise Skipped(str(error)) from error
    except StoreError as error:
        raise NotNow(_AWAY, f"cannot tell whether the tick may run: {error}") from error


def waking(store: Store, job: Job, *, ended: bool) -> list[Edit]:
    """Return the command that has a waiting tick look again at once, if the one before it has ended; or none.

    To be asked once it is stored that a job has ended, or that it is `Behind` another one: then it may wait in vain. A
    few queries for a tick of a schedule that queues, none for others. Headers may be anybody's: so the schedule says
    which tick is the next one. None that is not due is moved, nor one that waits for its retry or was put off: the one
    after it is the next.
    """
    if OVERLAP not in job.headers or not is_tick(job):
        return []
    try:
        schedule, tick, now = ScheduleNotes(store).get(job.headers[NAME]), tick_of(job), store.clock.wall()
        if schedule is None or tick is None or not (ended or _before(store, schedule, tick) is None):
            return []
        # One that waits is the first due tick at its own time, or after it.
        other = _next(store, schedule, tick if ended else tick - 1, now)
    except (PywheelError, ValueError, OverflowError):  # then the tick looks by itself, some seconds later
        return []
    if other is None or other.state is not State.DELAYED or other.due <= now:
        return []
    return [Edit(other.id, delay=0, expect=(other.due, other.claims))]


def _next(store: Store, schedule: Schedule, tick: int, now: int) -> Job | None:
    """Return the first due tick after another one that runs or waits."""
    for then in islice(schedule.ticks(tick, now), _FAR):
        job = store.ask(GetJob((schedule.topic, schedule.key(then)))) if schedule.due(then) <= now else None
        if job is None or _comes(job, now + _LONGEST):
            return job
    return None


def _ask(store: Store, schedule: Schedule | None, job: Job, tick: int | None) -> None:
    version = job.headers.get(VERSION)
    if job.attempt <= 1 and version != BY_HAND:  # a job that has begun once is not stopped
        if schedule is None or not schedule.puts(tick, version):
            raise Skipped("the schedule has changed" if schedule else "the schedule was removed")
        if schedule.paused:
            raise Skipped("the schedule is paused")
        if tick is not None and not (job.claims > 1 and schedule.overlap == "queue"):
            _refuse_missed(schedule, tick, store.clock.wall())
    if schedule is not None and schedule.overlap != "overlap":
        _give_way(store, schedule, job, tick)


def _refuse_missed(schedule: Schedule, tick: int, now: int) -> None:
    """Raise Skipped if a tick is missed and not made up for; with "one", the last missed tick runs."""
    late = now - schedule.due(tick)
    if late <= LATE or schedule.catch_up == "all":
        return
    if schedule.catch_up == "none":
        raise Skipped(f"it was missed: it could have begun {late / 1000:.0f} s after its time")
    following = schedule.after(tick)
    if following is not None and following <= now:
        raise Skipped("it was missed, and so was the one after it, which is made up for")


def _give_way(store: Store, schedule: Schedule, job: Job, tick: int | None) -> None:
    """Raise Skipped or NotNow, as the schedule says, if a tick must give way to another one."""
    queues, now, kind = schedule.overlap == "queue", store.clock.wall(), NotNow
    since: list[int] = []  # when those began to which this tick gives way
    if queues and job.attempt <= 1 and tick is not None and _before(store, schedule, tick):
        since.append(tick)  # with its end the one before it wakes this one
        kind = Behind
    elif others := _running(store, schedule.name, job):
        histories = store.ask(GetHistories([one.id for one in (*others, job)]))
        *began, own = [(history[-1].started or 0) if history else 0 for history in histories]
        for other, at in zip(others, began, strict=True):
            if (at, other.id) < (own, job.id) or (queues and _is_before(tick_of(other), tick)):
                if not queues and job.attempt <= 1:
                    raise Skipped(f"the tick before it, job {other.id}, still runs")
                since.append(at)
    if since:
        raise kind(min(max((now - min(since)) / 8, _SHORTEST), _LONGEST) / 1_000)


def _running(store: Store, name: str, job: Job) -> list[Job]:
    """Return the other running jobs of a schedule. O(running jobs of the topic)."""
    found: list[Job] = []
    after: str | None = ""
    while after is not None:
        page = store.ask(GetPage(Filter(job.topic, State.RUNNING), after, _PAGE, preview=0))
        found += [other for other in page.jobs if other.headers.get(NAME) == name and other.id != job.id]
        after = page.next
    return found


def _is_before(other: int | None, tick: int | None) -> bool:
    return other is not None and tick is not None and other < tick


def _before(store: Store, schedule: Schedule, tick: int) -> Job | None:
    """Return a tick before this one that also waits, or runs, and so comes first. A claimed one may just look."""
    for _ in range(_FAR):
        before = schedule.until(tick - 1)
        job = None if before is None else store.ask(GetJob((schedule.topic, schedule.key(before))))
        if before is None or job is None or job.state in (State.DONE, State.DEAD):
            return None
        if _comes(job, max(schedule.due(before), store.clock.wall() + _LONGEST)):
            return job
        tick = before
    return None


def _comes(job: Job, soon: int) -> bool:
    """Whether a tick runs, or waits and runs soon.

    One that was put off by hand does not count: no later tick would run until then.
    """
    return job.state is State.RUNNING or (job.state is State.DELAYED and job.attempt == 0 and job.due <= soon)

"""Jobs on the page: search, single jobs, groups of dead jobs, and actions on them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from starlette.responses import Response

from ..._errors import BadJob, PywheelError
from ...jobs.bodies import is_encrypted
from ...jobs.commands import Change
from ...jobs.job import Attempt, Job, State
from ...jobs.queries import CountJobs, Ended, Filter, GetHistories, GetJob, ListEnded
from ...stores.contract import Store
from ..api.records import job_out
from ..problems import Problem
from ..sse import EventStream, Stopping
from ..tokens import Grant
from ..visible import Sees, job_id, job_of, page
from .answers import HEADERS, OVER, Ask, visitor_of
from .bulk import ACTIONS, Action, count, made, matching, progress_of, start, states_of, stop
from .drawings import timeline
from .filters import TIMES, Asked, Fields, fields, new_due, texts, typed_in
from .words import error_group, first_line, number, shown, stamp

_LIMIT: Final = 50
_PREVIEW: Final = 96  # bytes of a body
_SELECTED: Final = 1_000
_COMPLETED: Final = 500  # topics that the browser can complete
_DEAD: Final = 20_000  # dead jobs that are grouped
_PART_OF_DEAD: Final = 1_000  # dead jobs of a topic that are read at once
_PATIENCE: Final = 1.5  # seconds
_GROUPS: Final = 200
_PART: Final = 64 << 10  # bytes in one write: a reader that takes fewer in ten seconds is dropped
_BREAKS: Final = bytes.maketrans(b"\r\n", b"  ")  # between the values of a body; within its texts they are escaped
_FILE: Final = {
    **HEADERS,
    "content-type": "application/x-ndjson",
    "content-disposition": 'attachment; filename="jobs.jsonl"',
}


async def search(ask: Ask) -> Response:
    """Show a page of jobs, at bounded cost."""
    if id := ask.query.get("id", "").strip():
        return ask.back(f"/jobs/{quote(id, safe='')}")
    asked, after, trouble = typed_in(Asked, ask.query), ask.query.get("after", ""), ""
    jobs: list[Job] = []
    following: str | None = None
    looked = 0
    try:
        ask.allow("read", asked.topic or None)
        jobs, following, looked = await _found(ask, asked, after)
    except BadJob as error:
        trouble = str(error)
    view = "topic" if asked.topic and not trouble else "jobs"
    snapshot, parts = await ask.feed.parts(ask, view, asked.topic or None)
    limited = view == "topic" and ask.store.keeps_limits
    return ask.page(
        "jobs.html",
        200 if not trouble else 400,
        asked=asked,
        jobs=jobs,
        looked=looked,
        trouble=trouble,
        topics=await ask.context.read(_names, snapshot.topics, ask.visitor),
        topic_here=snapshot.topics.get(asked.topic) if view == "topic" else None,
        limited=limited,
        limits=await ask.context.queue.aio.topics.limits(asked.topic) if limited else None,
        parts=parts,
        live=urlencode({"view": "topic", "topic": asked.topic}) if view == "topic" else "",
        next=f"{asked.query}&{urlencode({'after': following})}".lstrip("&") if following else "",
        after=after,
        now=ask.now,
        actions=_sensible(ask, asked),
    )


async def _found(ask: Ask, asked: Asked, after: str) -> tuple[list[Job], str | None, int]:
    """Return jobs, the place where the search goes on, and how many jobs were looked at one by one."""
    jobs, looked = list[Job](), 0
    following, fits, look = after, asked.fits, partial(page, preview=_PREVIEW, newest=bool(asked.newest))
    for _ in range(5 if fits is None else 20):  # each turn looks at a bounded number of rows, and may find none
        left, sees = _LIMIT - len(jobs), ask.visitor.sees
        found = await ask.context.read(look, ask.store, asked.filter, following, left, sees)
        jobs += filter(fits, found.jobs)
        looked += found.looked
        following = found.next or ""
        if not following or len(jobs) >= _LIMIT:
            break
    return jobs, following or None, looked


async def ask_first(ask: Ask) -> Response:
    """Show how many jobs an action is for, and ask for confirmation."""
    given = await fields(ask.request)
    action, asked = _action(given), typed_in(Asked, given)
    ids = _ids(given) if given.get("scope", "") == "selected" else []
    if given.get("scope", "") == "selected" and not ids:
        return ask.back(f"/jobs?{asked.query}", "no job was selected")
    ask.allow("admin", asked.topic or None)
    return await _confirm(ask, action, asked, ids, texts(given, TIMES))


async def begin(ask: Ask) -> Response:
    """Run an action: on selected jobs at once, on all of a search in the background."""
    given = await fields(ask.request)
    action, asked, ids = _action(given), typed_in(Asked, given), _ids(given)
    ask.allow("admin", asked.topic or None)
    there, due, what = f"/jobs?{asked.query}", 0, asked.said()
    if action.timed:
        times = texts(given, TIMES)
        try:
            due = new_due(**times, now=ask.now)
        except BadJob as error:
            wrong = {"at" if times["at"] and not times["delay"] else "delay": str(error)}
            return await _confirm(ask, action, asked, ids, times, wrong)
        what += f", due at {stamp(due)}"
    if not ids:
        return await start(ask, action, asked, what, there, due)
    what = f"{len(ids)} jobs: {', '.join(map(str, ids))}"
    ask.does(action.name, what, asked.topic or None)
    changed = await ask.context.read(_to_each, ask.store, action, ids, ask.visitor, due)
    ask.does(action.name, what, asked.topic or None, f"{changed} {action.done}")
    said = f"{number(changed)} of {number(len(ids))} jobs {action.done}"
    return ask.back(there, said if changed == len(ids) else f"{said}; the others had changed by then")


async def progress(ask: Ask) -> Response:
    """Show the progress of a bulk action."""
    bulk = await ask.context.read(progress_of, ask.store, ask.request.path_params["id"])
    if bulk is None:
        raise Problem("not-found", "no such action is known any more; what it did stays done")
    return ask.page("bulk.html", bulk=bulk)


async def end(ask: Ask) -> Response:
    """Stop a bulk action after its current batch."""
    ask.allow("admin")
    ask.does("stop", f"what was begun: {ask.request.path_params['id']}")
    await ask.context.read(stop, ask.store, ask.request.path_params["id"])
    return ask.back(f"/bulk/{ask.request.path_params['id']}")


async def _confirm(
    ask: Ask, action: Action, asked: Asked, ids: list[int], times: Mapping[str, str], wrong: Mapping[str, str] = {}
) -> Response:
    """Show how many jobs an action is for, and ask for a due time if it is timed. `wrong` has the errors by field."""
    number_of, exact = len(ids), True
    if not ids:
        number_of, exact = await ask.context.long(count, ask.store, action, asked, ask.visitor.sees)
    return ask.page(
        "confirm.html",
        400 if wrong else 200,
        action=action,
        asked=asked,
        ids=ids,
        number=number_of,
        exact=exact,
        what=f"{len(ids)} selected jobs" if ids else f"all jobs with {asked.said()}",
        states=action.states if ids else states_of(action, asked.filter),
        times=times,
        wrong=wrong,
    )


def _names(topics: Iterable[str], visitor: Grant) -> list[str]:
    """Return the first topics that the visitor may see, for the browser to complete."""
    return list(islice((name for name in topics if visitor.may("read", name)), _COMPLETED))


def _sensible(ask: Ask, asked: Asked) -> list[Action]:
    """Return the actions that apply to the search and that the visitor may take."""
    if not ask.visitor.may("admin"):
        return []
    return [action for action in ACTIONS.values() if not asked.state or asked.state in action.states]


def _action(given: Fields) -> Action:
    action = ACTIONS.get(given.get("action", ""))
    if action is None:
        raise Problem("bad-request", f"jobs can be {', '.join(action.done for action in ACTIONS.values())}")
    return action


def _ids(given: Fields) -> list[int]:
    try:
        ids = sorted({int(id) for id in given.getlist("id")})
    except ValueError:
        raise Problem("bad-request", "an id is a number") from None
    if len(ids) > _SELECTED:
        raise Problem(
            "bad-request", f"at most {_SELECTED} jobs can be selected: use the action for all that a search finds"
        )
    return ids


def _to_each(store: Any, action: Action, ids: list[int], visitor: Grant, due: int) -> int:
    known = [job for id in ids if (job := store.ask(GetJob(id))) is not None and visitor.may("admin", job.topic)]
    return made(store, [action.command(job.id, due) for job in known if job.state in action.states])


# ---- one job --------------------------------------------------------------------------------------------------------


async def show(ask: Ask) -> Response:
    """Show a job: body, headers, timeline of attempts, errors."""
    job, history = await _read(ask)
    actions = [
        action.name
        for action in ACTIONS.values()
        if job.state in action.states and not action.timed and ask.visitor.may(action.scope, job.topic)
    ]
    result = history[-1].result if history else None
    return ask.page(
        "job.html",
        job=job,
        shown=_standing(job),
        history=history,
        segments=timeline(job, history, ask.now),
        body=shown(job.body),
        result=None if result is None else shown(result),
        actions=actions,
        now=ask.now,
    )


async def body(ask: Ask) -> Response:
    """Answer with a whole body as a file to save: the browser displays none of it."""
    job, _ = await _read(ask)
    if is_encrypted(job.body):
        raise Problem("no-key", "the body is encrypted, and this server has no key")
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="job-{job.id}.body"'}
    return Response(job.body, headers=headers, media_type="application/octet-stream")


async def act(ask: Ask) -> Response:
    """Cancel, reschedule, retry or delete a job, unless it has changed since the form was shown."""
    given, (job, _) = await fields(ask.request), await _read(ask)
    action, id = _action(given), job.id
    ask.allow(action.scope, job.topic)
    due = new_due(**texts(given, TIMES), now=ask.now) if action.timed else 0
    if given.get("shown") != _standing(job):
        told = "has changed since this form was shown"
        ask.does(action.name, f"job {id}", job.topic, f"none: it {told}")
        return ask.back(f"/jobs/{id}", f"job {id} {told} and was not {action.done}")
    ask.does(action.name, f"job {id}", job.topic)
    outcome = await ask.context.queue.calls.aapply(action.command(id, due))
    if not outcome:
        what = "gone" if outcome is Change.NOT_FOUND else outcome
        ask.does(action.name, f"job {id}", job.topic, f"none: it is {what}")
        for_these = f"that is for jobs that are {' or '.join(action.states)}"
        return ask.back(f"/jobs/{id}", f"job {id} is {what} and was not {action.done}: {for_these}")
    return ask.back("/jobs" if action.name == "delete" else f"/jobs/{id}", f"job {id} {action.done}")


def _standing(job: Job) -> str:
    """Return the state and the claims of a job, as its forms say them: after a retry one of them is another."""
    return f"{job.state}.{job.claims}"


async def _read(ask: Ask) -> tuple[Job, list[Attempt]]:
    """Return the job in the address, and its attempts. Problem: it does not exist, or the visitor may not see it."""
    job = await ask.context.read(job_of, ask.store, job_id(ask.request.path_params["id"]), ask.visitor)
    return job, (await ask.context.read(ask.store.ask, GetHistories([job.id])))[0]


# ---- dead jobs by what went wrong -----------------------------------------------------------------------------------


class Dead(NamedTuple):
    """A dead job."""

    id: int
    due: int
    error: str | None


class Group(NamedTuple):
    """Dead jobs of a topic whose errors differ only in digits and ids."""

    asked: Asked  # the search that finds them
    error: str  # the error of one of them
    number: int
    first: Dead
    last: Dead


async def groups(ask: Ask) -> Response:
    """Show the groups, the largest first."""
    topic = ask.topic
    found, seen, known = await ask.context.long(_grouped, ask.store, topic, ask.visitor)
    shown, rest = found[:_GROUPS], max(len(found) - _GROUPS, 0)
    return ask.page("dead.html", groups=shown, rest=rest, seen=seen, known=known, topic=topic, now=ask.now)


async def act_on_group(ask: Ask) -> Response:
    """Retry or delete a group."""
    given = await fields(ask.request)
    action = ACTIONS.get(given.get("action", ""))
    asked = Asked(given.get("topic", ""), State.DEAD, like=given.get("like", ""))
    if action is None or State.DEAD not in action.states or not asked.topic or not asked.like:
        raise Problem("bad-request", "dead jobs can be retried and deleted, by topic and error")
    ask.allow("admin", asked.topic)
    return await start(ask, action, asked, asked.said(), "/dead")


def _grouped(store: Store, topic: str | None, visitor: Grant) -> tuple[list[Group], int, int]:
    """Return the groups, how many jobs were looked at, and how many are dead.

    The topics take turns, those with the most dead jobs first.
    """
    end, seen, sees = time.monotonic() + _PATIENCE, 0, visitor.sees
    counts = {
        name: each.dead
        for name, each in store.ask(CountJobs()).items()
        if each.dead and topic in (None, name) and (sees is None or sees(name))
    }
    found: dict[tuple[str, str], Group] = {}
    turns = deque((name, _dead(store, name, counts[name])) for name in sorted(counts, key=counts.__getitem__)[::-1])
    while turns:
        name, parts = turns.popleft()
        jobs = next(parts, None)
        if jobs is not None:
            turns.append((name, parts))
        for job in jobs or ():
            seen += 1
            kind = error_group(job.error)
            group = found.get((name, kind))
            if group is None:
                group = Group(Asked(name, State.DEAD, like=kind), first_line(job.error, 300), 0, job, job)
            first, last = min(group.first, job), max(group.last, job)
            found[name, kind] = group._replace(number=group.number + 1, first=first, last=last)
        if seen >= _DEAD or time.monotonic() > end:
            break
    groups = sorted(found.values(), key=lambda group: (-group.number, group.asked.topic))
    return groups, seen, max(seen, sum(counts.values()))


def _dead(store: Store, topic: str, number: int) -> Iterator[list[Dead]]:
    """Yield the dead jobs of a topic, `number` of them, a part at a time: by their ends, the latest first.

    A list by id may scan all jobs of the store. It has jobs, though, whose lease is over and ended by no `Expire` yet.
    """
    until, seen = None, set[int]()
    while True:
        ended = store.ask(ListEnded(topic, 0, _PART_OF_DEAD, until, State.DEAD))
        new = [one for one in ended if one.id not in seen]
        yield _with_errors(store, new)
        seen.update(one.id for one in new)
        if len(ended) < _PART_OF_DEAD:
            break
        until = ended[-1].ended - (not new)
    if len(seen) < number:
        for jobs in matching(store, Filter(topic), (State.DEAD,), None):
            yield [Dead(job.id, job.due, job.last_error) for job in jobs if job.id not in seen]


def _with_errors(store: Store, ended: Sequence[Ended]) -> list[Dead]:
    """Return dead jobs with their last errors, which may be of earlier attempts: a lost one has none."""
    unsaid = [one.id for one in ended if one.error is None]
    histories = store.ask(GetHistories(unsaid)) if unsaid else []
    earlier = {
        id: next((attempt.error for attempt in reversed(history) if attempt.error is not None), None)
        for id, history in zip(unsaid, histories, strict=True)
    }
    return [Dead(one.id, one.due, earlier.get(one.id, one.error)) for one in ended]


# ---- all that a search finds, as JSON Lines -------------------------------------------------------------------------


async def export(ask: Ask) -> Response:
    """Answer with a job a line. If the export breaks off, the last line has only the field `error`."""
    asked = typed_in(Asked, ask.query)
    ask.allow("read", asked.topic or None)
    filter, places, token = asked.filter, ask.context.exports, ask.visitor.id
    places.take(token)  # no await from here until the stream begins
    return EventStream(_lines(ask, asked, filter), Stopping(), lambda: places.leave(token), _FILE, alive=b"")


async def _lines(ask: Ask, asked: Asked, filter: Filter) -> AsyncGenerator[bytes, None]:
    """Yield the lines. One page of jobs is in memory at a time, and its bodies are bounded."""
    after: str | None = ""
    try:
        while after is not None:
            if await visitor_of(ask) != ask.visitor:
                yield _line({"error": OVER})
                return
            lines, after = await ask.context.long(_page, ask.store, asked, filter, after, ask.visitor.sees)
            for start in range(0, len(lines), _PART):
                yield lines[start : start + _PART]
    except PywheelError as error:
        yield _line({"error": ask.context.problem(error).detail})


def _page(store: Store, asked: Asked, filter: Filter, after: str, sees: Sees) -> tuple[bytes, str | None]:
    """Return the lines of a page of jobs, and the cursor after it."""
    found, fits = page(store, filter, after, 1_000, sees, preview=None, newest=bool(asked.newest)), asked.fits
    return b"".join(_line(job_out(job)) for job in found.jobs if fits is None or fits(job)), found.next


def _line(value: object) -> bytes:
    return msgspec.json.encode(value).translate(_BREAKS) + b"\n"

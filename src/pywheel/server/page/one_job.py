"""One job: what it is, what was tried, and what can be done."""

from __future__ import annotations

from starlette.responses import Response

from ...jobs.bodies import is_encrypted
from ...jobs.commands import Change
from ...jobs.job import Attempt, Job
from ...jobs.queries import GetHistories
from ..problems import Problem
from ..visible import job_id, job_of
from .answers import HEADERS, Ask
from .bodies import shown
from .bulk import ACTIONS
from .drawings import timeline
from .filters import TIMES, fields, new_due, texts

__all__ = ["act", "body", "show"]


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
        history=history,
        segments=timeline(job, history, ask.now),
        body=shown(job.body, ask.query.get("as", "")),
        result=None if result is None else shown(result),
        actions=actions,
        now=ask.now,
    )


async def body(ask: Ask) -> Response:
    """Answer with all of a body, as a file to be kept: a browser shows nothing of it."""
    job, _ = await _read(ask)
    if is_encrypted(job.body):
        raise Problem("no-key", "the body is encrypted, and this server has no key")
    headers = HEADERS | {"Content-Disposition": f'attachment; filename="job-{job.id}.body"'}
    return Response(job.body, headers=headers, media_type="application/octet-stream")


async def act(ask: Ask) -> Response:
    """Cancel, reschedule, retry or delete a job, unless it has changed from what the form was about."""
    given, (job, _) = await fields(ask.request), await _read(ask)
    action, id = ACTIONS.get(given.get("action", "")), job.id
    if action is None:
        raise Problem("bad-request", "a job can be cancelled, rescheduled, retried and deleted")
    ask.allow(action.scope, job.topic)
    due = new_due(**texts(given, TIMES), now=ask.now) if action.timed else 0
    ask.does(action.name, f"job {id}", job.topic)
    outcome = await ask.context.queue.calls.aapply(action.command(id, due))
    if not outcome:
        what = "gone" if outcome is Change.NOT_FOUND else outcome
        ask.does(action.name, f"job {id}", job.topic, f"none: it is {what}")
        for_these = f"that is for jobs that are {' or '.join(action.states)}"
        return ask.back(f"/jobs/{id}", f"job {id} is {what} and was not {action.done}: {for_these}")
    return ask.back("/jobs" if action.name == "delete" else f"/jobs/{id}", f"job {id} {action.done}")


async def _read(ask: Ask) -> tuple[Job, list[Attempt]]:
    """Return the job that the address names, and its attempts. Problem: it is not there, or not for the visitor."""
    job = await ask.context.read(job_of, ask.store, job_id(ask.request.path_params["id"]), ask.visitor)
    return job, (await ask.context.read(ask.store.ask, GetHistories([job.id])))[0]

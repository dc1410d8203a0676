"""The form that puts a new job or a clone, or edits a waiting one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha256
from secrets import token_hex
from typing import Final, NamedTuple, TypeVar

from starlette.responses import Response

from ..._errors import BadJob, JobExists
from ...jobs.bodies import is_encrypted
from ...jobs.checks import name
from ...jobs.commands import Change, Edit, Put
from ...jobs.durations import delay_ms
from ...jobs.job import Job, NewJob
from ...jobs.new_job import new_job
from ..visible import job_id, job_of
from .answers import Ask
from .filters import ROOM, fields, priority_of, typed_in, utc
from .words import iso, typed

_T = TypeVar("_T")
_SHOWN: Final = re.compile(r"(-?[0-9]{1,19})\.([0-9]{1,19})", re.ASCII)
_TRACE: Final = ("traceparent", "tracestate")  # the trace belongs to the cloned job alone


class Wish(NamedTuple):
    """The fields of the form, as text."""

    topic: str = ""
    body: str = ""
    delay: str = ""
    at: str = ""
    priority: str = ""
    key: str = ""
    clone: str = ""  # the id of the job that supplies all values without a field here
    edit: str = ""  # due time and claims of the edited job, as they were shown; "" unless it is edited
    form: str = ""  # the id of this showing of the form: sent twice, as by a double click, it puts one job

    @classmethod
    def like(cls, job: Job, now: int) -> Wish:
        """Return the values of a job, with its due time if that is in the future."""
        at = iso(job.due) if job.due > now else ""
        priority = str(job.priority) if job.priority else ""
        return cls(job.topic, typed(job.body) or "", "", at, priority, job.key or "", str(job.id))

    @property
    def nonce(self) -> str | None:
        """A value that is the same if the form is sent again unchanged; None for a form that was not shown here."""
        return sha256("\0".join(self).encode()).hexdigest() if self.form else None

    def record(self, source: Job | None, max_body: int) -> tuple[NewJob | None, dict[str, str]]:
        """Return the job, or None and the errors by field."""
        wrong: dict[str, str] = {}

        def checked(field: str, read: Callable[[], _T]) -> _T | None:
            try:
                return read()
            except BadJob as error:
                wrong[field] = str(error)
                return None

        topic = checked("topic", lambda: name(self.topic, "topic"))
        key = checked("key", lambda: name(self.key, "key") if self.key else None)
        delay = checked("delay", lambda: delay_ms(self.delay) if self.delay else None)
        at = checked("at", lambda: utc(self.at, "the due time") if self.at else None)
        priority = checked("priority", lambda: priority_of(self.priority)) or 0
        if self.delay and self.at:
            wrong["at"] = "say in how long or at what time, not both"
        body = self.body.encode()
        if source is not None and typed(source.body) is None:
            body = source.body
            if is_encrypted(body) and not self.edit:
                wrong["body"] = "it is encrypted, and this server has no key to it"
        kept = {name: value for name, value in source.headers.items() if name not in _TRACE} if source else {}
        made = checked(
            "body",
            lambda: new_job(max_body, topic or "none", body, key=key, headers=kept or None, priority=priority),
        )
        if wrong or made is None:
            return None, wrong
        if source is not None:
            made = made._replace(ttr=source.ttr, max_attempts=source.max_attempts, expires=source.expires)
        return made._replace(due=at or 0, delay=None if at is not None else delay or 0), wrong

    def change(self, source: Job, record: NewJob) -> Edit:
        """Return the command that edits a job as the form says. BadJob: the form was not shown here."""
        shown = _SHOWN.fullmatch(self.edit)
        if shown is None:
            raise BadJob("this form did not come from this page")
        return Edit(
            source.id,
            record.due if self.at else None,
            record.delay if self.delay else None,
            (int(shown[1]), int(shown[2])),
            None if record.body == source.body else record.body,
            {} if record.priority == source.priority else {"priority": record.priority},
        )


async def show(ask: Ask) -> Response:
    """Show the form, with the values of the address, or of the job to be cloned."""
    ask.allow("put")
    wish = typed_in(Wish, ask.query)
    source = await _source(ask, wish)
    if source is not None:
        edits, wish = wish.edit, Wish.like(source, ask.now)
        if edits:
            wish = wish._replace(at="", edit=f"{source.due}.{source.claims}")
    return _page(ask, wish, source, {})


async def put(ask: Ask) -> Response:
    """Put the job, or show the form again with its values and errors."""
    ask.allow("put")
    calls = ask.context.queue.calls
    wish = typed_in(Wish, await fields(ask.request, 3 * calls.max_body + ROOM))  # a byte may be %XX
    source = await _source(ask, wish)
    if source is not None and wish.edit:
        wish = wish._replace(topic=source.topic, key=source.key or "")
    record, wrong = wish.record(source, calls.max_body)
    if record is None:
        return _page(ask, wish, source, wrong, 400)
    if not ask.visitor.may("put", record.topic):
        return _page(ask, wish, source, {"topic": "you may put no jobs of this topic"}, 403)
    if source is not None and wish.edit:
        return await _edit(ask, wish, source, record)
    ask.does("put", "a job", record.topic)
    try:
        [id] = await calls.aapply(Put((record,), wish.nonce))
    except JobExists as error:
        return _page(ask, wish, source, {"key": str(error)}, 409)
    ask.does("put", f"job {id}" + (f", like job {source.id}" if source else ""), record.topic)
    return ask.back(f"/jobs/{id}", f"job {id} was put")


async def _edit(ask: Ask, wish: Wish, source: Job, record: NewJob) -> Response:
    """Edit the job, or show the form again with the reason for the refusal."""
    what = f"job {source.id}"
    ask.does("edit", what, source.topic)
    change = await ask.context.queue.calls.aapply(wish.change(source, record))
    if change:
        return ask.back(f"/jobs/{source.id}", f"{what} edited")
    told = "has changed since this form was shown" if change is Change.CHANGED else f"is {change}"
    ask.does("edit", what, source.topic, f"none: it {told}")
    return _page(ask, wish, source, {"body": f"{what} {told} and was not edited"}, 409)


async def _source(ask: Ask, wish: Wish) -> Job | None:
    """Return the job to clone, or None if the form names none. Problem: it does not exist."""
    return await ask.context.read(job_of, ask.store, job_id(wish.clone), ask.visitor) if wish.clone else None


def _page(ask: Ask, wish: Wish, source: Job | None, wrong: Mapping[str, str], status: int = 200) -> Response:
    shown = source is None or typed(source.body) is not None
    wish = wish if wish.form else wish._replace(form=token_hex(8))
    return ask.page("put.html", status, wish=wish, source=source, wrong=wrong, typed=shown)

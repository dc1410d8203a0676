"""The fields of the page's forms and addresses, and the search that they describe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request

from ..._errors import BadJob
from ...client.jobs import FilterWords, filter_of
from ...jobs.checks import whole
from ...jobs.durations import delay_ms, moment, refuse_long
from ...jobs.job import PRIORITIES, Job
from ...jobs.queries import Filter
from ..middleware import refuse_large
from ..problems import Problem
from .words import error_group

_MOST: Final = 256 << 10  # bytes: the ids of many jobs, and a search
ROOM: Final = 64 << 10
"""Bytes of a form for all fields but a body."""
_NUMBER: Final = 2_000  # fields
_NAMES: Final = ("topic", "key")  # fields that name something to the character
_AS_TYPED: Final = frozenset(("body", "error", "like", "per", "text"))  # fields that keep the spaces around their texts
TIMES: Final = ("delay", "at")
"""The fields for a due time, of which one is given."""

F = TypeVar("F")
Fields: TypeAlias = ImmutableMultiDict[str, str]


def texts(given: Mapping[str, object], names: Iterable[str]) -> dict[str, str]:
    """Return these fields as text, without surrounding spaces except in fields that keep them."""
    found = {name: str(given.get(name, "")) for name in names}
    return {name: text if name in _AS_TYPED else text.strip() for name, text in found.items()}


def typed_in(form: type[F], given: Mapping[str, object]) -> F:
    """Return the fields of a form, a named tuple of texts, from an address or a browser's form."""
    names: Any = form
    return form(**texts(given, names._fields))


async def fields(request: Request, most: int = _MOST) -> Fields:
    """Return the fields of a form of at most `most` bytes. Problem: it is too long, or no form."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        refuse_large(len(content), most)
    try:
        pairs = parse_qsl(content.decode(), keep_blank_values=True, max_num_fields=_NUMBER)
    except ValueError:  # no UTF-8, or too many
        raise Problem("bad-request", "this form did not come from this page") from None
    given = Fields([(field, value.replace("\r\n", "\n")) for field, value in pairs])
    for field in _NAMES:
        if "\n" in given.get(field, ""):  # a browser sends the same for each kind of line end
            raise Problem("bad-request", f"the {field} has a line end, which no form tells from others: use the API")
    return given


# ---- which jobs are meant -------------------------------------------------------------------------------------------

_SAID: Final = {
    "topic": "topic {}", "state": "state {}", "key": "key {}", "error": "error contains “{}”",
    "like": "errors like “{}”", "text": "body contains “{}”", "header": "header {}", "worker": "worker {}",
    "priority": "priority {}", "due_from": "due from {} UTC", "due_until": "due until {} UTC",
}  # fmt: skip


class Asked(NamedTuple):
    """The fields of a search, as text; an empty field matches all jobs."""

    topic: str = ""
    state: str = ""
    key: str = ""
    error: str = ""
    due_from: str = ""
    due_until: str = ""
    text: str = ""
    header: str = ""
    worker: str = ""
    priority: str = ""
    newest: str = ""
    like: str = ""  # the common part of last errors, from `error_group`

    @property
    def filter(self) -> Filter:
        """The search as a store's filter. BadJob: a field is invalid."""
        words: Any = {word: getattr(self, word) or None for word in FilterWords.__annotations__}
        for word in ("due_from", "due_until"):
            words[word] = words[word] and _time(words[word], word.replace("_", " "))
        words["priority"] = words["priority"] and number_of(words["priority"])
        return filter_of(self.topic or None, self.state or None, words)

    @property
    def fits(self) -> Callable[[Job], bool] | None:
        """Return the check for jobs that the store found, or None if all match."""
        return (lambda job: error_group(job.last_error) == self.like) if self.like else None

    @property
    def query(self) -> str:
        """The search as the query of an address, without empty fields."""
        return urlencode({field: value for field, value in self._asdict().items() if value})

    def but(self, **fields: str) -> str:
        """Return the query with other fields."""
        return self._replace(**fields).query

    def said(self) -> str:
        """Return the search in words for people."""
        said = [text.format(value) for word, text in _SAID.items() if (value := getattr(self, word))]
        return ", ".join(said if self.topic else ["any topic", *said])


def number_of(text: str) -> Any:
    """Return the whole number in a text, or the text itself, which the receiver then refuses."""
    try:
        return int(text)
    except ValueError:
        return text


def priority_of(text: str) -> int:
    """Return a priority. BadJob: the text is not a priority."""
    return whole(number_of(text or "0"), "priority", PRIORITIES, -PRIORITIES)


def utc(text: str, what: str) -> int:
    """Return a time in ms: 2026-11-22T15:21, with seconds or an offset if wanted, else UTC. BadJob: it is invalid."""
    return moment(_time(text, what), what)


def _time(text: str, what: str) -> datetime:
    refuse_long(text, what)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise BadJob(f"{what} {text[:40]!r} is not understood: write it like 2026-11-22T15:21:00, in UTC") from None
    return at if at.utcoffset() is not None else at.replace(tzinfo=UTC)


def new_due(delay: str, at: str, now: int) -> int:
    """Return when a job is due, in ms, by one of the two fields for that. BadJob: none is given, or both are."""
    if bool(delay) == bool(at):
        raise BadJob("say when it is due: either a time from now, such as 30m, or a time in UTC")
    return now + delay_ms(delay) if delay else utc(at, "the new due time")

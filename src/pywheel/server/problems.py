"""Problems: every answer without success, as RFC 9457 asks for it. The `type` of each is stable.

The text of a problem says how to mend it. The page shows people the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import msgspec

from .. import _errors as errors

_P = ParamSpec("_P")
_R = TypeVar("_R")
MEDIA_TYPE: Final = "application/problem+json"
KEY_REUSED: Final = "this Idempotency-Key came with another request before: give each request a key of its own"
_PREFIX: Final = "urn:pywheel:problem:"


class Kind(NamedTuple):
    """A kind of problem."""

    status: int
    title: str


KINDS: Final[Mapping[str, Kind]] = {
    "bad-request": Kind(400, "The request makes no sense"),
    "bad-json": Kind(400, "The body is not JSON"),
    "bad-body": Kind(422, "The body does not fit"),
    "bad-parameter": Kind(400, "A parameter does not fit"),
    "bad-host": Kind(421, "This server has another name"),
    "too-deep": Kind(400, "The body is nested too deep"),
    "token-missing": Kind(401, "A token is needed"),
    "token-unknown": Kind(401, "The token is not known"),
    "scope-missing": Kind(403, "The token may not do that"),
    "read-only": Kind(403, "This server only reads"),
    "foreign-origin": Kind(403, "Another site's page may not do that"),
    "not-found": Kind(404, "There is nothing here"),
    "no-such-job": Kind(404, "There is no such job"),
    "no-such-schedule": Kind(404, "There is no such schedule"),
    "method-not-allowed": Kind(405, "Not by this method"),
    "too-slow": Kind(408, "The request took too long to arrive"),
    "job-exists": Kind(409, "The key is taken"),
    "wrong-state": Kind(409, "The job is in another state"),
    "claim-lost": Kind(409, "The claim is over"),
    "key-busy": Kind(409, "A request with this idempotency key is under way"),
    "changed": Kind(412, "The job has changed"),
    "too-large": Kind(413, "The request is too large"),
    "wrong-type": Kind(415, "The body is of another type"),
    "key-reused": Kind(422, "The idempotency key belongs to another request"),
    "too-many-failures": Kind(429, "Too many wrong tokens"),
    "share-taken": Kind(429, "The token has its share"),
    "internal-error": Kind(500, "The server has failed"),
    "store-failed": Kind(500, "The store has failed"),
    "not-implemented": Kind(501, "This cannot be had here"),
    "store-away": Kind(503, "The store is away"),
    "no-key": Kind(503, "A key is missing"),
    "store-busy": Kind(503, "The store is busy"),
    "stopping": Kind(503, "The server stops"),
    "too-busy": Kind(503, "The server has too much to do"),
    "store-full": Kind(507, "The store is full"),
}
"""Every kind, by the last part of its `type`."""


class Problem(Exception):
    """An answer without success.

    `detail` says what is wrong and how to mend it; `errors` says it for each field, by a JSON pointer; `more` has
    additional members; `headers` go with the answer.
    """

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.errors = errors
        self.headers = headers or {}
        self.more = more or {}

    @property
    def status(self) -> int:
        """The HTTP status."""
        return KINDS[self.kind].status

    def content(self) -> bytes:
        """Return the problem document."""
        known = KINDS[self.kind]
        document: dict[str, Any] = {
            "type": _PREFIX + self.kind,
            "title": known.title,
            "status": known.status,
            "detail": self.detail,
            **self.more,
        }
        if self.errors:
            document["errors"] = [{"pointer": pointer, "detail": detail} for pointer, detail in self.errors]
        return msgspec.json.encode(document)


def bad_field(pointer: str, what: str, kind: str = "bad-body") -> Problem:
    """Return the problem of a field of the body, named by a JSON pointer."""
    return Problem(kind, f"{pointer}: {what}", errors=[(pointer, what)])


def bad_parameter(name: str, what: str) -> Problem:
    """Return the problem of a parameter."""
    return Problem("bad-parameter", f"{name}: {what}", more={"parameter": name})


# ---- from errors ----------------------------------------------------------------------------------------------------


# Kind, text, and the seconds until another try makes sense. The first match counts.
_OF_ERRORS: Final[Mapping[type[errors.PywheelError], tuple[str, str, int]]] = {
    errors.JobExists: ("job-exists", "{}", 0),
    errors.NonceTaken: ("key-reused", KEY_REUSED, 0),
    errors.NoSuchJob: ("no-such-job", "{}", 0),
    errors.StoreAway: ("store-away", "{}: try again", 1),
    errors.StoreBusy: ("store-busy", "{}", 1),
    errors.StoreFull: ("store-full", "{}: try again when there is room", 60),
    errors.StoreClosed: ("stopping", "the store was closed, as the server stops", 1),
    errors.StoreReadOnly: ("read-only", "{}: only reading works here", 0),
    errors.StoreError: ("store-failed", "{}", 0),
    errors.BadJob: ("bad-body", "{}", 0),
    errors.BadOption: ("bad-body", "{}", 0),
    errors.PywheelError: ("bad-request", "{}", 0),
}


def of_error(error: errors.PywheelError) -> Problem:
    """Return the problem for an error of pywheel."""
    kind, text, seconds = next(known for of, known in _OF_ERRORS.items() if isinstance(error, of))
    headers = {"retry-after": str(seconds)} if seconds else {}
    more = {"id": str(error.id)} if isinstance(error, errors.JobExists) else {}
    return Problem(kind, text.format(error), headers=headers, more=more)


def checked(field: str, function: Callable[_P, _R], /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
    """Return a function's result for a field of the body. Problem: the function rejects the field."""
    try:
        return function(*args, **kwargs)
    except errors.BadJob as error:
        raise bad_field(f"#/{field}", str(error)) from None


_AT: Final = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$?(?P<path>.*)`)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_OF_FIELDS: Final = (
    (re.compile(r"Object contains unknown field `(.*)`", re.DOTALL), "there is no field {!r}: leave it out"),
    (re.compile(r"Object missing required field `(.*)`", re.DOTALL), "the field {!r} is missing"),
)


def of_validation(error: msgspec.ValidationError, *, parameter: bool = False) -> Problem:
    """Return the problem of a field of the body, or of a parameter."""
    found = _AT.fullmatch(str(error))
    assert found is not None
    what, steps = found["what"], [name or place for name, place in _STEP.findall(found["path"] or "")]
    steps = [step for step in steps if step]
    for pattern, said in _OF_FIELDS:
        if named := pattern.fullmatch(what):
            steps.append(named[1][:80])
            what = said.format(named[1][:80])
            break
    if parameter:
        return bad_parameter(steps[0] if steps else "", what)
    return bad_field("#" + "".join(f"/{step.replace('~', '~0').replace('/', '~1')}" for step in steps), what)

"""Tokens: what their holders may do by HTTP. They are notes in the store of the jobs, without their secrets.

A secret is ``pw_<id>_<43 characters of 256 bits>``. The store has its SHA-256 only: nobody can show the secret again,
and a secret that random cannot be guessed from its hash.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from hmac import compare_digest
from secrets import token_hex, token_urlsafe
from typing import Any, Final, NamedTuple

from .._errors import BadJob, BadOption
from ..jobs.checks import did_you_mean, name
from ..jobs.commands import SetNote
from ..jobs.durations import moment
from ..jobs.queries import GetNote
from ..stores.contract import Store, notes, outcome_of

SCOPES: Final = ("read", "put", "work", "admin")
"""Read; put, and change one job; reserve and settle; all of that, delete, and change many."""
ROLES: Final = {"viewer": ("read",), "operator": ("read", "put"), "admin": ("admin",)}
"""The scopes of the page's roles."""

_PREFIX: Final = "token:"
_SECRET: Final = re.compile(r"pw_([0-9a-f]{12})_[A-Za-z0-9_-]{43}", re.ASCII)
_ID: Final = re.compile(r"(?:pw_)?([0-9a-f]{12})(?:_[A-Za-z0-9_-]*)?", re.ASCII)
_LISTED: Final = 30 * 86_400_000  # ms for which an expired token is listed
_LONGEST_NOTE: Final = 200  # characters
_LATEST: Final = 253_402_300_799_999  # ms: the end of the year 9999 in UTC, after which there is no datetime


class Grant(NamedTuple):
    """A token without its secret: what its holder may do."""

    id: str
    scopes: frozenset[str]  # none if the stored record cannot be read: then it grants nothing
    topics: tuple[str, ...]  # patterns, such as shop.*
    until: datetime | None
    name: str = ""  # its holder, for people
    made: datetime | None = None

    def may(self, scope: str, topic: str | None = None) -> bool:
        """Whether it has a scope, for a topic. Without a topic: for some topics, so the caller must ask for each."""
        if scope not in self.scopes and "admin" not in self.scopes:
            return False
        return topic is None or self.everywhere or any(fnmatchcase(topic, pattern) for pattern in self.topics)

    @property
    def everywhere(self) -> bool:
        """Whether it is for every topic."""
        return "*" in self.topics

    @property
    def sees(self) -> Callable[[str], bool] | None:
        """Whether a topic may be seen; None: every topic, so no check is needed."""
        return None if self.everywhere else lambda topic: self.may("read", topic)


class Tokens:
    """The tokens of a store. Any thread may call any method. Each method raises StoreError if the store fails."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self, scopes: Iterable[str], topics: Iterable[str] = ("*",), until: datetime | None = None, note: str = ""
    ) -> str:
        """Store a new token; return its secret, which cannot be read again.

        Args:
            scopes: some of SCOPES; `admin` implies the others.
            topics: patterns of topics as in a shell: ``*``, ``?``, ``[seq]``; case matters.
            until: an aware datetime; the token ends then.
            note: its holder, for people.

        Raises:
            BadOption: an argument makes no sense, or `until` is over or after the year 9999 in UTC.
        """
        now, end = self._store.clock.wall(), None if until is None else moment(until, "until", error=BadOption)
        if end is not None and end <= now:
            raise BadOption(f"a token cannot expire at {until}: that time has passed")
        if end is not None and end > _LATEST:
            raise BadOption(f"a token cannot expire at {until}: that is after the year 9999 in UTC")
        ttl = None if end is None else end - now + _LISTED
        record = {"scopes": _scopes(scopes), "topics": _topics(topics), "until": end, "note": _note(note), "made": now}
        while True:
            id = token_hex(6)
            secret = f"pw_{id}_{token_urlsafe(32)}"
            value = json.dumps({**record, "digest": _digest(secret)}).encode()
            try:
                taken = outcome_of(self._store, SetNote(_PREFIX + id, value, ttl, absent=True))
            except BadJob as error:
                raise BadOption(f"there are too many topics: {error}") from None
            if taken is None:
                return secret

    def grant(self, secret: str) -> Grant | None:
        """Return the grant of a secret, or None if it is malformed, unknown or expired. At most one query."""
        found = _SECRET.fullmatch(str(secret))
        value = None if found is None else self._store.ask(GetNote(_PREFIX + found[1]))
        if found is None or value is None:
            return None
        token, digest = _read(found[1], value)
        over = token.until is not None and token.until <= _time(self._store.clock.wall())
        if over or not compare_digest(digest, _digest(secret)):
            return None
        return token

    def list(self) -> list[Grant]:
        """Return all tokens, by id. Expired ones stay for 30 days. O(tokens)."""
        return [_read(name.removeprefix(_PREFIX), value)[0] for name, value in notes(self._store, _PREFIX)]

    def remove(self, id: str) -> bool:
        """Forget a token, by its id; return whether there was one. All servers refuse it within a second."""
        return outcome_of(self._store, SetNote(_PREFIX + id, None)) is not None


def id_of(text: str) -> str | None:
    """Return the id in a text that names a token: its id, its secret, or the beginning of the secret."""
    found = _ID.fullmatch(text)
    return None if found is None else found[1]


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def _read(id: str, value: bytes) -> tuple[Grant, str]:
    """Return a stored token, and the digest of its secret; "" if the record cannot be read."""
    try:
        record = json.loads(value)
        scopes, topics = frozenset(SCOPES).intersection(record["scopes"]), tuple(map(str, record["topics"]))
        until = None if record["until"] is None else _time(record["until"])
        return Grant(id, scopes, topics, until, str(record["note"]), _time(record["made"])), str(record["digest"])
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return Grant(id, frozenset(), (), None, "(this cannot be read: remove it)"), ""


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)


# ---- what may be given ----------------------------------------------------------------------------------------------


def _scopes(scopes: Iterable[str]) -> list[str]:
    given = _some(scopes, "scopes")
    for scope in given:
        if scope not in SCOPES:
            hint = did_you_mean(scope, SCOPES)
            raise BadOption(f"{scope[:80]!r} is not a scope{hint}: give some of {', '.join(SCOPES)}")
    return [scope for scope in SCOPES if scope in given]


def _topics(topics: Iterable[str]) -> list[str]:
    return [name(pattern, "pattern of topics", error=BadOption) for pattern in _some(topics, "topics")]


def _some(values: Iterable[str], what: str) -> list[str]:
    """Return a list of texts. A single text becomes a list of one: nobody means its letters."""
    given: list[Any] = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    for value in given:
        if not isinstance(value, str):
            raise BadOption(f"{what} are texts, not {value!r:.40}")
    if not given:
        raise BadOption(f"a token needs {what}")
    return given


def _note(note: Any) -> str:
    if isinstance(note, str) and len(note) <= _LONGEST_NOTE:
        return note
    raise BadOption(f"the note of a token is a text of up to {_LONGEST_NOTE} characters")

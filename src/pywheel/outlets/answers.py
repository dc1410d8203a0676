"""What the targets of an outlet answered last, and which of them are disabled."""

from __future__ import annotations

import json
import time
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from ..jobs.attached import Notes
from ..jobs.handler import error_text

__all__ = ["Answer", "Answers", "shown"]

_LONGEST: Final = 500  # characters of an error
_MOST: Final = 10_000  # targets that are known to be disabled


class Answer(NamedTuple):
    """What is known of an outlet, or of one target of it. Times are wall clock, in ms."""

    name: str
    kind: str
    target: str
    at: int | None = None  # of the last answer, or failure
    status: str | None = None  # what was answered last, such as ``200``
    error: str | None = None  # why the last delivery failed; None if it did not
    disabled: int | None = None  # since when

    def encoded(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, value: bytes) -> Answer:
        """Return what `encoded` gave; words of a later version are left out. ValueError if it is none."""
        found = json.loads(value)
        return cls(**{word: found.get(word) for word in cls._fields})


def shown(target: str) -> str:
    """Return a target for people: of a URL without its query, which may hold a secret."""
    if "://" not in target:
        return target
    parts = urlsplit(target)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Answers:
    """The last answer of an outlet, and its disabled targets. For the loops of its workers."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._name = ""
        self._notes: Notes | None = None
        self._target = ""
        self._disabled: dict[str, Answer] = {}
        self.last: Answer | None = None
        """Of the last delivery, whatever its target."""

    def keep_in(self, notes: Notes, name: str, target: str) -> None:
        """Keep what is known in a store, under the outlet's name."""
        self._notes, self._name, self._target = notes, name, target

    def delivered(self, target: str, status: str | None) -> None:
        """Note that a delivery succeeded."""
        self.last = Answer(self._name, self._kind, shown(target), _now(), status)

    def failed(self, target: str, error: BaseException, status: str | None = None) -> None:
        """Note that a delivery failed."""
        self.last = Answer(self._name, self._kind, shown(target), _now(), status, error_text(error)[:_LONGEST])

    async def disabled(self, target: str) -> Answer | None:
        """Return since when and why a target is disabled, or None."""
        return self._disabled.get(target)

    async def disable(self, target: str, why: str) -> None:
        """Deliver nothing more to a target, on any worker, until somebody enables it."""
        now = _now()
        if len(self._disabled) < _MOST:
            self._disabled[target] = Answer(self._name, self._kind, shown(target), now, None, why[:_LONGEST], now)

    async def flush(self) -> None:
        """Keep what is not kept yet."""


def _now() -> int:
    return time.time_ns() // 1_000_000

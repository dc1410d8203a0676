"""The last answers of an outlet's targets, and its disabled targets: kept in notes of the store."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import sys
import time
from collections.abc import Coroutine, Iterator
from typing import Any, Final, NamedTuple

from .._errors import StoreError
from ..jobs.commands import SetNote
from ..jobs.handler import error_text
from ..jobs.managed import Notes
from ..jobs.queries import ListNotes

PREFIX: Final = "outlet:"
"""The prefix of the notes: ``outlet:NAME`` has the last answer, ``outlet:NAME:DIGEST`` a disabled target."""
_LOGGER: Final = logging.getLogger("pywheel.jobs")
_LONGEST: Final = 500  # characters of an error
_LOOK: Final = 2.0  # seconds between looks for disabled targets, while there are deliveries
_RARELY: Final = 50  # times the duration of the last look, if that is longer: there may be very many
_KEEP: Final = 5.0  # seconds after which a new last answer is kept
_PAGE: Final = 1_000


class Answer(NamedTuple):
    """The state of an outlet, or of one of its targets. Times are wall clock, in ms."""

    name: str
    kind: str
    target: str
    at: int | None = None  # of the last answer or failure
    status: str | None = None  # the answer, such as ``200``; None if the delivery failed
    error: str | None = None  # why it failed; None if it did not
    disabled: int | None = None  # since when it is disabled

    def encoded(self) -> bytes:
        """Return the answer as JSON."""
        return json.dumps(self._asdict(), separators=(",", ":")).encode()

    @classmethod
    def decoded(cls, value: bytes) -> Answer:
        """Return the answer that `encoded` gave, without the fields of a later version. ValueError: it is none."""
        found = json.loads(value)
        return cls(**{word: found.get(word) for word in cls._fields})


def shown(target: str) -> str:
    """Return a target for people: a URL loses its query, which may hold a secret."""
    scheme, colon, rest = target.partition("://")
    if not colon:
        return target
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('#')[0]}"


class Answers:
    """The last answer of an outlet, and its disabled targets. For the loops of its workers."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._name = ""
        self._notes: Notes | None = None
        self._last: tuple[str, int, str | None, BaseException | None] | None = None
        self._kept = True  # whether the store has the last answer, or will soon
        self._disabled: dict[str, str] = {}  # the reason, by digest
        self._told = 0  # targets that were disabled here
        self._written = 0  # and whose notes are written
        self._looked = False  # whether a look for disabled targets has ended
        self._look_at = 0.0  # when to look again; 0 before the next delivery
        self._looking: asyncio.Task[None] | None = None

    def keep_in(self, notes: Notes, name: str) -> None:
        """Keep answers in the store of these notes, under the outlet's name."""
        if notes is not self._notes:
            self._disabled = {}
            self.look_again()
        self._notes, self._name = notes, name

    # ---- the last answer --------------------------------------------------------------------------------------------

    @property
    def last(self) -> Answer | None:
        """The answer to the last delivery, whatever its target."""
        if self._last is None:
            return None
        target, at, status, error = self._last
        said = None if error is None else error_text(error)[:_LONGEST]
        return Answer(self._name, self._kind, shown(target), at, status, said)

    def note(self, target: str, status: str | None, error: BaseException | None = None) -> None:
        """Note that a delivery succeeded, or the error it failed with."""
        self._last = target, _now(), status, error
        if self._kept and self._notes is not None:
            self._kept = False
            asyncio.get_running_loop().call_later(_KEEP, lambda: in_background(self.flush()))

    async def flush(self) -> None:
        """Write the last answer to the store, unless it is there."""
        last = self.last
        if self._kept or last is None:
            return
        self._kept = True
        await self._apply(SetNote(PREFIX + self._name, last.encoded()))

    # ---- disabled targets -------------------------------------------------------------------------------------------

    async def disabled(self, target: str) -> str | None:
        """Return why a target is disabled, or None. Other workers' changes arrive some seconds later.

        All deliveries wait for the first look, and none for a later one.
        """
        loop, look = asyncio.get_running_loop(), self._looking
        if look is not None and (look.done() or look.get_loop() is not loop):
            look = None
        if self._notes is not None and look is None and (not self._looked or time.monotonic() >= self._look_at):
            self._look_at = time.monotonic() + _LOOK
            look = self._looking = loop.create_task(self._look(self._notes))
        if look is not None and not self._looked:
            await asyncio.shield(look)  # a cancelled delivery does not cancel the look of the others
        return self._disabled.get(_digest(target)) if self._disabled else None

    async def disable(self, target: str, why: str) -> None:
        """Deliver nothing more to a target, on any worker, until somebody enables it."""
        now, why = _now(), why[:_LONGEST]
        answer = Answer(self._name, self._kind, shown(target), now, None, why, now)
        self._disabled[_digest(target)] = why
        self._told += 1
        try:
            await self._apply(SetNote(f"{PREFIX}{self._name}:{_digest(target)}", answer.encoded()))
        finally:
            self._written += 1

    def look_again(self) -> None:
        """Have the next delivery look first which targets are disabled."""
        self._looked, self._look_at, self._looking = False, 0.0, None

    async def _look(self, notes: Notes) -> None:
        written, began = self._written, time.monotonic()
        try:
            found = await asyncio.to_thread(_disabled, notes, f"{PREFIX}{self._name}:")
        except StoreError as error:
            _LOGGER.warning("it is not known which targets of outlet %s are disabled: %s", self._name, error)
            return
        else:
            if written == self._told and notes is self._notes:  # else one that was disabled meanwhile may be missing
                self._disabled = found
        finally:
            self._looked = self._looked or notes is self._notes
        if self._look_at:
            self._look_at = max(self._look_at, time.monotonic() + _RARELY * (time.monotonic() - began))

    async def _apply(self, command: SetNote) -> None:
        if self._notes is None:
            return
        try:
            await asyncio.to_thread(self._notes.apply, [command])
        except StoreError as error:
            _LOGGER.warning("the answers of outlet %s are not kept: %s", self._name, error)


# ---- for people -----------------------------------------------------------------------------------------------------


def known(notes: Notes, prefix: str = PREFIX) -> Iterator[tuple[str, Answer]]:
    """Yield the answers of outlets and of their disabled targets, with the names of the notes. Raises StoreError."""
    after = ""
    while page := notes.ask(ListNotes(prefix, after, _PAGE)):
        for name, value in page:
            try:
                yield name, Answer.decoded(value)
            except (ValueError, TypeError, AttributeError):  # not a note of an outlet
                continue
        after = page[-1][0]


def _disabled(notes: Notes, prefix: str) -> dict[str, str]:
    """Return the reasons of disabled targets, by digest."""
    return {name.rpartition(":")[2]: sys.intern(answer.error or "") for name, answer in known(notes, prefix)}


def enable(notes: Notes, name: str, target: str | None = None) -> list[Answer]:
    """Enable the disabled targets of an outlet, or one of them by its shown form; return those that were disabled."""
    found = [
        (note, answer)
        for note, answer in known(notes, f"{PREFIX}{name}:")
        if target is None or shown(target) == answer.target
    ]
    for note, _ in found:
        notes.apply([SetNote(note, None)])
    return [answer for _, answer in found]


def _digest(target: str) -> str:
    return hashlib.sha256(target.encode()).hexdigest()[:24]


def _now() -> int:
    return time.time_ns() // 1_000_000


def in_background(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that nobody awaits."""
    task = asyncio.get_running_loop().create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)


_background: Final[set[asyncio.Task[None]]] = set()  # a loop holds its tasks weakly

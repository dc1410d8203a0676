"""What has changed of schedules: a token, another one after every change, and the names of the last ones that did.

So whoever knows all schedules as of one token need not read them all for the next. Names are kept newest first, a lot
of them with the token before it. Who has written over a change that he had not seen leaves a token without a past.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from secrets import token_hex
from typing import Any, Final, NamedTuple

__all__ = ["Changes"]

_NONE: Final = b"-"
_LOTS: Final = 100  # of names that are kept
_NAMES: Final = 50  # that one lot has at most: beyond, all are to be read
_BYTES: Final = 16_000


class Changes(NamedTuple):
    """The last changes."""

    token: str = ""
    lots: tuple[tuple[str, tuple[str, ...]], ...] = ()  # token before, and what has changed then; newest first

    @classmethod
    def read(cls, note: bytes | None) -> Changes:
        """Return what a note says; one that an older pywheel wrote is a token alone."""
        if note is None or note == _NONE:
            return cls()
        try:
            token, *lots = json.loads(note)
            return cls(str(token), tuple((str(before), tuple(map(str, names))) for before, names in lots))
        except (ValueError, TypeError):
            return cls(note.decode("utf-8", "replace"))

    def since(self, token: str) -> set[str] | None:
        """Return the names of what has changed since a token, or None if that is not known."""
        names: set[str] = set()
        at = self.token
        for before, changed in self.lots:
            if at == token:
                break
            names.update(changed)
            at = before
        return names if at == token else None

    def and_then(self, names: Collection[str]) -> bytes:
        """Return the note that says that these have changed, after all that."""
        token = token_hex(8)
        if len(names) > _NAMES:
            return _note([token])
        lots: list[Any] = [token, (self.token, sorted(names)), *self.lots[: _LOTS - 1]]
        note = _note(lots)
        while len(note) > _BYTES:
            lots = lots[: len(lots) // 2]
            note = _note(lots)
        return note

    @staticmethod
    def without_past() -> bytes:
        """Return the note that says that anything may have changed."""
        return _note([token_hex(8)])


def _note(parts: list[Any]) -> bytes:
    return json.dumps(parts, separators=(",", ":")).encode()

"""Who changed what by the page, or told workers by the API: kept for so long and so many at most, the newest first."""

from __future__ import annotations

import logging
from itertools import count, islice
from secrets import token_hex
from typing import Final

import msgspec
from msgspec import Struct

from .._errors import StoreError
from ..jobs.checks import MOST
from ..jobs.commands import SetNote
from ..jobs.queries import ListNotes
from ..stores.contract import Store, notes
from .context import Context
from .tokens import Grant

__all__ = ["Deed", "keep", "listed"]

_LOGGER: Final = logging.getLogger("pywheel.server")
_NOTE: Final = "audit:"
_AGE: Final = 90 * 86_400_000  # ms for which an entry is kept
_NUMBER: Final = 5_000  # entries that are kept
_TRIM: Final = 100  # a process looks after so many of its entries whether there are more
_LONGEST: Final = 500  # characters of what was changed
_PAGES: Final = 5  # that are looked at for what somebody may see
_written: Final = count(1)


class Deed(Struct, frozen=True):
    """A change, without bodies and secrets."""

    action: str
    what: str
    topic: str | None = None  # None: it is of several topics, or nobody knows
    outcome: str = "done"
    at: int = 0  # ms
    name: str = ""  # of the token, or of the person that a proxy signed in
    token: str = ""  # its id; "" where everybody may do everything


async def keep(context: Context, visitor: Grant, deed: Deed) -> None:
    """Keep what a visitor has done. A store that does not take it leaves a line in the log: the change was made."""
    try:
        await context.read(_keep, context.queue.store, visitor, deed)
    except StoreError as error:
        _LOGGER.warning("not in the audit log: %s %r by token %r: %s", deed.action, deed.what, visitor.id, error)


def _keep(store: Store, visitor: Grant, deed: Deed) -> None:
    now = store.clock.wall()
    what = deed.what if len(deed.what) <= _LONGEST else f"{deed.what[: _LONGEST - 1]}…"
    entry = msgspec.structs.replace(deed, what=what, at=now, name=visitor.name, token=visitor.id)
    name = f"{_NOTE}{MOST - now:019}-{token_hex(4)}"  # so the newest comes first by name
    store.apply([SetNote(name, msgspec.json.encode(entry), _AGE)])
    if next(_written) % _TRIM == 0:
        old = islice(notes(store, _NOTE), _NUMBER, None)
        store.apply([SetNote(name, None) for name, _ in old])


def listed(store: Store, after: str, limit: int, visitor: Grant) -> tuple[list[Deed], str | None]:
    """Return what was done, the latest first, as far as it is for an admin to see; and where to go on, None at the end.

    Of a visitor for some topics that is what was done to one of them alone.
    """
    found: list[Deed] = []
    for _ in range(_PAGES):
        page = store.ask(ListNotes(_NOTE, after, limit - len(found)))
        for name, value in page:
            after = name
            deed = msgspec.json.decode(value, type=Deed)
            if visitor.everywhere or (deed.topic is not None and visitor.may("admin", deed.topic)):
                found.append(deed)
        if not page or len(found) == limit:
            break
    return found, after if page else None

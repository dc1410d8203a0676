"""The audit log: changes by the page, and orders to workers by the API. Bounded in age and number, newest first."""

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

_LOGGER: Final = logging.getLogger("pywheel.server")
_NOTE: Final = "audit:"
_AGE: Final = 90 * 86_400_000  # ms for which an entry is kept
_NUMBER: Final = 5_000  # kept entries
_TRIM: Final = 100  # entries that a process writes between two looks for surplus ones
_LONGEST: Final = 500  # characters of each text
_PAGES: Final = 5  # pages that are read for entries that the visitor may see
_written: Final = count(1)


class Deed(Struct, frozen=True):
    """A change, without bodies and secrets."""

    action: str
    what: str
    topic: str | None = None  # None: several topics, or unknown
    outcome: str = "done"
    at: int = 0  # ms
    name: str = ""  # of the token, or of the person that a proxy signed in
    token: str = ""  # the token's id; "" on an open server


async def keep(context: Context, visitor: Grant, deed: Deed) -> None:
    """Keep a visitor's change. If the store does not take the entry, log that: the change itself was made."""
    try:
        await context.read(_keep, context.queue.store, visitor, deed)
    except StoreError as error:
        _LOGGER.warning("not in the audit log: %s %r by token %r: %s", deed.action, deed.what, visitor.id, error)


def _keep(store: Store, visitor: Grant, deed: Deed) -> None:
    now = store.clock.wall()
    whole = msgspec.structs.replace(deed, at=now, name=visitor.name, token=visitor.id)
    texts = {field: text for field, text in msgspec.structs.asdict(whole).items() if isinstance(text, str)}
    long = {field: f"{text[: _LONGEST - 1]}…" for field, text in texts.items() if len(text) > _LONGEST}
    entry = msgspec.structs.replace(whole, **long)
    name = f"{_NOTE}{MOST - now:019}-{token_hex(4)}"  # names sort the newest first
    store.apply([SetNote(name, msgspec.json.encode(entry), _AGE)])
    if next(_written) % _TRIM == 0:
        old = islice(notes(store, _NOTE), _NUMBER, None)
        store.apply([SetNote(name, None) for name, _ in old])


def listed(store: Store, after: str, limit: int, visitor: Grant) -> tuple[list[Deed], str | None]:
    """Return the changes that the visitor may see as an admin, the latest first, and where to go on, None at the end.

    A visitor with some topics sees the changes to one of these topics alone.
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

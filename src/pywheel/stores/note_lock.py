"""A lock that is a note of the store: one at a time holds it, in whatever process.

It ends by itself, so that nobody waits for one who died. So who stood still for longer may find that he is not alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Final, cast

from .._errors import StoreBusy, StoreError
from ..jobs.commands import SetNote
from .contract import Store, intact

__all__ = ["HELD", "locked"]

HELD: Final = 5_000
"""ms after which it ends by itself."""
_PATIENCE: Final = 30.0  # seconds
_PAUSES: Final = (0.002, 0.1)  # seconds between tries: first, longest


@contextmanager
def locked(store: Store, name: str) -> Iterator[Callable[[], None]]:
    """Hold the lock of a name; give what holds it for longer. Two transactions, one more for each try.

    Raises:
        StoreBusy: others held it for half a minute.
    """
    token, (pause, longest) = token_hex(8).encode(), _PAUSES
    give_up = time.monotonic() + _PATIENCE
    while True:
        held_since = time.monotonic()
        if _kept(store, SetNote(name, token, ttl=HELD, absent=True)) in (None, token):
            break
        if held_since > give_up:
            raise StoreBusy(f"others have held {name} for {_PATIENCE:.0f} s: try again")
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, longest)

    def renew() -> None:
        nonlocal held_since
        asked = time.monotonic()
        if asked - held_since < HELD / 1000:
            _kept(store, SetNote(name, token, ttl=HELD))
            held_since = asked

    try:
        yield renew
    finally:
        if time.monotonic() - held_since < HELD / 1000:  # else it may be another one's by now
            with suppress(StoreError):
                _kept(store, SetNote(name, None))


def _kept(store: Store, keep: SetNote) -> bytes | None:
    [outcome] = intact(store.apply([keep]))
    if isinstance(outcome, BaseException):
        raise outcome
    return cast("bytes | None", outcome)

"""The ear of one worker: its slot in the page, its bell, and the hints that are addressed to it."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from secrets import randbits
from typing import TYPE_CHECKING, Final

from ..._errors import StoreClosed, StoreError
from ...jobs.job import Due
from ..notifier import Hints, Member, Notifier, Spare
from .bell import Bell
from .presence_page import BEHIND, HEARTBEAT, HORIZON, NONCE, QUIET, RELOAD, RUNG, SILENT

if TYPE_CHECKING:
    from .presence import Presence

__all__ = ["SqliteNotifier"]

_LOOK: Final = 0.25  # seconds between looks whether its bell can be found, and whether anybody has written and not rung
_TICK: Final = 100_000_000  # ns: what is written that soon after a file's last change may not change its time again


class SqliteNotifier(Notifier):
    """One thread uses it, the worker's; `wake`, `ring` and `close` may come from any."""

    def __init__(self, presence: Presence, name: str) -> None:
        self._presence = presence
        self._nonce = randbits(48) | 1 << 47
        self._closed = False
        self._horizon = -1
        self._reload = False
        self._look_at = 0.0
        self._log = f"{presence.database}-wal"
        self._written = (0, 0)  # when the log was written to, and its size, as it was looked at last
        self._bell = Bell(presence.ringer, presence.database)
        self._after: int = presence.rows("hints_end", ())[0][0]
        self._looked = self._after  # up to which hint it has seen whether any is for this worker
        self._seen = self._after  # nothing was claimed yet, so nothing of what was paused until now can start
        self._page, self._slot = presence.take(self._nonce, -1)
        self._settle()
        self.worker = f"{name}@{self._slot}.{self._nonce:x}"

    def _settle(self) -> None:
        """Begin with a slot."""
        words, slot = self._page.words, self._slot
        words[HORIZON + slot] = self._horizon
        words[QUIET + slot] = self._seen
        self._token = words[RELOAD + slot]
        self._bell.bind(slot)
        self._presence.moved()  # the slot may have been another's

    def _over(self) -> bool:
        return self._closed or self._presence.closed

    # ---- what it says -----------------------------------------------------------------------------------------------

    def publish(self, horizon: int) -> None:
        """Set the horizon."""
        self._horizon = horizon
        if not self._over() and self._page.words[NONCE + self._slot] == self._nonce:
            self._page.words[HORIZON + self._slot] = horizon

    def beat(self, behind: int, spare: Spare = tuple) -> None:  # noqa: ARG002
        """Note the time; a few times a second look whether the others can still find this worker."""
        if self._over():
            return
        presence = self._presence
        presence.look()
        lost = presence.page is not self._page or self._page.words[NONCE + self._slot] != self._nonce
        if lost and not self._move():
            return  # not now: it tries again with the next beat
        words, slot = self._page.words, self._slot
        before = words[HEARTBEAT + slot]
        words[HEARTBEAT + slot] = presence.now()
        words[BEHIND + slot] = behind
        # By a time read after the beat was written: whoever took this worker for silent until then did so earlier.
        if presence.now() - before > SILENT and not self._alone():
            self._read_all()  # what it owns may have been another's meanwhile, hints included
        if (moment := time.monotonic()) >= self._look_at:
            self._look_at = moment + _LOOK
            if not self._bell.hangs():
                self._bell.bind(slot)
            if self._told():
                words[RUNG + slot] = 1

    def _told(self) -> bool:
        """Whether there are hints for this worker for which nobody has rung: who wrote them died after the commit.

        One system call, unless somebody has written since the last look.
        """
        with suppress(OSError, StoreError):
            log = os.stat(self._log)  # noqa: PTH116
            written = (log.st_mtime_ns, log.st_size)
            if written != self._written:
                after = max(self._after, self._looked)
                [(end, told)] = self._presence.rows("hints_since", {"after": after, "slot": self._slot})
                self._looked = max(after, end)
                self._written = written if time.time_ns() - log.st_mtime_ns > _TICK else (0, 0)
                return bool(told)
        return False

    def _alone(self) -> bool:
        """Whether no other worker was there that could have been taken for the owner."""
        roster = self._presence._roster
        return (
            roster is not None
            and roster.holds(self._page)
            and all(one.nonce == self._nonce or one.slot < 0 for one in roster.members)
        )

    def _move(self) -> bool:
        """Take a slot again: the page was made anew, or this worker was silent for so long that it lost its slot."""
        try:
            self._page, self._slot = self._presence.take(self._nonce, self._slot)
        except StoreError:
            return False
        self._settle()
        self._presence.stir((self._slot,))
        self._read_all()
        return True

    def _read_all(self) -> None:
        self._reload = True
        self._page.words[RUNG + self._slot] = 1

    def ring(self, worker: str) -> None:
        """Wake another worker."""
        if not self._over() and (slot := self._presence.slot(worker)) >= 0:
            self._presence.ring([slot])

    def quiet(self) -> None:
        """Say that nothing starts here any more of what was paused when `hints` said so."""
        if not self._over():
            self._page.words[QUIET + self._slot] = self._seen

    # ---- what it hears ----------------------------------------------------------------------------------------------

    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics and have a slot, by name. Some 200 ns each."""
        self._open()
        return tuple(self._presence.members())

    def hints(self) -> Hints:
        """Return what changed since the last call. One query of one row."""
        self._open()
        token, reload = self._page.words[RELOAD + self._slot], self._reload
        self._reload = False
        try:
            [(first, last, pauses, due)] = self._presence.rows("hints_for", {"after": self._after, "slot": self._slot})
        except BaseException:
            self._reload = reload
            raise
        gap = first is not None and first > self._after + 1
        reload |= gap or pauses > 0 or token != self._token
        self._token = token
        self._after = last or self._after
        if reload:
            self._seen = self._after
        return Hints([Due(*found) for found in json.loads(due)], reload)

    def wait(self, seconds: float) -> bool:
        """Return when rung or woken, or after so many seconds."""
        if self._over():
            return False
        rung = self._page.words[RUNG + self._slot]
        self._bell.wait(0 if rung else seconds)
        words, at = self._page.words, RUNG + self._slot
        if words[NONCE + self._slot] != self._nonce:
            return True  # the slot is another's, until the next beat
        rung = words[at]
        words[at] = 0  # before hints are read: what rings from here on is a ring of its own
        return rung != 0

    def wake(self) -> None:
        """End a wait."""
        self._bell.wake()

    # ---- life -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._over():
            raise StoreClosed("the store was closed, or its worker has stopped: open another one")

    def close(self) -> None:
        """Free the slot, and take the bell down."""
        if self._closed:
            return
        self._closed = True
        if self._presence.closed:  # in a forked child: the slot is the parent's
            return
        words = self._page.words
        self._bell.close()
        if words[NONCE + self._slot] == self._nonce:
            words[NONCE + self._slot] = 0
            self._presence.stir()

    def after_fork(self) -> None:
        """Let go of the bell in a forked child: it is the parent's."""
        self._closed = True
        self._page = self._presence.page  # not the parent's, nor its descriptor
        self._bell.let_go()

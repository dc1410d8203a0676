"""The notifier of one worker: its slot in the page, its bell, and its hints."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from ..._errors import StoreClosed, StoreError
from ...jobs.job import Due
from ...jobs.queries import Member
from ..notifier import Hints, Notifier, Spare
from . import page as at
from .page import draw

if TYPE_CHECKING:
    from .presence import Presence

_LOOK: Final = 0.25  # seconds between looks for commits that were not announced
_HINTED: Final = (
    "SELECT j.next, j.id, t.name, j.priority FROM json_each(?) h CROSS JOIN job j ON j.id = h.value "
    "CROSS JOIN topic t ON t.id = j.topic WHERE j.state = 0 ORDER BY h.key"
)


class SqliteNotifier(Notifier):
    """Used by one thread, the worker's; `wake`, `ring` and `close` may come from any."""

    def __init__(self, presence: Presence, name: str) -> None:
        self._presence = presence
        self._nonce = draw(47) | 1 << 47
        self._closed = False
        self._horizon = -1
        self._reload = False
        self._look_at = 0.0
        self._untold = (0, 0)  # marks of unannounced commits at the last look
        self._looks = 0  # how often the same marks were seen again
        self._page, self._slot = presence.take(self._nonce, -1)
        self._after = self._seen = self._page.words[at.TOLD]  # no claims yet that a pause would have to stop
        self._settle()
        self.worker = f"{name}@{self._slot}.{self._nonce:x}"

    def _settle(self) -> None:
        """Begin with a slot."""
        words, slot = self._page.words, self._slot
        words[at.HORIZON + slot] = self._horizon
        words[at.QUIET + slot] = self._seen
        self._token, self._heard = words[at.RELOAD + slot], words[at.BELL + slot]
        self._presence.moved()  # the slot may have been another's

    def _over(self) -> bool:
        """Whether this notifier has ended. If not, the page can be looked at."""
        if self._closed or self._presence.closed:
            return True
        self._page.whole()
        return False

    def _lost(self) -> bool:
        """Whether the slot is another worker's."""
        return bool(self._page.words[at.NONCE + self._slot] != self._nonce)

    # ---- what it says -----------------------------------------------------------------------------------------------

    def publish(self, horizon: int) -> None:
        self._horizon = horizon
        if not self._over() and not self._lost():
            self._page.words[at.HORIZON + self._slot] = horizon

    def beat(self, behind: int, spare: Spare = tuple) -> None:  # noqa: ARG002
        """Note the time; a few times a second look whether a writer died before its ring."""
        if self._over():
            return
        presence = self._presence
        presence.look()
        if (presence.page is not self._page or self._lost()) and not self._move():
            return  # the next beat tries again
        words, slot = self._page.words, self._slot
        before = words[at.HEARTBEAT + slot]
        words[at.HEARTBEAT + slot] = presence.now()
        words[at.BEHIND + slot] = behind
        # The time is read after the beat was written: a writer that took this worker for silent has done so earlier.
        if presence.now() - before > at.SILENT and not self._alone():
            self._read_all()  # another worker may have owned its shards meanwhile, hints included
        if (moment := time.monotonic()) >= self._look_at:
            self._look_at = moment + _LOOK
            untold = words[at.UNTOLD], words[at.WITHIN]
            self._looks = self._looks + 1 if untold == self._untold else 0
            self._untold = untold
            if any(untold) and self._looks & self._looks - 1 == 0 < self._looks:
                self._read_all()  # at the second look, the third, the fifth: the transaction may have been undone

    def _alone(self) -> bool:
        """Whether no other worker was there that could have been taken for the owner."""
        roster = self._presence._roster
        return (
            roster is not None and roster.holds(self._page) and all(one.nonce == self._nonce for one in roster.present)
        )

    def _move(self) -> bool:
        """Take a slot again: the page was made anew, or this worker lost its slot by a long silence."""
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
        self._page.words[at.RUNG + self._slot] = 1

    def ring(self, worker: str) -> None:
        if not self._over() and (slot := self._presence.slot(worker)) >= 0:
            self._presence.ring([slot])

    def quiet(self) -> None:
        if not self._over():
            self._page.words[at.QUIET + self._slot] = self._seen

    # ---- what it hears ----------------------------------------------------------------------------------------------

    def members(self) -> tuple[Member, ...]:
        """Return all workers that have announced topics and have a slot, by name. Some 200 ns each."""
        self._open()
        return tuple(self._presence.members())

    def hints(self) -> Hints:
        """Return the changes since the last call. One query, if there are any."""
        self._open()
        token = self._page.words[at.RELOAD + self._slot]
        after, jobs, lost = self._page.hints(self._slot, self._after)
        found = self._presence.rows(_HINTED, (json.dumps(list(dict.fromkeys(jobs))),)) if jobs else []
        reload = self._reload or lost or token != self._token
        self._reload, self._token, self._after = False, token, after
        if reload:
            self._seen = after
        return Hints([Due(*row) for row in found], reload)

    def wait(self, seconds: float) -> bool:
        if self._over():
            return False
        page, slot = self._page, self._slot
        words, rung_at = page.words, at.RUNG + slot
        until = time.monotonic() + seconds
        while not self._over() and not words[rung_at] and words[at.BELL + slot] == self._heard:
            left = until - time.monotonic()
            if left <= 0:
                break
            page.wait(slot, self._heard, left)
        if page is not self._page or self._lost():
            return True  # the slot is another's, until the next beat
        self._heard = words[at.BELL + slot]
        rung = words[rung_at]
        words[rung_at] = 0  # before hints are read: a later ring ends the next wait
        return bool(rung)

    def wake(self) -> None:
        if not self._over():
            self._page.wake(self._slot)

    # ---- life -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if self._over():
            raise StoreClosed("the store was closed, or its worker has stopped: open another one")

    def close(self) -> None:
        """Free the slot, and let a wait return."""
        if self._closed:
            return
        self._closed = True
        if self._presence.closed:  # in a forked child: the slot is the parent's
            return
        self._page.whole()
        if not self._lost():
            self._page.wake(self._slot)
            self._page.words[at.NONCE + self._slot] = 0
            self._presence.stir()

    def after_fork(self) -> None:
        """Leave the slot to the parent, in a forked child."""
        self._closed = True
        self._page = self._presence.page  # not the parent's, nor its descriptor

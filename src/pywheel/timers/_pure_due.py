"""How the twins of the drivers collect: in order, and so few timers at a time that nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from ..core._pure import TimingWheel

_T = TypeVar("_T")
_Left: TypeAlias = tuple[int, int, int, _T]  # a timer that has left the wheel: deadline, sequence, handle, item

FEW: Final = 2048  # timers that an advance may look at
PIECE: Final = 512  # timers that a step takes out of a slot that holds more


class Due(Generic[_T]):
    """What leaves a wheel as it falls due.

    An advance that would look at too many timers is not made. The slots that begin by then are taken out in pieces
    instead, one in each step, with those of their timers that are not due yet. When all of these slots are empty the
    pieces, each of which is sorted, are merged, as far as timers are due, and as many in a step as are asked for.

    Args:
        wheel: whose timers they are.
        awaits: called as ``awaits(timer, handle)``: whether a timer in a piece, in which that is its handle, is still
            to be called.
    """

    __slots__ = ("_awaits", "_emptied", "_firsts", "_left", "_until", "_wheel", "touched")

    def __init__(self, wheel: TimingWheel[_T], awaits: Callable[[_T, int], bool]) -> None:
        self._wheel = wheel
        self._awaits = awaits
        self._firsts: list[tuple[_Left[_T], list[_Left[_T]]]] = []  # a heap: the first timer of a piece, and the piece,
        # sorted backwards; if that timer is not its last any more, it was taken
        self._left = 0  # timers in the pieces, but for those that were discarded
        self._until: int | None = None  # the tick that is being advanced to in steps,
        self._emptied = False  # and whether all slots that begin by then are empty
        self.touched = 0  # timers that were looked at so far; for tests

    def collect(self, tick: int, most: int) -> list[_T]:
        """Advance to `tick`, or go on to the one before it; return what is due, in order: few, or up to `most`.

        If that takes more steps it may be nothing yet, and `is_behind` is true.
        """
        wheel = self._wheel
        if self._until is None:
            if not self._firsts and (weight := wheel._weight(tick)) <= FEW:
                self.touched += weight
                return wheel.advance(tick)
            self._until = tick
        if self._emptied:
            return self._merge(self._until, min(most, FEW))
        taken = wheel._take_piece(self._until, PIECE, self._firsts)
        self._left += taken
        self.touched += taken
        if taken:
            return []
        self._emptied = True
        return wheel.advance(self._until)  # nothing, but for what a signal's handler has just added

    def _merge(self, until: int, most: int) -> list[_T]:
        """Take the first timers that are due by a tick out of the pieces."""
        firsts = self._firsts
        due: list[_Left[_T]] = []
        piece: list[_Left[_T]] = []
        try:
            while firsts and firsts[0][0][0] <= until and len(due) < most:
                first, piece = firsts[0]
                if piece and piece[-1] is first:
                    due.append(first)
                    piece.pop()
                self._go_on()
            timers = [timer for _, _, handle, timer in due if self._awaits(timer, handle)]
            self._left -= len(timers)
        except BaseException:
            if piece and due and piece[-1] is due[-1]:
                due.pop()
            if due:
                heappush(firsts, (due[0], due[::-1]))
            raise
        if not (firsts and firsts[0][0][0] <= until):
            self._until, self._emptied = None, False
        return timers

    def _go_on(self) -> None:
        """Have the next timer of the piece that comes first be its first."""
        piece = self._firsts[0][1]
        if piece:
            heapreplace(self._firsts, (piece[-1], piece))
        else:
            heappop(self._firsts)

    def is_behind(self) -> bool:
        """Whether the last step has left something to collect."""
        return self._until is not None

    def discard(self) -> None:
        """Count one less: it was in a piece, and was cancelled or moved."""
        self._left -= 1

    def next_tick(self) -> int | None:
        """Return the tick by which to collect again."""
        if self._until is not None:
            return self._wheel.now
        tick = self._wheel.next_deadline()
        while self._firsts:
            first, piece = self._firsts[0]
            if piece and piece[-1] is first:
                if self._awaits(first[3], first[2]):
                    return first[0] if tick is None else min(tick, first[0])
                piece.pop()
            self._go_on()
        return tick

    def __len__(self) -> int:
        """Timers in the wheel and in the pieces."""
        return len(self._wheel) + self._left

    def timers(self) -> list[_T]:
        """Return all of them, in no order."""
        wheel = self._wheel
        timers = [timer for handle in wheel if (timer := wheel.get(handle)) is not None]
        left = (entry for _, piece in self._firsts for entry in piece)
        return timers + [timer for _, _, handle, timer in left if self._awaits(timer, handle)]

    def clear(self) -> None:
        """Drop all of them; they are released when none is left."""
        firsts = self._firsts
        self._firsts, self._left, self._until, self._emptied = [], 0, None, False
        self._wheel.clear()
        del firsts

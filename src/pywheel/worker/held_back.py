"""What a limit by groups holds back: a worker looks past it, through the whole backlog, for what can begin.

A window has room for some thousand jobs. When all of them are held back and the store has more, those that come first
stay known, as do the first of each group; the others are forgotten. The next walk reads them again, once few are known
of their groups. A walk takes a fifth of the time at most.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from ..clock import Clock
from .window import PAGE, Window
from .windows import EACH, Windows

__all__ = ["HeldBack"]

_PAUSE: Final = (500, 4)  # between two walks: ms at least, and times as long as one takes


class HeldBack:
    """Walks through backlogs of held jobs. Only the claims use it."""

    def __init__(self, windows: Windows, clock: Clock) -> None:
        self._windows = windows
        self._clock = clock
        self._began: dict[str, float] = {}  # by topic: when the walk that goes on began
        self._again: dict[str, float] = {}  # when the next one may begin

    def all_of(self, window: Window) -> bool:
        """Take in that all that is known is held back; return whether there is more to be looked at before it."""
        topic, now = window.topic, self._clock.time()
        if window.more:
            self._began.setdefault(topic, now)
            self._windows.look_past(window, PAGE)
            return True
        if topic in self._began:
            least, times = _PAUSE
            self._again[topic] = now + max(least / 1000, times * (now - self._began.pop(topic)))
        few = len(window.aside) < PAGE // 2
        if topic in self._again and (few or (now >= self._again[topic] and _low(window))):
            del self._again[topic]
            window.forgotten.clear()
            self._windows.again(window)
        return False


def _low(window: Window) -> bool:
    """Whether few jobs are known of a group of which others were forgotten."""
    known = Counter(window.groups.get(id) for _, _, id in window.aside)
    return any(group is None or known[group] < EACH // 2 for group in window.forgotten)

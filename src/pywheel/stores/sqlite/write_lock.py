"""A fair turn for every process that writes to one file.

SQLite's own wait is a poll: beside a busy writer another one may starve for seconds. Here a process that finds the
*turn* taken enters the *gate*, and holds it while it waits. Whoever had the turn last sees that somebody waits, must
pass the gate too, and so comes after the one who waits in it.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

try:
    import fcntl

    LOCKS = True
except ImportError:  # no flock on this system: SQLite's own wait has to do
    LOCKS = False

__all__ = ["WriteLock"]

_MODE: Final = 0o666  # as SQLite's own files, less the umask
_WAITED_FOR: Final = 0  # the byte of the gate's file that says so


class WriteLock:
    """Two locked files. One thread at a time; another thread needs one of its own.

    ``try: enter() ... finally: leave()``, with `enter` inside: an interrupt may come when it has the turn already.

    The byte is set and cleared by whoever holds the gate. One who is killed there leaves it set: that sends the next
    one through the gate for nothing, who clears it. One who is interrupted before it has the gate may clear it too
    early: then somebody has the turn once more before the one who waits.
    """

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        self._files = [os.open(f"{path}-{name}", flags, _MODE) for name in ("gate", "turn")] if LOCKS else []
        if self._files:
            gate = self._files[0]
            if os.fstat(gate).st_size == 0:
                os.pwrite(gate, b"\0", _WAITED_FOR)  # written, not skipped: there is room on the disk for it
            self._page = mmap.mmap(gate, 1)

    def enter(self) -> None:
        """Wait for the turn."""
        if not self._files:
            return
        gate, turn = self._files
        if not self._page[_WAITED_FOR]:
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                return
        try:
            fcntl.flock(gate, fcntl.LOCK_EX)
            self._page[_WAITED_FOR] = 1
            fcntl.flock(turn, fcntl.LOCK_EX)
        finally:
            self._page[_WAITED_FOR] = 0
            fcntl.flock(gate, fcntl.LOCK_UN)

    def leave(self) -> None:
        """Let the next one have its turn. Does nothing without it."""
        if self._files:
            fcntl.flock(self._files[1], fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files; they stay, for others."""
        if self._files:
            self._page.close()
        while self._files:
            os.close(self._files.pop())

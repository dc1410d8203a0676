"""A fair turn for every process that writes to one file.

SQLite's own wait is a poll: beside a busy writer another one may starve for seconds. Here a process first enters the
*gate* and holds it while it waits for the *turn*. Whoever had the turn last must pass the gate again, and so comes
after the one who waits in it.
"""

from __future__ import annotations

import os
from typing import Final

try:
    import fcntl

    LOCKS = True
except ImportError:  # no flock on this system: SQLite's own wait has to do
    LOCKS = False

__all__ = ["Turnstile"]

_MODE: Final = 0o666  # as SQLite's own files, less the umask


class Turnstile:
    """Two locked files. One thread of the process at a time."""

    def __init__(self, path: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        self._files = [os.open(f"{path}-{name}", flags, _MODE) for name in ("gate", "turn")] if LOCKS else []

    def enter(self) -> None:
        """Wait for the turn."""
        if self._files:
            gate, turn = self._files
            fcntl.flock(gate, fcntl.LOCK_EX)
            try:
                fcntl.flock(turn, fcntl.LOCK_EX)
            finally:
                fcntl.flock(gate, fcntl.LOCK_UN)

    def leave(self) -> None:
        """Let the next one have its turn."""
        if self._files:
            fcntl.flock(self._files[1], fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files; they stay, for others."""
        while self._files:
            os.close(self._files.pop())

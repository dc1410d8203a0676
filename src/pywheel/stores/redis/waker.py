"""What lets a thread that waits for a socket go on."""

from __future__ import annotations

import socket
from contextlib import suppress

__all__ = ["Waker"]


class Waker:
    """Two ends of a connection to itself: a byte in it is readable beside other sockets."""

    def __init__(self) -> None:
        self._in, self._out = socket.socketpair()
        self._in.setblocking(False)
        self._out.setblocking(False)

    def fileno(self) -> int:
        """Return the descriptor that is readable after `wake`."""
        return self._out.fileno()

    def wake(self) -> None:
        """Make it readable. From any thread, and from signal handlers."""
        with suppress(OSError):  # full, so readable; or closed
            self._in.send(b"\0")

    def drain(self) -> None:
        """Forget that somebody woke it."""
        with suppress(OSError):
            while len(self._out.recv(64)) == 64:
                pass

    def close(self) -> None:
        """Close both ends. Idempotent."""
        self._in.close()
        self._out.close()

    __del__ = close

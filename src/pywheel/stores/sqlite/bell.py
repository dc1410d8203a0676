"""Bells: a datagram socket for each worker. A ring carries nothing: what changed stands in the store.

A bell is named by the worker's slot. It has the mode and the owner of the database, as every file beside it, so that
all who may write there may ring. Where there are no such sockets, or none can be made, a worker looks every 20 ms.
"""

from __future__ import annotations

import os
import select
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from .presence_page import LOCKS

__all__ = ["Bell", "Ringer"]

_POLL: Final = 0.02  # seconds between looks without a socket
_LONGEST_ADDRESS: Final = 100  # bytes; the system's limit is 104 or 108
_DATAGRAMS: Final = LOCKS and hasattr(socket, "AF_UNIX") and sys.platform != "darwin"


class _Socket(socket.socket):
    """It is closed when the last one who uses it lets go: so no call of another thread meets a number given anew."""

    __slots__ = ()

    def __del__(self) -> None:
        self.close()


class Ringer:
    """What a process rings with. From any thread."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._addresses: dict[int, str] = {}
        self._folder: int | None = None
        self._socket: _Socket | None = None
        if _DATAGRAMS:
            with suppress(OSError):
                self._socket = _Socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)

    def ring(self, slot: int) -> None:
        """Ring, if that is possible: a bell that cannot be reached now is found by its worker a little later."""
        ringer = self._socket
        if ringer is not None:
            with suppress(OSError):  # it has not looked yet since the last ring, or it is gone, or just being made anew
                ringer.sendto(b"r", self.address(slot))

    def path(self, slot: int) -> str:
        """Return the name of a bell."""
        return f"{self._database}-bell-{slot}"

    def address(self, slot: int) -> str:
        """Return the same, so that it fits into an address, however deep the folder is."""
        address = self._addresses.get(slot)
        if address is None:
            address = self._addresses[slot] = self.short(self.path(slot))
        return address

    def short(self, path: str) -> str:
        """Return a name that fits into an address for any file beside the database. OSError if there is none."""
        if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
            return path
        if self._folder is None:
            self._folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)  # noqa: PTH120
        return f"/proc/self/fd/{self._folder}/{Path(path).name}"

    def close(self) -> None:
        """Ring no more."""
        self._socket = None
        self._addresses = {}
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


class Bell:
    """What a worker listens with: a socket for others, and a pair of them to wake itself."""

    def __init__(self, ringer: Ringer, database: str) -> None:
        self._ringer = ringer
        self._database = database
        self._path = ""
        self._identity = (0, 0)
        self._ear: _Socket | None = None
        ends = socket.socketpair()
        self._waker, self._woken = (_Socket(fileno=end.detach()) for end in ends)
        self._waker.setblocking(False)
        self._woken.setblocking(False)
        self._closed = False

    def bind(self, slot: int) -> None:
        """Hang the bell of a slot, instead of any that is there. Without a socket `wait` looks from time to time."""
        if not _DATAGRAMS or self._closed:
            return
        self._drop()
        path = self._ringer.path(slot)
        made = f"{path}.{os.getpid()}"
        try:
            ear = _Socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            ear.setblocking(False)
            with suppress(FileNotFoundError):
                os.unlink(made)  # noqa: PTH108
            ear.bind(self._ringer.short(made))
            try:
                _give(made, self._database)
                found = os.stat(made)  # noqa: PTH116
                os.rename(made, path)  # noqa: PTH104  (at once with its mode: nobody is refused meanwhile)
            except OSError:
                os.unlink(made)  # noqa: PTH108
                raise
        except OSError:
            return
        self._path, self._identity, self._ear = path, (found.st_dev, found.st_ino), ear
        self._drop_if_closed()  # meanwhile
        self.wake()  # a wait at the old one begins anew

    def hangs(self) -> bool:
        """Whether others find this bell by its name. One system call."""
        return not _DATAGRAMS or (self._ear is not None and _identity(self._path) == self._identity)

    def wait(self, seconds: float) -> None:
        """Return when rung or woken, or after so many seconds."""
        ear, woken = self._ear, self._woken
        listened = [woken] if ear is None else [ear, woken]
        if ear is None and seconds > _POLL:
            seconds = _POLL
        # select counts microseconds where poll rounds up to the next millisecond; it cannot see beyond 1023 files.
        if all(end.fileno() < 1024 for end in listened):
            ready: list[_Socket] = select.select(listened, (), (), max(seconds, 0))[0]
        else:
            poll = select.poll()
            for end in listened:
                poll.register(end, select.POLLIN)
            poll.poll(max(seconds, 0) * 1000)
            ready = listened
        for end in ready:
            with suppress(BlockingIOError):
                while end.recv(64):
                    pass

    def wake(self) -> None:
        """Let a wait return."""
        with suppress(OSError):  # full: it wakes anyhow
            self._waker.send(b"w")

    def close(self) -> None:
        """Take the bell down, and let a wait return. The sockets are closed when nobody uses them any more."""
        self._closed = True
        self._drop()
        with suppress(OSError):
            self._waker.shutdown(socket.SHUT_WR)  # the end of a stream is there for every wait, not for one

    def let_go(self) -> None:
        """Close the sockets in a forked child, and leave the name to the parent."""
        self._closed = True
        for end in (self._ear, self._waker, self._woken):
            if end is not None:
                end.close()

    def _drop_if_closed(self) -> None:
        if self._closed:
            self._drop()

    def _drop(self) -> None:
        if self._ear is not None:
            self._ear = None
            if _identity(self._path) == self._identity:  # else another worker has the slot
                with suppress(OSError):
                    os.unlink(self._path)  # noqa: PTH108


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


def _give(path: str, database: str) -> None:
    """Give a socket the mode and the owner of the database, as far as this user may."""
    theirs = os.stat(database)  # noqa: PTH116
    with suppress(PermissionError):
        os.chown(path, theirs.st_uid if os.geteuid() == 0 else -1, theirs.st_gid)
    os.chmod(path, stat.S_IMODE(theirs.st_mode) & 0o666)  # noqa: PTH101

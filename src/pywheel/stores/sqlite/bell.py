"""How processes on one file wake each other: a small shared page that says who wants to hear of what, and sockets.

The page holds the *horizon* of every listener: it cares about due times up to there. After a commit the writer reads it and
sends an empty datagram to those concerned. What changed stands in the store; a bell carries nothing, so none can be
lost that matters: a full queue means that the listener has not yet looked.
"""

from __future__ import annotations

import mmap
import os
import select
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..._errors import StoreError
from ..contract import Listener

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

__all__ = ["Bells"]

_SLOTS: Final = 64
_RELOAD: Final = 0  # word 0 of the page counts the times when hints alone do not tell all
_FIRST: Final = 1
_NOBODY: Final = -1
_POLL: Final = 0.02  # seconds between looks where there are no Unix datagrams
_LONGEST_ADDRESS: Final = 100  # bytes; the system's limit is 104 or 108

DATAGRAMS: Final = fcntl is not None and hasattr(socket, "AF_UNIX")


class Bells:
    """The page of one store's file, and a socket to ring from."""

    def __init__(self, path: str) -> None:
        self._path = path
        name = Path(f"{path}-window")
        self._file = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        size = 8 * (_FIRST + _SLOTS)
        if os.fstat(self._file).st_size < size:
            self._lock()
            if os.fstat(self._file).st_size < size:
                os.write(self._file, bytes(8) + b"\xff" * 8 * _SLOTS)
            self._unlock()
        self._map = mmap.mmap(self._file, size)
        self._page = memoryview(self._map).cast("q")
        self._folder = -1
        self._socket: socket.socket | None = None
        if DATAGRAMS:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    def horizon(self) -> int:
        """Return the furthest horizon of all listeners, -1 without any."""
        return max(self._page[_FIRST:])

    @property
    def reloads(self) -> int:
        """How often hints alone did not tell all."""
        return self._page[_RELOAD]

    def reload(self) -> None:
        """Say that hints alone do not tell all. Two at once may count as one: the number differs all the same."""
        self._page[_RELOAD] += 1

    def ring(self, due: int) -> None:
        """Wake everybody whose horizon is at or after `due`."""
        if self._socket is None:
            return
        for slot, horizon in enumerate(self._page[_FIRST:]):
            if horizon >= due:
                try:
                    self._socket.sendto(b"", self._address(slot))
                except BlockingIOError:
                    pass  # it has not looked yet since the last one
                except (ConnectionRefusedError, FileNotFoundError):
                    self._page[_FIRST + slot] = _NOBODY

    def knock(self, slot: int) -> None:
        """Wake one listener."""
        if self._socket is not None:
            self._socket.sendto(b"", self._address(slot))

    def alive(self, slot: int) -> bool:
        """Whether somebody listens at a slot; True if that cannot be known."""
        if self._socket is None:
            return True
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(self._address(slot))
            except (ConnectionRefusedError, FileNotFoundError):
                return False
            return True

    def listen(self, name: str) -> BellListener:
        """Take a free slot. StoreError if there is none."""
        self._lock()
        try:
            for slot in range(_SLOTS):
                if not DATAGRAMS and self._page[_FIRST + slot] != _NOBODY:
                    continue
                if DATAGRAMS and self.alive(slot):
                    continue
                self._page[_FIRST + slot] = _NOBODY
                return BellListener(self, slot, name, self._bind(slot))
        finally:
            self._unlock()
        raise StoreError(f"{_SLOTS} workers listen to this store already: stop one first")

    def publish(self, slot: int, horizon: int) -> None:
        """Set a listener's horizon."""
        self._page[_FIRST + slot] = horizon

    def forget(self, slot: int) -> None:
        """Free a slot."""
        self._page[_FIRST + slot] = _NOBODY
        with suppress(FileNotFoundError):
            Path(f"{self._path}-bell-{slot}").unlink()

    def close(self) -> None:
        """Close the page and the socket."""
        self._page.release()
        self._map.close()
        if self._socket is not None:
            self._socket.close()
        for file in (self._file, self._folder):
            if file >= 0:
                os.close(file)
        self._folder = -1

    def _bind(self, slot: int) -> socket.socket | None:
        if not DATAGRAMS:
            return None
        with suppress(FileNotFoundError):
            Path(f"{self._path}-bell-{slot}").unlink()
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        ear.bind(self._address(slot))
        ear.setblocking(False)
        return ear

    def _address(self, slot: int) -> str:
        """Return a path that fits into an address, however deep the folder is."""
        address = f"{self._path}-bell-{slot}"
        if len(os.fsencode(address)) <= _LONGEST_ADDRESS:
            return address
        if self._folder < 0:
            self._folder = os.open(Path(self._path).parent, os.O_RDONLY | os.O_CLOEXEC)
        return f"/proc/self/fd/{self._folder}/{Path(address).name}"

    def _lock(self) -> None:
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def _unlock(self) -> None:
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class BellListener(Listener):
    """The ear of one worker: a bound socket for other processes and threads alike."""

    def __init__(self, bells: Bells, slot: int, name: str, ear: socket.socket | None) -> None:
        self.worker = f"{name}@{slot}"
        self._bells = bells
        self._slot = slot
        self._ear = ear
        self._event = threading.Event()  # where there are no datagrams
        self._closed = False

    def publish(self, horizon: int) -> None:
        self._bells.publish(self._slot, horizon)

    def wait(self, seconds: float) -> None:
        if self._ear is None:
            self._event.wait(min(seconds, _POLL))
            self._event.clear()
            return
        # select counts microseconds where poll rounds up to the next millisecond; it cannot see beyond 1023 files.
        if self._ear.fileno() < 1024:
            select.select([self._ear], [], [], max(seconds, 0))
        else:
            poll = select.poll()
            poll.register(self._ear, select.POLLIN)
            poll.poll(max(seconds, 0) * 1000)
        with suppress(BlockingIOError):
            while True:
                self._ear.recv(1)

    def wake(self) -> None:
        if self._ear is None:
            self._event.set()
        elif not self._closed:
            with suppress(OSError):  # full: it wakes anyhow
                self._bells.knock(self._slot)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._bells.forget(self._slot)
            if self._ear is not None:
                self._ear.close()

"""How processes on one file wake each other: a small shared page that says who wants to hear of what, and sockets.

The page holds the *horizon* of every listener: it cares about due times up to there. After a commit the writer reads
it and sends a datagram to those concerned. What changed stands in the store; a bell carries nothing, so none can be
lost that matters: a full queue means that the listener has not yet looked.
"""

from __future__ import annotations

import mmap
import os
import select
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..._errors import StoreClosed, StoreError
from ..contract import Listener
from .write_lock import LOCKS

if LOCKS:
    import fcntl

__all__ = ["SqliteNotifier"]

_SLOTS: Final = 64
_RELOAD: Final = 0  # word 0 of the page counts the times when hints alone do not tell all
_USED: Final = 1  # word 1: slots from here on were never used
_FIRST: Final = 2  # then the horizons, then the heartbeats
_NOBODY: Final = -1
_POLL: Final = 0.02  # seconds between looks where there are no Unix datagrams
_LOOK: Final = 1.0  # seconds between looks at who else is there, a socket each
_STOPPED: Final = 15_000  # ms without a heartbeat after which a worker counts as gone
_CLOSING: Final = 5.0  # seconds that closing waits for who listens
_LONGEST_ADDRESS: Final = 100  # bytes; the system's limit is 104 or 108
_RING: Final = b"r"  # somebody else changed something
_KNOCK: Final = b"k"  # the worker wakes itself

DATAGRAMS: Final = LOCKS and hasattr(socket, "AF_UNIX")


class SqliteNotifier:
    """The page of one store's file, and a socket to ring from."""

    def __init__(self, path: str) -> None:
        self._path = path
        name = Path(f"{path}-window")
        self._file = os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        size = 8 * (_FIRST + 2 * _SLOTS)
        if os.fstat(self._file).st_size < size:
            self._lock()
            if os.fstat(self._file).st_size < size:
                os.write(self._file, bytes(8 * _FIRST) + b"\xff" * 16 * _SLOTS)
            self._unlock()
        self._map = mmap.mmap(self._file, size)
        self._page = memoryview(self._map).cast("q")
        self._listeners: list[SqliteListener] = []
        self._folder = -1
        self._socket: socket.socket | None = None
        if DATAGRAMS:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)

    def horizon(self) -> int:
        """Return the furthest horizon of all listeners, -1 without any."""
        page = self._page
        used = page[_USED]
        if used < 2:
            return page[_FIRST] if used else _NOBODY  # no slice: on the way of every put
        return max(page[_FIRST : _FIRST + used])

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
        for slot, horizon in enumerate(self._page[_FIRST : _FIRST + self._page[_USED]]):
            if horizon >= due:
                try:
                    self._socket.sendto(_RING, self._address(slot))
                except BlockingIOError:
                    pass  # it has not looked yet since the last one
                except (ConnectionRefusedError, FileNotFoundError):
                    self._page[_FIRST + slot] = _NOBODY

    def knock(self, slot: int) -> None:
        """Wake one listener."""
        if self._socket is not None:
            self._socket.sendto(_KNOCK, self._address(slot))

    def beat(self, slot: int) -> None:
        """Note that a listener runs: all processes of a host share the monotonic clock."""
        self._page[_FIRST + _SLOTS + slot] = time.monotonic_ns() // 1_000_000

    def running(self) -> frozenset[int]:
        """Return the slots whose listeners run."""
        return frozenset(slot for slot in range(self._page[_USED]) if self.runs(slot))

    def runs(self, slot: int) -> bool:
        """Whether a listener runs: it listens, and its last heartbeat is recent. A stopped process does not run."""
        age = time.monotonic_ns() // 1_000_000 - self._page[_FIRST + _SLOTS + slot]
        return 0 <= age < _STOPPED and self.alive(slot)

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

    def listen(self, name: str) -> SqliteListener:
        """Take a free slot. StoreError if there is none."""
        self._lock()
        try:
            for slot in range(_SLOTS):
                if not DATAGRAMS and self._page[_FIRST + slot] != _NOBODY:
                    continue
                if DATAGRAMS and self.alive(slot):
                    continue
                self._page[_FIRST + slot] = _NOBODY
                self.beat(slot)
                self._page[_USED] = max(self._page[_USED], slot + 1)
                listener = SqliteListener(self, slot, name, self._bind(slot))
                self._listeners.append(listener)
                return listener
        finally:
            self._unlock()
        raise StoreError(f"{_SLOTS} workers listen to this store already: stop one first")

    def publish(self, slot: int, horizon: int) -> None:
        """Set a listener's horizon."""
        self._page[_FIRST + slot] = horizon

    def forget(self, slot: int) -> None:
        """Free a slot."""
        self._page[_FIRST + slot] = _NOBODY
        with suppress(OSError):  # it is gone already, or the folder cannot be written any more
            Path(f"{self._path}-bell-{slot}").unlink()

    def close(self) -> None:
        """Close the page, the socket and the listeners."""
        for listener in self._listeners:
            listener.close()
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
        if LOCKS:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def _unlock(self) -> None:
        if LOCKS:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class SqliteListener(Listener):
    """The ear of one worker: a bound socket for other processes and threads alike."""

    def __init__(self, bells: SqliteNotifier, slot: int, name: str, ear: socket.socket | None) -> None:
        self.worker = f"{name}@{slot}"
        self._notifier = bells
        self._slot = slot
        self._ear = ear
        self._event = threading.Event()  # where there are no datagrams
        self._closed = False
        self._waits = threading.RLock()  # held while it waits; RLocks may be had by signal handlers too
        self._peers = bells.running()
        self._looked = time.monotonic()

    def stirred(self) -> bool:
        self._open()
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return False
        self._looked = now
        self._notifier.beat(self._slot)
        before, self._peers = self._peers, self._notifier.running()
        return before != self._peers

    def publish(self, horizon: int) -> None:
        self._open()
        self._notifier.publish(self._slot, horizon)

    def wait(self, seconds: float) -> bool:
        with self._waits:
            if not self._closed:
                return self._wait(seconds)
        time.sleep(min(max(seconds, 0), _POLL))  # whoever waits in a loop learns from the store that it is closed
        return False

    def _open(self) -> None:
        if self._closed:
            raise StoreClosed("this listener, or its store, is closed: open another one")

    def _wait(self, seconds: float) -> bool:
        if self._ear is None:
            self._event.wait(min(seconds, _POLL))
            self._event.clear()
            return True
        # select counts microseconds where poll rounds up to the next millisecond; it cannot see beyond 1023 files.
        if self._ear.fileno() < 1024:
            select.select([self._ear], [], [], max(seconds, 0))
        else:
            poll = select.poll()
            poll.register(self._ear, select.POLLIN)
            poll.poll(max(seconds, 0) * 1000)
        rung = False
        with suppress(BlockingIOError):
            while True:
                rung |= self._ear.recv(1) == _RING
        return rung

    def wake(self) -> None:
        if self._ear is None:
            self._event.set()
        elif not self._closed:
            with suppress(OSError):  # full: it wakes anyhow
                self._notifier.knock(self._slot)

    def close(self) -> None:
        if not self._closed:
            self.wake()
            self._closed = True
            # Never close the socket under a thread that waits on it: its number may soon be another file's.
            if self._waits.acquire(timeout=_CLOSING):
                if self._ear is not None:
                    self._ear.close()
                self._waits.release()
            self._notifier.forget(self._slot)

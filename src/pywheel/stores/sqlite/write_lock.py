"""A fair turn for everybody who writes to one file: threads, stores of one process, processes.

SQLite's own wait is a poll: beside a busy writer another one may starve for seconds. Here who finds the *turn* taken
enters the *gate*, and holds it while it waits. Whoever had the turn last sees that somebody waits, must pass the gate
too, and so comes after the one who waits in it.

Between processes both are record locks on ``<database>-lock``. The system frees those of a process that dies, a fork
does not inherit them, and only who may write the file can take them (`side_files`). Whoever releases one wakes those
that wait through the file's page; that is a hint only, as each looks for itself every 20 ms.

A process loses its record locks on a file when it closes any descriptor of it. So there is one WriteLock, with one
descriptor, for each file and process; `shared` finds it. Threads exclude each other by locks that know their owner.
"""

from __future__ import annotations

import errno
import mmap
import os
import random
import struct
import sys
import threading
import time
from collections.abc import Callable
from ctypes import addressof, c_char
from typing import Any, Final, TypeVar

from ..._errors import StoreBusy
from ..interrupts import Interruptible
from . import futex
from .side_files import open_beside

try:
    import fcntl

    LOCKS = True
except ImportError:  # no record locks on this system: SQLite's own wait has to do
    LOCKS = False

__all__ = ["LOCKS", "WriteLock"]

_R = TypeVar("_R")

_SIZE: Final = 64  # bytes of the page, in words of 8
_TURNS, _GATES, _WAITED_FOR, _CROWDED, _OWNER = range(5)
# counts of releases; whether somebody waits in the gate, and before it; who had the turn last
_TURN: Final = 4096  # the bytes that are locked; they need not exist
_GATE: Final = 4097
_LOOK: Final = 0.02  # seconds between looks at a lock that another process holds
_PATIENCE: Final = 0.05  # seconds in front of the gate before a free turn is taken all the same
_IMPATIENT: Final = 1.0  # seconds without passing the gate, once who waits in it was found asleep

_FLOCK: Final = "hhqqi4x"  # of 64-bit Linux: type, whence, start, length, process

_shared: Final[dict[tuple[int, int], WriteLock]] = {}
_mutex = threading.RLock()


class WriteLock(Interruptible):
    """The turn of one file, within this process and among all. `shared` gives it; who got it closes it."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._users = 0
        self._file = open_beside(database, "lock", _SIZE) if LOCKS else -1
        self._spare: list[WriteLock] = []  # with descriptors of the same file, which must not be closed earlier
        if LOCKS:
            self._map = mmap.mmap(self._file, _SIZE)
            self._page = memoryview(self._map).cast("Q")
            self._anchor = c_char.from_buffer(self._map)
            self._base = addressof(self._anchor)
        else:
            self._page = memoryview(bytearray(_SIZE)).cast("Q")
        self.renew()

    def renew(self) -> None:
        """Begin with free locks and a new name, in a forked child: the record locks are the parent's."""
        self._inner = threading.RLock()  # the turn among the threads of this process
        self._door = threading.RLock()  # and their gate
        self._queued = False  # some thread waits in the door
        self._in_gate = False
        self._hurried_until = 0.0
        self._me = random.SystemRandom().randrange(1, 2**63)
        self.visits = 0
        """How often the turn came back to this process after another one had it."""

    @staticmethod
    def shared(database: str) -> WriteLock:
        """Return this process's lock of a database, opened if need be. StoreReadOnly, StoreFull, StoreError."""
        with _mutex:
            lock = _shared.get(_identity(f"{database}-lock"))
            if lock is None:
                lock = WriteLock(database)
                lock = _shared.setdefault(lock._adopt(), lock)
            lock._users += 1
            return lock

    def _adopt(self) -> tuple[int, int]:
        """Return the identity of the file; if it came between two looks, the one who has it keeps our descriptor."""
        found = os.fstat(self._file) if LOCKS else None
        identity = (found.st_dev, found.st_ino) if found else (id(self), 0)
        other = _shared.get(identity)
        if other is not None:
            other._spare.append(self)
        return identity

    def close(self) -> None:
        """Let go of it: the last user closes the file, which stays for others."""
        with _mutex:
            self._users -= 1
            if self._users:
                return
            for identity in [key for key, lock in _shared.items() if lock is self]:
                del _shared[identity]
            for lock in [self, *self._spare]:
                lock._shut()

    def _shut(self) -> None:
        self._page.release()
        if LOCKS:
            del self._anchor
            self._map.close()
            os.close(self._file)

    def in_place(self) -> bool:
        """Whether other processes find the same file by its name."""
        if not LOCKS:
            return True
        ours = os.fstat(self._file)
        return _identity(f"{self._database}-lock") == (ours.st_dev, ours.st_ino)

    # ---- the turn -------------------------------------------------------------------------------------------------

    def run(self, until: float, action: Callable[..., _R], *args: Any) -> _R:
        """Return what `action` does, in a turn that came before the monotonic time `until`. StoreBusy if none did.

        Also if this thread has the turn already, and a signal handler asks for another one.
        """
        self.entry = object()
        if self._inner._is_owned():  # type: ignore[attr-defined]
            self._refuse_within_itself()
        # Twice: a signal handler that raises may end the first `leave` at any point, even before its first step.
        try:
            try:
                self._enter(until)
                return action(*args)
            finally:
                self.leave()
        finally:
            if self._inner._is_owned() or self._door._is_owned():  # type: ignore[attr-defined]
                self.leave()

    holders = (run,)

    def _refuse_within_itself(self) -> None:
        """Raise StoreBusy if this thread has the turn. If it was interrupted in giving it back, give it back."""
        if self.entered_again():
            raise StoreBusy(f"{self._database}: this thread is writing already: a signal handler cannot write too")
        self.leave()

    def leave(self) -> None:
        """Let the next one have its turn. Does nothing without it; may be interrupted, and called again."""
        inner, door = self._inner, self._door
        if inner._is_owned():  # type: ignore[attr-defined]
            if self._in_gate:
                self._leave_gate()
            if LOCKS:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _TURN)
                if self._page[_WAITED_FOR]:
                    self._announce(_TURNS)
        while door._is_owned():  # type: ignore[attr-defined]
            door.release()
        while inner._is_owned():  # type: ignore[attr-defined]
            inner.release()

    def _enter(self, until: float) -> None:
        """Wait for the turn."""
        inner = self._inner
        if self._queued or not inner.acquire(blocking=False) or inner is not self._inner:
            self._queue(until)
        if not LOCKS:
            return
        page = self._page
        if page[_WAITED_FOR] or not self._try(_TURN):
            self._wait(until)
        if page[_OWNER] != self._me:
            page[_OWNER] = self._me
            self.visits += 1

    def _queue(self, until: float) -> None:
        """Wait for the threads of this process, through their gate."""
        try:
            self._obtain("_door", until)
            self._queued = True
            self._obtain("_inner", until)
        finally:
            self._queued = False  # who waits at the door says so again
            while self._door._is_owned():  # type: ignore[attr-defined]
                self._door.release()

    def _obtain(self, name: str, until: float) -> None:
        """Take one of the two locks."""
        while True:
            lock = getattr(self, name)
            if lock.acquire(timeout=min(_LOOK, _left(until))):
                if lock is getattr(self, name):
                    return
                lock.release()
            elif self.take_over(name):
                return
            elif time.monotonic() >= until:
                raise self._busy("another thread of this process")

    def _wait(self, until: float) -> None:
        """Wait for other processes, in the gate."""
        page = self._page
        try:
            if self._pass_gate(until):
                return
            page[_WAITED_FOR] = 1
            while not self._look(_TURN, _TURNS, until):
                if time.monotonic() >= until:
                    raise self._busy(_name_of(self._file))
        finally:
            page[_WAITED_FOR] = 0
            self._leave_gate()

    def _pass_gate(self, until: float) -> bool:
        """Wait for the gate. True if the turn was had instead: who is in the gate sleeps while the turn is free."""
        now = time.monotonic()
        if now < self._hurried_until:
            return self._try(_TURN)
        self._in_gate = True
        patient_until = now + _PATIENCE
        self._page[_CROWDED] = 1
        while not self._look(_GATE, _GATES, until):
            self._page[_CROWDED] = 1
            now = time.monotonic()
            if now >= patient_until and self._try(_TURN):
                self._hurried_until = now + _IMPATIENT
                return True
            if now >= until:
                raise self._busy(_name_of(self._file))
        return False

    def _leave_gate(self) -> None:
        if self._in_gate:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _GATE)
            if self._page[_CROWDED]:
                self._page[_CROWDED] = 0
                self._announce(_GATES)
            self._in_gate = False

    def _look(self, byte: int, word: int, until: float) -> bool:
        """Take a record lock, or wait a little until it may be free."""
        seen = self._page[word]  # before trying: what is announced after that ends the wait
        if self._try(byte):
            return True
        futex.wait(self._base + 8 * word, seen & 0xFFFF_FFFF, min(_LOOK, _left(until)))
        return False

    def _try(self, byte: int) -> bool:
        """Take a record lock if no other process has it."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):  # POSIX allows both
                return False
            raise
        return True

    def _announce(self, word: int) -> None:
        """Wake those that wait for a lock which was just released."""
        self._page[word] = (self._page[word] + 1) & 0xFFFF_FFFF
        futex.wake(self._base + 8 * word)

    def _busy(self, whom: str) -> StoreBusy:
        return StoreBusy(f"{self._database}: {whom} kept the turn to write for too long: try again")


def _left(until: float) -> float:
    return max(until - time.monotonic(), 0)


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino


def _name_of(file: int) -> str:
    """Return who has the turn, as far as the system tells."""
    if sys.platform == "linux" and struct.calcsize("P") == 8:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, _TURN, 1, 0)
        kind, *_, process = struct.unpack(_FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
        if kind != fcntl.F_UNLCK and process > 0:
            return f"process {process}"
    return "another process"


def _after_fork() -> None:
    global _mutex
    _mutex = threading.RLock()
    for lock in _shared.values():
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

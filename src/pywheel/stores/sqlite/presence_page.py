"""The page that all processes on one file share: who works here, and how far each looks ahead.

A file of 64-bit words beside the database, mapped by everybody. A word is written at once: a reader sees the old value
or the new one. Between a write here and a read of the database, or the other way round, lie system calls and locks, and
they keep that order on every processor.

Nothing here outlasts its workers. If the file is deleted, whoever finds that its name leads to another file, or to
none, maps the file of that name, made anew if need be, and *retires* the page it has before it uses the new one. All
who still share the old page see the mark with their next look at it, without a system call, and follow. Whoever follows
has everybody read again: what was put with the old page was told to its workers only.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..._errors import StoreBusy, StoreTooNew
from .. import notifier
from .side_files import open_beside

try:
    import fcntl

    LOCKS = True
except ImportError:  # no locks of files on this system: two workers that start at one moment may take one slot
    LOCKS = False

__all__ = [
    "BEHIND",
    "GONE",
    "HEARTBEAT",
    "HORIZON",
    "LEASE",
    "LEASED",
    "LOCKS",
    "NONCE",
    "NO_LEASE",
    "QUIET",
    "RELOAD",
    "RETIRED",
    "RUNG",
    "SILENT",
    "SLOTS",
    "UNKNOWN",
    "USED",
    "VERSION",
    "Page",
]

SLOTS: Final = 512
SILENT: Final = round(notifier.SILENT * 1_000)  # ms without a heartbeat
GONE: Final = 60_000  # ms without a heartbeat after which a slot may be given to another worker
NO_LEASE: Final = 2**63 - 1
UNKNOWN: Final = 0  # as a new page has it

# Single words.
_FORMAT: Final = 0
RETIRED: Final = 1  # this is no longer the file of its name
_BORN: Final = 2  # when the file was made, in ms of the monotonic clock
VERSION: Final = 3  # another number after each change of who is there
LEASE: Final = 4  # no lease is over before; or NO_LEASE, or UNKNOWN. Raised only under the database's lock
LEASED: Final = 5  # counts what lowered it, or would have
USED: Final = 6  # slots from here on were never used

# Columns: the word of slot n is at the column's name + n.
_HEAD: Final = 8
NONCE: Final = _HEAD  # whose slot it is; 0 is free
HEARTBEAT: Final = NONCE + SLOTS  # ms of the monotonic clock, which all processes of a host share
HORIZON: Final = HEARTBEAT + SLOTS  # it wants to hear of due times up to there
BEHIND: Final = HORIZON + SLOTS
QUIET: Final = BEHIND + SLOTS  # nothing that was paused before this hint starts there any more
RELOAD: Final = QUIET + SLOTS  # another number when hints do not tell it all
RUNG: Final = RELOAD + SLOTS  # 1 from a ring to the next wait
_PROCESS: Final = RUNG + SLOTS
_SPACE: Final = _PROCESS + SLOTS  # in which name space that is its process
_SIZE: Final = 8 * (_SPACE + SLOTS)

_OPEN_FILE_LOCKS: Final = (
    sys.platform == "linux" and struct.calcsize("P") == 8 and LOCKS and hasattr(fcntl, "F_OFD_SETLK")
)
_FLOCK: Final = "hhqqi4x"  # of 64-bit Linux: type, whence, start, length, process

_THIS_FORMAT: Final = 1
_SETTLED: Final = 5_000  # ms: by then all have come over to a new page
_PATIENCE: Final = 5.0  # seconds to wait for others who take a slot; they take microseconds


class _Descriptor:
    """A file that is closed when the last one who uses it lets go."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class Page:
    """The words, and the file that they are in. `words` may be used as long as somebody refers to them."""

    def __init__(self, database: str, now: int) -> None:
        self._path = f"{database}-workers"
        self._file = _Descriptor(open_beside(database, "workers", 0))
        number = self._file.number
        with self.locked():
            # Measured and written under the lock: nobody has written there yet. Not skipped: there is room for it.
            missing = _SIZE - os.fstat(number).st_size
            if missing > 0:
                os.pwrite(number, bytes(missing), _SIZE - missing)
            self.words = memoryview(mmap.mmap(number, _SIZE)).cast("q")
            if self.words[_FORMAT] == 0:
                self.words[_BORN] = now
                self.words[_FORMAT] = _THIS_FORMAT
        if self.words[_FORMAT] != _THIS_FORMAT:
            raise StoreTooNew(f"{self._path} is of another version of pywheel: stop its workers, then delete it")
        found = os.fstat(number)
        self._identity = found.st_dev, found.st_ino
        self._space = _name_space()

    def current(self) -> bool:
        """Whether this is the file of its name. One system call."""
        try:
            found = os.stat(self._path)  # noqa: PTH116  (no Path: it is made four times a second)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Exclude all others on this file, in this process too. StoreBusy if that takes long."""
        if not LOCKS:
            yield
            return
        until = time.monotonic() + _PATIENCE
        try:
            while True:
                try:
                    _lock(self._file.number)
                    break
                except OSError as error:
                    if error.errno not in (errno.EAGAIN, errno.EACCES):  # POSIX allows both
                        raise
                    if time.monotonic() > until:
                        raise StoreBusy(f"{self._path}: another process keeps it locked: try again") from None
                time.sleep(0.001)
            yield
        finally:
            _unlock(self._file.number)

    # ---- slots ------------------------------------------------------------------------------------------------------

    def take(self, nonce: int, wanted: int, now: int) -> int | None:
        """Give a worker a slot, `wanted` if that is free; None if all are taken. Its horizon is -1.

        A slot is free if it was never taken, was freed, or if its worker is gone.
        """
        words = self.words
        with self.locked():
            used: int = min(words[USED], SLOTS)
            for slot in (wanted, *range(used + 1)):
                if 0 <= slot < SLOTS and (words[NONCE + slot] == 0 or self.gone(slot, now)):
                    break
            else:
                return None
            words[NONCE + slot] = 0
            words[HORIZON + slot] = -1
            words[BEHIND + slot] = words[QUIET + slot] = words[RUNG + slot] = 0
            words[_PROCESS + slot] = os.getpid()
            words[_SPACE + slot] = self._space
            words[HEARTBEAT + slot] = now
            words[USED] = max(used, slot + 1)
            words[NONCE + slot] = nonce
            return int(slot)

    def gone(self, slot: int, now: int) -> bool:
        """Whether the worker of a slot has been silent for very long, or its process is known to have ended.

        A heartbeat that is to come was left by a worker from before the host's last start.
        """
        return abs(now - self.words[HEARTBEAT + slot]) > GONE or self._dead(slot)

    def absent(self, now: int) -> bool:
        """Whether a worker without a slot is gone: in a new page it may not have taken one again yet."""
        return not 0 <= now - self.words[_BORN] < _SETTLED

    def find(self, nonce: int, likely: int) -> int:
        """Return the slot of a worker, -1 if it has none. O(1) if it is the likely one."""
        words = self.words
        if 0 <= likely < SLOTS and words[NONCE + likely] == nonce:
            return likely
        try:
            return words[NONCE : NONCE + words[USED]].tolist().index(nonce)
        except ValueError:
            return -1

    def taken(self) -> list[int]:
        """Return the slots that have a worker."""
        nonces = self.words[NONCE : NONCE + self.words[USED]].tolist()
        return [slot for slot, nonce in enumerate(nonces) if nonce]

    def _dead(self, slot: int) -> bool:
        """Whether the process of a slot is known to have ended: its number says nothing in another name space."""
        process = self.words[_PROCESS + slot]
        if not LOCKS or process <= 0 or self._space < 0 or self.words[_SPACE + slot] != self._space:
            return False
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        except OSError:
            pass
        return False


class NoPage(Page):
    """What stands for the page once the store is closed, or in a forked child: what is written here reaches nobody."""

    def __init__(self) -> None:
        self.words = memoryview(bytearray(_SIZE)).cast("q")
        self._space = -1

    def current(self) -> bool:
        """It needs no other."""
        return True

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else is there."""
        yield


def _lock(file: int) -> None:
    """Lock a file unless another one has it locked: then OSError.

    With a record lock of the open file, where the system has them: who may only read the file cannot take that, and it
    excludes the other stores of this process as well.
    """
    if _OPEN_FILE_LOCKS:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    else:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unlock(file: int) -> None:
    if _OPEN_FILE_LOCKS:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, 0, 1, 0))
    else:
        fcntl.flock(file, fcntl.LOCK_UN)


def _name_space() -> int:
    """Return what tells the name spaces of processes apart; -1 if that cannot be known."""
    if sys.platform != "linux":
        return 0
    try:
        return os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    except OSError:
        return -1

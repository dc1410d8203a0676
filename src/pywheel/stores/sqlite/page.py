"""The page that all processes on one file share: the present workers, their hints, and the turn to write.

A file of 64-bit words beside the database, mapped by every process. A word is written at once: a reader sees the old
value or the new one. System calls and locks lie between a write here and a read of the database, or the other way
round. They keep that order on every processor.

Nothing here outlasts its workers. The file may be deleted. A process that finds another file, or none, under its name
maps the file of that name, made anew if need be, and *retires* its old page before it uses the new one. All processes
that still share the old page see the mark with their next look at it, without a system call, and follow. A process that
follows has everybody read again: puts on the old page were announced to its workers only.

The *turn* is a lock of the file. SQLite's own wait for writers is a poll: beside a busy writer another one may starve
for seconds. The turn makes writers follow each other in the order of their coming. It is advice: SQLite's lock decides.
So nobody waits long for a holder of the turn that does not go on, such as a stopped process. The system frees the turn
of a process that dies.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from ..._errors import StoreBusy, StoreError, StoreTooNew
from .. import notifier
from .side_files import open_beside

try:
    import fcntl

    LOCKS = True
except ImportError:  # no locks of files on this system: two workers that start at one moment may take one slot
    LOCKS = False

SLOTS: Final = 512
SILENT: Final = round(notifier.SILENT * 1_000)  # ms without a heartbeat
GONE: Final = 10_000  # ms without a heartbeat after which a slot may be given to another worker
NO_LEASE: Final = 2**63 - 1
UNKNOWN: Final = 0  # as a new page has it
ALL: Final = -1  # the slot of hints for everybody

# Single words.
_FORMAT: Final = 0
RETIRED: Final = 1  # this is no longer the file of its name
_BORN: Final = 2  # when the file was made, in ms of the monotonic clock
VERSION: Final = 3  # another number each time a worker comes or goes
LEASE: Final = 4  # no lease ends before; or NO_LEASE, or UNKNOWN. Written while SQLite lets nobody else commit
USED: Final = 5  # slots from here on were never used
TOLD: Final = 6  # the number of the next hint; the first is the time of birth, so that no number comes twice
PAUSED: Final = 7  # TOLD as it was when a topic was last paused or resumed
UNTOLD: Final = 8  # not 0 from before a commit in the turn until it was announced
WITHIN: Final = 9  # the same for a commit out of turn, such as of a caller's own transaction
_OWNER: Final = 10  # the last user that had the turn
_TURNS: Final = 11  # counts releases of the turn
_WAITED_FOR: Final = 12  # whether somebody waits for the turn

# Columns: the word of slot n is at the column's name + n.
NONCE: Final = 16  # the worker of the slot; 0 is free
HEARTBEAT: Final = NONCE + SLOTS  # ms of the monotonic clock, which all processes of a host share
HORIZON: Final = HEARTBEAT + SLOTS  # the worker wants to hear of due times up to here
BEHIND: Final = HORIZON + SLOTS
QUIET: Final = BEHIND + SLOTS  # nothing that was paused before this hint starts there any more
RELOAD: Final = QUIET + SLOTS  # another number when hints are not complete
RUNG: Final = RELOAD + SLOTS  # 1 from a ring to the next wait
BELL: Final = RUNG + SLOTS  # another number wakes its worker
_HINT_SLOT: Final = BELL + SLOTS  # the slots of hints, each at the hint's number modulo _HINTS
_HINTS: Final = 2_048
_HINT_JOB: Final = _HINT_SLOT + _HINTS  # the jobs of hints
_HINTS_AT_ONCE: Final = 256
_SIZE: Final = 8 * (_HINT_JOB + _HINTS)

_OPEN_FILE_LOCKS: Final = (
    sys.platform == "linux" and struct.calcsize("P") == 8 and LOCKS and hasattr(fcntl, "F_OFD_SETLK")
)
_FLOCK: Final = "hhqqi4x"  # of 64-bit Linux: type, whence, start, length, process
_TURN, _TAKING = range(2)  # the bytes that are locked

_THIS_FORMAT: Final = 3
_SETTLED: Final = 5_000  # ms: by then all have come over to a new page
_PATIENCE: Final = 5.0  # seconds to wait for others who take a slot; they take microseconds
_LOOK: Final = 0.02  # seconds between looks at a turn that another holds, and at a bell without a futex
_YIELD: Final = 0.02  # seconds to let the waiter that was woken take the turn first
_STALLED: Final = 0.1, 3.0  # seconds at least and at most after which nobody waits for a holder that does not go on
_TURNS_LONG: Final = 5  # times the length of the last turns, after which a holder does not go on

_random: Final = Random()
draw: Final = _random.getrandbits
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


class Page:
    """The words, and their file. `words` may be used as long as somebody refers to them."""

    _size: Callable[[], int]

    def __init__(self, database: str | None, now: Callable[[], int]) -> None:
        """Open the page of a database. None: a page of this process alone, without a file."""
        self._path = f"{database}-workers"
        self._now = now
        self._file = -1
        if database is None:
            self._map(mmap.mmap(-1, _SIZE))
            self._size = lambda: _SIZE
            self.words[_BORN] -= GONE
        else:
            self._file = open_beside(database)
            self._open()
        self._me = draw(31) + 1
        self._yields = False  # a waiter was woken to take the turn next
        self._stalled: tuple[int, int] | None = None  # the turn of a holder that does not go on
        self._began = 0.0  # when this page's user got the turn
        self._stalled_at = 0.0  # when that turn was first seen
        self._took = deque([0.0] * 3, 3)  # seconds of the last turns that were seen, its own as well
        self.held = False
        """Whether this page's user has the turn."""
        self.alone = False
        """Whether nobody else had the turn since this page's user had it last."""

    def _open(self) -> None:
        """Map the file. A file that is too short is new, or was truncated: it begins with zeros."""
        self._take_lock(_TAKING)
        try:
            if os.fstat(self._file).st_size < _SIZE:
                os.pwrite(self._file, bytes(_SIZE), 0)  # zeros, not a gap: a full disk is seen now
            self._map(mmap.mmap(self._file, _SIZE))
        finally:
            self._unlock(_TAKING)
        if self.words[_FORMAT] != _THIS_FORMAT:
            raise StoreTooNew(f"{self._path} is of another version of pywheel: stop its workers, then delete it")
        found = os.fstat(self._file)
        self._identity = found.st_dev, found.st_ino

    def _map(self, memory: mmap.mmap) -> None:
        self._size = memory.size
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        words = self.words = memoryview(memory).cast("q")
        if words[_FORMAT] == 0:
            words[_BORN] = now = self._now()
            words[TOLD] = words[PAUSED] = now * 1_000
            words[_FORMAT] = _THIS_FORMAT

    def whole(self) -> None:
        """Make the file whole if it was truncated: a read behind its end would end the process, by SIGBUS.

        Call it where time has passed since. A worker that has lost its slot by that takes another one, and reads again.
        """
        if self._size() < _SIZE:
            self._open()

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    def current(self) -> bool:
        """Whether this is the file of its name. One system call."""
        if self._file < 0:
            return True
        try:
            found = os.stat(self._path)  # noqa: PTH116  (no Path: one is made four times a second)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    # ---- slots ------------------------------------------------------------------------------------------------------

    def take(self, nonce: int, wanted: int) -> int:
        """Give a worker a slot, `wanted` if that is free; StoreError if all are taken. Its horizon is -1.

        A slot is free if it was never taken, was freed, or if its worker is gone.
        """
        self.whole()
        words = self.words
        self._take_lock(_TAKING)
        try:
            used: int = min(words[USED], SLOTS)
            for slot in (wanted, *range(used + 1)):
                if 0 <= slot < SLOTS and (words[NONCE + slot] == 0 or self.gone(slot)):
                    break
            else:
                raise StoreError(f"{SLOTS} workers have a place in {self._path}: stop one first")
            words[NONCE + slot] = 0
            words[HORIZON + slot] = -1
            words[BEHIND + slot] = words[QUIET + slot] = words[RUNG + slot] = 0
            words[HEARTBEAT + slot] = self._now()
            words[USED] = max(used, slot + 1)
            words[NONCE + slot] = nonce
            return int(slot)
        finally:
            self._unlock(_TAKING)

    def gone(self, slot: int) -> bool:
        """Whether the worker of a slot has been silent for very long.

        A heartbeat in the future was left by a worker from before the host's last start.
        """
        return abs(self._now() - self.words[HEARTBEAT + slot]) > GONE

    def absent(self) -> bool:
        """Whether a worker without a slot is gone: in a new page it may not have taken a slot again yet."""
        return not 0 <= self._now() - self.words[_BORN] < _SETTLED

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
        words = self.words
        nonces = words[NONCE : NONCE + words[USED]].tolist()
        return [slot for slot, nonce in enumerate(nonces) if nonce]

    # ---- bells and hints --------------------------------------------------------------------------------------------

    def wake(self, slot: int) -> None:
        """End the wait of a worker, the present one or the next one."""
        self.words[BELL + slot] = draw(31)  # not + 1: of two at once, one change would be lost
        _wake(self._base + 8 * (BELL + slot))

    def wait(self, slot: int, heard: int, seconds: float) -> None:
        """Return when a slot's bell differs from `heard`, after `seconds`, or earlier."""
        if self.words[BELL + slot] == heard:
            _sleep(self._base + 8 * (BELL + slot), heard, min(seconds, 3_600), _LOOK)

    def hint(self, hints: Sequence[tuple[int, int]]) -> bool:
        """Write hints, each a slot and a job. In the turn. False if they are too many: then workers must be told so."""
        if len(hints) > _HINTS_AT_ONCE:
            return False
        words = self.words
        number = words[TOLD]
        for slot, job in hints:
            words[_HINT_SLOT + number % _HINTS] = slot
            words[_HINT_JOB + number % _HINTS] = job
            number += 1
        words[TOLD] = number
        return True

    def hints(self, slot: int, after: int) -> tuple[int, list[int], bool]:
        """Return the number of the next hint, a slot's jobs in the hints from `after` on, and whether some are lost.

        A hint for everybody counts as a lost one.
        """
        words = self.words
        end = words[TOLD]
        if not 0 <= end - after <= _HINTS - _HINTS_AT_ONCE:
            return end, [], True
        places = [number % _HINTS for number in range(after, end)]
        found = [(words[_HINT_SLOT + place], words[_HINT_JOB + place]) for place in places]
        lost = words[TOLD] - after > _HINTS - _HINTS_AT_ONCE  # overwritten meanwhile
        return end, [job for whose, job in found if whose == slot], lost or any(whose == ALL for whose, _ in found)

    # ---- the turn ---------------------------------------------------------------------------------------------------

    def enter(self, until: float) -> None:
        """Wait for the turn to write, at most until a monotonic time: then StoreBusy. For one thread at a time.

        It may return without the turn, if its holder does not go on. Call `leave` in any case.
        """
        words = self.words
        if self._yields:
            self._yields = False
            if words[_OWNER] == self._me:
                _sleep(self._base + 8 * _OWNER, self._me, _YIELD)
        self.held = self._lock(_TURN) or self._queue(until)
        self._began = time.monotonic()
        self.alone = self.held and words[_OWNER] == self._me
        if self.held and not self.alone:
            words[_OWNER] = self._me
            _wake(self._base + 8 * _OWNER)

    def _queue(self, until: float) -> bool:
        """Return True once this page's user has the turn, False once the holder does not go on."""
        words = self.words
        seen: tuple[int, int] | None = None
        since, patience = 0.0, self._patience()
        while True:
            self.whole()
            words[_WAITED_FOR] = 1
            turn = words[_OWNER], words[_TURNS]
            if self._lock(_TURN):
                return True
            now = time.monotonic()
            if self._stalled is not None and turn != self._stalled:  # it went on after all
                self._took.append(now - self._stalled_at)
                self._stalled = None
            if turn != seen:
                if seen is not None:
                    self._took.append(now - since)
                seen, since = turn, now
            if turn == self._stalled or now >= since + patience:
                if turn != self._stalled:
                    self._stalled, self._stalled_at = turn, since
                return False
            if now >= until:
                raise StoreBusy(f"{self._path}: others kept the turn to write for too long: try again")
            _sleep(self._base + 8 * _TURNS, turn[1] & 0xFFFF_FFFF, min(_LOOK, until - now))

    def _patience(self) -> float:
        """Return the seconds after which a holder does not go on. A single long turn, as of a stop, does not count."""
        least, most = _STALLED
        return min(max(least, _TURNS_LONG * sorted(self._took)[1]), most)

    def leave(self) -> None:
        """Let the next one have its turn. Does nothing without it; may be interrupted, and called again.

        The caller has just made the page whole, if needed.
        """
        words = self.words
        self._unlock(_TURN)
        if self.held:
            self.held = False
            self._took.append(time.monotonic() - self._began)
            words[_TURNS] += 1
            if words[_WAITED_FOR]:
                words[_WAITED_FOR] = 0  # users that still wait set it again
                if _wake(self._base + 8 * _TURNS, 1):
                    self._yields = True
                    words[_WAITED_FOR] = 1  # there may be more

    # ---- locks of the file ------------------------------------------------------------------------------------------

    def _take_lock(self, byte: int) -> None:
        """Take a lock that others hold for a moment. StoreBusy if it takes long."""
        until = time.monotonic() + _PATIENCE
        while not self._lock(byte):
            if time.monotonic() > until:
                raise StoreBusy(f"{self._path}: another process keeps it locked: try again")
            time.sleep(0.001)

    def _lock(self, byte: int) -> bool:
        """Lock a byte of the file, unless another one has it locked.

        A record lock of the open file is used where the system has them. A process that may only read the file cannot
        take one, and the lock excludes the other stores of this process as well.
        """
        if self._file < 0 or not LOCKS:
            return True
        try:
            if _OPEN_FILE_LOCKS:
                fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _WANTED[byte])
            else:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):  # POSIX allows both
                return False
            raise
        return True

    def _unlock(self, byte: int) -> None:
        if self._file < 0 or not LOCKS:
            return
        if _OPEN_FILE_LOCKS:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FREED[byte])
        else:
            fcntl.flock(self._file, fcntl.LOCK_UN)


_WANTED: Final = [struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0) for byte in range(2)] if LOCKS else []
_FREED: Final = [struct.pack(_FLOCK, fcntl.F_UNLCK, os.SEEK_SET, byte, 1, 0) for byte in range(2)] if LOCKS else []


# ---- waiting for a word --------------------------------------------------------------------------------------------
# A hint: a waiter looks again after a short while anyway. Linux has a system call for it (futex).

_FUTEX: Final = {"x86_64": 202, "aarch64": 98, "riscv64": 98}.get(platform.machine())  # its number, of 64 bits
_WAIT: Final = 0
_WAKE: Final = 1
_EVERYBODY: Final = 0x7FFF_FFFF


def _find() -> Callable[..., Any] | None:
    """Return `syscall`, where the number of futex is known and its words have the right length."""
    if sys.platform != "linux" or _FUTEX is None or struct.calcsize("P") != 8:
        return None
    try:
        syscall = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return None
    syscall.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p]
    syscall.restype = ctypes.c_long
    return syscall


_SYSCALL: Final = _find()


def _sleep(address: int, seen: int, seconds: float, nap: float = 0.0005) -> None:
    """Return when the 32 bits at `address` are not `seen`, when woken, after `seconds`, or earlier.

    Without the system call it returns after a nap.
    """
    if _SYSCALL is None:
        time.sleep(min(nap, seconds))
        return
    _SYSCALL(_FUTEX, address, _WAIT, seen, struct.pack("ll", int(seconds), int(seconds % 1 * 1e9)))


def _wake(address: int, most: int = _EVERYBODY) -> int:
    """Wake those that wait at `address`, in any process, the first to wait first; return how many were woken."""
    return 0 if _SYSCALL is None else int(_SYSCALL(_FUTEX, address, _WAKE, most, None))

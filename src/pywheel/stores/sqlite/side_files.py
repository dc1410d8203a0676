"""The files beside the database: the writers of the database may write them, and nobody else.

They have its owner and its mode, whatever the umask and the user of the process that makes them. Users who may only
read the database get no access: they have no use for these files, and could make others wait by a lock for reading.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ..._errors import NotAStore, StoreError, StoreFull, StoreReadOnly

NO_ROOM: Final = "{path}: no room on the disk: free some, the jobs stored before are intact"
_FLAGS: Final = (
    os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)  # root must not be led to another file
)
_TRIES: Final = 20
_PAUSE: Final = 0.005  # seconds: the maker of the file is giving it its mode at this moment


def open_beside(database: str) -> int:
    """Return a descriptor of ``<database>-workers``, made if need be.

    StoreReadOnly if this user may not write it, StoreFull if there is no room for it.
    """
    with side_errors(database):
        file = _open(f"{database}-workers")
        try:
            _give(file, database)
        except BaseException:
            os.close(file)
            raise
        return file


def _open(path: str) -> int:
    """Open a file or make it. An existing file is opened without O_CREAT, which is refused in folders such as /tmp."""
    for _ in range(_TRIES):
        try:
            return os.open(path, _FLAGS)
        except FileNotFoundError:
            with suppress(FileExistsError):
                return os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except PermissionError:
            time.sleep(_PAUSE)
    return os.open(path, _FLAGS)


def _give(file: int, database: str) -> None:
    """Give a file the owner of the database, and the mode for its writers, as far as this user may."""
    if not hasattr(os, "fchown"):
        return
    ours, theirs = os.fstat(file), os.stat(database)  # noqa: PTH116  (a name, as everywhere in this folder)
    if (ours.st_uid, ours.st_gid) != (theirs.st_uid, theirs.st_gid):
        owner = theirs.st_uid if os.geteuid() == 0 else -1
        with suppress(PermissionError):
            os.fchown(file, owner, theirs.st_gid)
    if stat.S_IMODE(ours.st_mode) != (mode := writers(theirs.st_mode)):
        with suppress(PermissionError):
            os.fchmod(file, mode)


def writers(mode: int) -> int:
    """Return a mode for the writers of a file of this mode, and for its owner, who could grant himself the right."""
    may_write = stat.S_IMODE(mode) & 0o222
    return may_write | stat.S_IMODE(mode) & may_write << 1 | 0o600


@contextmanager
def side_errors(database: str) -> Iterator[None]:
    """Raise the system's errors as pywheel's, with advice."""
    try:
        yield
    except OSError as error:
        name = error.filename or f"the files beside {database}"
        match error.errno:
            case errno.EACCES | errno.EPERM | errno.EROFS:
                raise StoreReadOnly(f"{database}: cannot write {name}: mend the permissions") from error
            case errno.ENOENT | errno.ENOTDIR:
                raise NotAStore(f"{database} cannot be opened: it, or its folder, is not there") from error
            case errno.ELOOP:
                raise StoreError(f"{name} is a link: remove it, it is made anew") from error
            case _:
                raise said_by_system(error, database) from error


def said_by_system(error: OSError, path: str) -> StoreError:
    """Return the pywheel error for a system error about a database that cannot be opened."""
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return StoreReadOnly(
                f"{path} cannot be opened: {error.strerror}: mend the permissions of the folders that lead there"
            )
        case errno.ENAMETOOLONG:
            return NotAStore(f"{path[:80]}...: the name is too long: give a shorter one")
        case errno.EMFILE | errno.ENFILE:
            return StoreError(f"{path}: too many open files: close some, or raise the limit (ulimit -n)")
        case errno.ENOSPC | errno.EDQUOT:
            return StoreFull(NO_ROOM.format(path=path))
        case _:
            return StoreError(f"{path} and the files beside it cannot be used: {error}")

"""The folder for the files of tests: in memory, if there is room. No file needs to survive a power cut."""

import os
import tempfile

MEMORY = "/dev/shm"  # of Linux
ROOM = 1 << 30


def folder() -> str:
    """Return TMPDIR, if that is given; else memory, if programs may be run from there as well; else the disk."""
    if "TMPDIR" not in os.environ and os.access(MEMORY, os.W_OK):
        there = os.statvfs(MEMORY)
        if there.f_bavail * there.f_frsize >= ROOM and not there.f_flag & os.ST_NOEXEC:
            return MEMORY
    return tempfile.gettempdir()


if __name__ == "__main__":
    print(folder())

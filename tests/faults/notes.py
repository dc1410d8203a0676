"""The notes of a child process between its calls, for the test that reads them."""

import ctypes
import json
from pathlib import Path

from pywheel.stores.sqlite import connection

NAME = "jobs.db"
CHECKPOINT = 20  # pages: often


class Notes:
    """The library that is preloaded, which records what is done in one folder."""

    def __init__(self, folder, log):
        self._library = ctypes.CDLL(None)
        self._library.calls_record(str(folder).encode(), str(log).encode())
        self._page = Path(folder) / f"{NAME}-workers"

    def note(self, **what):
        """Note what has happened up to here, and what the file that is mapped holds."""
        if self._page.exists():
            self._note(self._page.name, self._page.read_bytes())
        self._note("", json.dumps(what).encode())

    def _note(self, name, data):
        self._library.calls_note(name.encode(), data, ctypes.c_long(len(data)))


def with_settings(synchronous="FULL"):
    """Have files opened with another `synchronous`, and with checkpoints that are frequent."""
    connection._SETTINGS = (
        *connection._SETTINGS,
        f"PRAGMA synchronous = {synchronous}",
        f"PRAGMA wal_autocheckpoint = {CHECKPOINT}",
    )

"""A ledger that processes write: lines, and what they agreed on about the jobs.

A line is written by one write to a file that all append to, so it survives whoever wrote it. Times are the wall clock
in ms, which all processes of a host share; whoever asks for something notes the time before the call and after it.
"""

import json
import os
import time
from collections import defaultdict
from pathlib import Path

__all__ = ["ATTEMPTS", "BACKOFF", "TTR", "Pen", "lines"]

TTR = 1.0  # seconds
BACKOFF = 0.05
ATTEMPTS = 1000


class Pen:
    """Writes lines, each by one call."""

    def __init__(self, path, name):
        self.name = name
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, word, **facts):
        """Write a line; return the time that it bears."""
        wall = time.time() * 1000
        line = {
            "word": word,
            "wall": wall,
            "mono": time.monotonic() * 1000,
            "pid": os.getpid(),
            "by": self.name,
            **facts,
        }
        os.write(self._file, json.dumps(line).encode() + b"\n")
        return wall


def lines(path):
    """Return what was written, by word."""
    found = defaultdict(list)
    for text in Path(path).read_bytes().splitlines():
        line = json.loads(text)
        found[line["word"]].append(line)
    return found

"""Counts for each call of a function: its commands, and the values that these name or read."""

import contextlib
import itertools
import re
import socket
from typing import NamedTuple

__all__ = ["Call", "Monitor"]

WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')
NUMBERS = itertools.count()
COMMANDS, VALUES = 1_500, 9_000  # of a call


class Call(NamedTuple):
    """`values` are arguments and members read, and those that an offset goes past."""

    commands: int
    values: int


class Monitor:
    """Sees all that a server does from now on; `calls` says what the calls since the last call did."""

    def __init__(self, server):
        self.client = server.connect()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(server.socket))
        self.lines = self.socket.makefile("rb")
        self.socket.sendall(b"MONITOR\r\n")
        assert self.lines.readline() == b"+OK\r\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lines.close()
        self.socket.close()
        self.client.close()

    @contextlib.contextmanager
    def short(self, values=VALUES):
        """Every call within, of which there are some, is short; yield the list that they are in afterwards."""
        self.calls()
        calls = []
        yield calls
        calls += self.calls()
        assert calls
        assert max(call.commands for call in calls) <= COMMANDS
        assert max(call.values for call in calls) <= values

    def calls(self):
        mark = b"seen %d" % next(NUMBERS)
        self.client.echo(mark)
        found = []
        for line in self.lines:
            source, _, rest = line.partition(b"] ")
            words = WORD.findall(rest)
            if words[0].upper() == b"FCALL":
                found.append(Call(0, 0))
            elif source.endswith(b" lua"):
                commands, values = found.pop()
                found.append(Call(commands + 1, values + self.values(words)))
            elif mark in words:
                break
        return found

    def values(self, words):
        name, *rest = words
        read = 0
        if name.upper() == b"ZRANGE":
            key, *rest = rest
            there = self.client.zcard(self.raw(key))
            if b"LIMIT" in rest:
                offset, count = (int(word) for word in rest[rest.index(b"LIMIT") + 1 :][:2])
                read = offset + (min(count, there) if count >= 0 else there)
            elif b"BYSCORE" in rest:
                read = there
            else:
                first, last = (int(word) for word in rest[:2])
                read = min(last - first + 1 if last >= 0 else there, there)
        return read + len(rest)

    @staticmethod
    def raw(word):
        return re.sub(rb"\\x([0-9a-f]{2})", lambda found: bytes((int(found[1], 16),)), word)

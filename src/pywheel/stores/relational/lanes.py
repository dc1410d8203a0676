"""Which commands may wait for a lock that another program's transaction holds.

A put in a caller's transaction holds its key for as long as that takes. A store therefore writes on four connections,
each with a group commit of its own: one for claims and acks, one for plain puts, one for what may have to wait, and one
for what was found to wait. Puts of handlers share commits with each other, and wait for no step of the worker. A
statement waits for a lock for a moment only. A command that met a lock is tried again on the fourth connection; others
that want the same go there without a try on the third.
"""

from __future__ import annotations

import time
from collections.abc import Container, Hashable, Iterator, Sequence
from typing import Any, Final

from ...jobs import commands as c
from ..contract import Locked

__all__ = ["Held", "may_wait"]

_MAY_WAIT: Final = frozenset({c.Import, c.Cancel, c.Reschedule, c.Delete, c.Retry, c.Rewrite, c.Pause})


_MOST: Final = 10_000  # keys and jobs that are remembered


class Held:
    """What was found to be locked lately: who wants it too need not find that out again, while others wait behind."""

    def __init__(self) -> None:
        self._met: dict[Hashable, float] = {}  # when

    def met(self, commands: Sequence[c.Command[Any]]) -> None:
        """Note that these commands met a lock."""
        if len(self._met) > _MOST:
            self._met.clear()
        self._met.update(dict.fromkeys(_wants(commands), time.monotonic()))

    def free(self, commands: Sequence[c.Command[Any]], outcomes: Sequence[Any]) -> None:
        """Note which of them met none."""
        if self._met:
            for command, outcome in zip(commands, outcomes, strict=True):
                if not isinstance(outcome, Locked):
                    for want in _wants((command,)):
                        self._met.pop(want, None)

    def lately(self, commands: Sequence[c.Command[Any]], seconds: float) -> bool:
        """Return whether one of them would meet a lock, as was seen within so many seconds."""
        if not self._met:
            return False
        since = time.monotonic() - seconds
        return any(self._met.get(want, 0.0) > since for want in _wants(commands))


def _wants(commands: Sequence[c.Command[Any]]) -> Iterator[Hashable]:
    """Yield the keys and jobs that others may hold."""
    for command in commands:
        if type(command) is c.Put:
            yield from ((job.topic, job.key) for job in command.jobs if job.key is not None)
        elif isinstance(command, c.Cancel | c.Reschedule | c.Retry | c.Delete):
            yield command.ref


def may_wait(commands: Sequence[c.Command[Any]], topics: Container[str]) -> bool:
    """Return whether some command takes a key, adds a topic or priority, or changes a job that anybody may hold."""
    for command in commands:
        if type(command) is c.Put:
            if command.nonce is not None:
                return True
            for job in command.jobs:
                if job.key is not None or job.priority or job.topic not in topics:
                    return True
        elif type(command) in _MAY_WAIT:
            return True
    return False

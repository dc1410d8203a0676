"""Which commands may wait for a lock that another program's transaction holds.

Whoever puts in a transaction of its own holds a key for as long as that takes. A store therefore writes on three
connections, each with a group commit of its own: one for what waits for nobody, such as claims, acks and plain puts,
one for what may have to wait, and one for what was found to wait. A statement on the first waits for a lock for a
moment; on the others it hardly waits at all, as others come behind it. What met a lock is tried again and again, by
itself, on the third.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

from ...jobs import commands as c

__all__ = ["may_wait"]

_MAY_WAIT: Final = frozenset({c.Import, c.Cancel, c.Reschedule, c.Delete, c.Retry, c.Rewrite, c.Pause})


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

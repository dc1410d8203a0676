"""The recorded timers of a real server, as steps of one millisecond."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

RECORDING = Path(__file__).with_name("traces") / "aiohttp_server.csv.gz"
CANCEL = -1

Operation = tuple[int, int]  # (timer, deadline in microseconds), or (timer, CANCEL)
Fired = list[tuple[int, int]]  # (millisecond, timer), in the order they came


@dataclass(frozen=True)
class Trace:
    """What a program did with its timers: `steps[ms]` holds what it scheduled and cancelled in that millisecond."""

    steps: list[list[Operation]]
    fired: frozenset[int]
    scheduled: int
    cancelled: int

    @property
    def timers(self) -> int:
        """One more than the highest timer number."""
        return self.scheduled + 1

    @property
    def operations(self) -> int:
        """How many timers were scheduled, cancelled and fired, added up."""
        return self.scheduled + self.cancelled + len(self.fired)


def tick_of(deadline_us: int) -> int:
    """Return the first millisecond that is not before the deadline: rounding up keeps a timer from firing early."""
    return -(-deadline_us // 1000)


def load(path: Path = RECORDING) -> Trace:
    """Read a recording: columns op, id, t_us, deadline_us."""
    with gzip.open(path, "rt", newline="") as file:
        rows = [(op, int(timer), int(at), int(deadline)) for op, timer, at, deadline in list(csv.reader(file))[1:]]
    fired = frozenset(timer for op, timer, _, _ in rows if op == "F")
    last = max(tick_of(deadline) for op, timer, _, deadline in rows if op == "S" and timer in fired)
    last = max(last, rows[-1][2] // 1000)
    steps: list[list[Operation]] = [[] for _ in range(last + 1)]
    for op, timer, at, deadline in rows:
        if op == "S":
            steps[at // 1000].append((timer, deadline))
        elif op == "C":
            steps[at // 1000].append((timer, CANCEL))
    counts = {op: sum(1 for row in rows if row[0] == op) for op in "SC"}
    return Trace(steps, fired, counts["S"], counts["C"])

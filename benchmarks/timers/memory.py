"""Bytes for each timer, seen by the operating system and by sys.getsizeof, in a process of its own.

python -m benchmarks.timers.memory KeyWheel 1000000
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.resident import resident_bytes

ROOT = Path(__file__).parents[2]
SMALLEST_MEASURE = 200_000  # the operating system counts in pages: small wheels are measured many at once


def bytes_per_timer(kind: str, timers: int) -> dict[str, float]:
    """Measure in a fresh process: `resident` and `counted` bytes for each of `timers` pending timers."""
    command = [sys.executable, "-m", "benchmarks.timers.memory", kind, str(timers)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout))


def _measure(kind: str, timers: int) -> dict[str, float]:
    from benchmarks.timers.peers import PEERS

    copies = max(1, SMALLEST_MEASURE // timers)
    source = random.Random(timers)
    when = [source.randrange(1, 60_000) for _ in range(timers)]
    _fill(PEERS[kind](), when[:100])  # what is imported or made once is not the timers'
    peers = [PEERS[kind]() for _ in range(copies)]
    before = resident_bytes()
    for peer in peers:
        _fill(peer, when)
    resident = (resident_bytes() - before) / (timers * copies)
    return {"resident": resident, "counted": peers[0].counted_bytes() / timers}


def _fill(peer: Any, when: list[int]) -> None:
    """Schedule one by one, so that no list of handles is ever in memory."""
    for deadline in peer.own_time(when):
        peer.schedule((deadline,))


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))

"""The client process: it puts jobs one by one and prints how many a second.

usage: python -m benchmarks.queues.client PEER COUNT EARLIEST LATEST
"""

from __future__ import annotations

import random
import sys
import time
from importlib import import_module

from benchmarks.queues.record import body


def main(name: str, count: int, earliest: float, latest: float) -> None:
    """Put jobs with delays between `earliest` and `latest` seconds, whole multiples of what the peer can tell apart."""
    peer = import_module(f"benchmarks.queues.peers.{name}")
    grain = getattr(peer, "GRAIN", 0.001)
    draw = random.Random(3)
    delays = [round(round(draw.uniform(earliest, latest) / grain) * grain, 3) for _ in range(count)]
    peer.put(body(0), 2 * 86_400)  # opens the connection; it never comes
    began = time.perf_counter()
    for delay in delays:
        peer.put(body(time.time() + delay), delay)
    print(count / (time.perf_counter() - began))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))

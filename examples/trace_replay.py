"""Replay the recorded timers of an aiohttp server, in real time, through each driver.

The recording holds 40 seconds of one: each timer it scheduled, cancelled or let fire, with its time. What it scheduled
or cancelled at a moment is scheduled or cancelled then; what fires is compared with its deadline.
"""

import argparse
import asyncio
import csv
import gzip
import time
from pathlib import Path

import pywheel

TRACE = Path(__file__).resolve().parents[1] / "benchmarks" / "timers" / "workloads" / "traces" / "aiohttp_server.csv.gz"


def read(path, seconds):
    """Return (time, timer, delay or None) of each schedule and cancel of the first seconds, in order."""
    operations = []
    with gzip.open(path, "rt", encoding="ascii", newline="") as file:
        for row in csv.DictReader(file):
            at = int(row["t_us"]) / 1e6
            if at > seconds:
                break
            if row["op"] != "F":
                delay = (int(row["deadline_us"]) - int(row["t_us"])) / 1e6 if row["op"] == "S" else None
                operations.append((at, int(row["id"]), delay))
    return operations


class Replay:
    """One run of the recording through a driver."""

    def __init__(self, timers, operations, speed):
        self.timers, self.operations, self.speed = timers, operations, speed
        self.pending, self.lateness, self.cancelled, self.position = {}, [], 0, 0
        self.start = time.monotonic()

    def fire(self, due, name):
        self.lateness.append(time.monotonic() - due)
        self.pending.pop(name, None)

    def step(self):
        """Do what is to be done by now; return the seconds until there is more, None at the end."""
        while self.position < len(self.operations):
            at, name, delay = self.operations[self.position]
            wait = self.start + at / self.speed - time.monotonic()
            if wait > 0:
                return wait
            self.position += 1
            if delay is None:
                timer = self.pending.pop(name, None)
                self.cancelled += timer is not None and timer.cancel()
            else:
                delay = max(0.0, delay) / self.speed
                due = time.monotonic() + delay
                self.pending[name] = self.timers.call_later(delay, self.fire, due, name)
        return None

    def report(self, name):
        late = sorted(self.lateness) or [0.0]
        p50, p99, most = (1000 * late[int((len(late) - 1) * part)] for part in (0.5, 0.99, 1))
        early = sum(value < 0 for value in late)
        print(
            f"{name:13}{len(self.lateness):7} fired{self.cancelled:8} cancelled{len(self.timers):7} pending   "
            f"late: p50 {p50:.3f} ms, p99 {p99:.3f} ms, most {most:.3f} ms   early: {early}",
            flush=True,
        )


def with_a_thread(operations, speed):
    """Schedule in this thread; the driver's own fires."""
    with pywheel.ThreadTimers() as timers:
        replay = Replay(timers, operations, speed)
        while (wait := replay.step()) is not None:
            time.sleep(wait)
        replay.report("ThreadTimers")


def with_asyncio(operations, speed):
    """Schedule and fire in one loop."""

    async def main():
        async with pywheel.AsyncTimers() as timers:
            replay = Replay(timers, operations, speed)
            while (wait := replay.step()) is not None:
                await asyncio.sleep(wait)
            replay.report("AsyncTimers")

    asyncio.run(main())


def by_hand(operations, speed):
    """Schedule and fire in a loop of our own, which sleeps until the earlier of the two."""
    with pywheel.Timers() as timers:
        replay = Replay(timers, operations, speed)
        while (wait := replay.step()) is not None:
            timers.run_due()
            deadline = timers.next_deadline()
            if deadline is not None:
                wait = min(wait, deadline - timers.time())
            time.sleep(max(0.0, wait))
        replay.report("Timers")


DRIVERS = {"thread": with_a_thread, "asyncio": with_asyncio, "hand": by_hand}


def parse():
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=2.5, help="of the recording, 40 for all of it (default: %(default)s)"
    )
    parser.add_argument("--speed", type=float, default=1, help="times as fast as it was (default: %(default)s)")
    parser.add_argument("--driver", choices=DRIVERS, action="append", help="only this one (default: each)")
    return parser.parse_args()


if __name__ == "__main__":
    options = parse()
    recorded = read(TRACE, options.seconds)
    print(f"{len(recorded)} operations, {options.seconds:g} s of the recording at {options.speed:g} times its speed")
    for driver in options.driver or DRIVERS:
        DRIVERS[driver](recorded, options.speed)

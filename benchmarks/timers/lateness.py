"""Timers that fall due by the hundred thousand a second, on a driver or a loop: how late are they by the real clock?

python -m benchmarks.timers.lateness ThreadTimers --seconds 5
"""

from __future__ import annotations

import argparse
import asyncio
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pywheel

LONGEST = 1.0  # seconds of delay: this many seconds of timers are pending
BEAT = 0.001


@dataclass
class Load:
    """Schedules `rate` timers a second, with random delays, and notes how late each comes.

    As a program writes it: each timer has a bound method as its callback, made for it, and an argument.
    """

    timers: Any
    rate: int
    seconds: float
    over: Callable[[], None]
    late: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Start the load; `over` is called when the last timer has come."""
        self.random = random.Random(1)
        self.first = time.monotonic()
        self.scheduled = 0
        self.timers.call_later(BEAT, self._more)

    def _more(self) -> None:
        passed = time.monotonic() - self.first
        for _ in range(min(int(passed * self.rate) - self.scheduled, self.rate // 10)):
            self.scheduled += 1
            delay = self.random.random() * LONGEST
            self.timers.call_later(delay, self._come, time.monotonic() + delay)
        if passed > self.seconds:
            self.timers.call_later(LONGEST + 0.1, self.over)
        else:
            self.timers.call_later(BEAT, self._more)

    def _come(self, due: float) -> None:
        self.late.append(time.monotonic() - due)

    def outcome(self) -> dict[str, float]:
        """Return milliseconds of lateness, how many came early (0, or it is a defect), how many did not come."""
        late = np.array(self.late) * 1e3
        return {
            "p50_ms": float(np.percentile(late, 50)),
            "p99_ms": float(np.percentile(late, 99)),
            "max_ms": float(late.max()),
            "early": float((late < 0).sum()),
            "missed": float(self.scheduled - len(late)),
            "a_second": len(late) / self.seconds,
        }


def in_a_thread(rate: int, seconds: float) -> dict[str, float]:
    """Measure ThreadTimers."""
    over = threading.Event()
    with pywheel.ThreadTimers() as timers:
        load = Load(timers, rate, seconds, over.set)
        load.begin()
        over.wait()
    return load.outcome()


def in_a_loop(rate: int, seconds: float) -> dict[str, float]:
    """Measure AsyncTimers on the stock loop."""

    async def main() -> dict[str, float]:
        over = asyncio.Event()
        async with pywheel.AsyncTimers() as timers:
            load = Load(timers, rate, seconds, over.set)
            load.begin()
            await over.wait()
        return load.outcome()

    return asyncio.run(main())


def on(new_loop: Callable[[], Any]) -> Callable[[int, float], dict[str, float]]:
    """Return what measures a loop's own timers."""

    def measure(rate: int, seconds: float) -> dict[str, float]:
        loop = new_loop()
        try:
            load = Load(loop, rate, seconds, loop.stop)
            load.begin()
            loop.run_forever()
        finally:
            loop.close()
        return load.outcome()

    return measure


def _uvloop() -> Any:
    import uvloop

    return uvloop.new_event_loop()


DRIVERS = {
    "ThreadTimers": in_a_thread,
    "AsyncTimers": in_a_loop,
    "EventLoop": on(pywheel.EventLoop),
    "asyncio": on(asyncio.SelectorEventLoop),
    "uvloop": on(_uvloop),
}
OURS = ("ThreadTimers", "AsyncTimers", "EventLoop")


def periodic_load(timers: int, interval: float, seconds: float) -> float:
    """Return the part of one core for `timers` periodic timers, each at its own time of the interval."""
    source = random.Random(1)
    calls = [0]

    def call() -> None:
        calls[0] += 1

    with pywheel.ThreadTimers() as driver:
        for _ in range(timers):
            driver.call_every(interval, call, first=1 + source.random() * interval)
        time.sleep(1)
        before, wall, cpu = calls[0], time.perf_counter(), time.process_time()
        time.sleep(seconds)
        passed = time.perf_counter() - wall
        used = (time.process_time() - cpu) / passed
        expected = timers * passed / interval
        if not 0.8 * expected < calls[0] - before < 1.2 * expected:
            raise AssertionError(f"{calls[0] - before} calls instead of about {expected:.0f}")
    return used


def main() -> None:
    """Measure one driver and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver", choices=DRIVERS)
    parser.add_argument("--rate", type=int, default=100_000, help="timers a second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="for how long (default: %(default)s)")
    options = parser.parse_args()
    for name, value in DRIVERS[options.driver](options.rate, options.seconds).items():
        print(f"{name:>10}  {value:.3f}")


if __name__ == "__main__":
    main()

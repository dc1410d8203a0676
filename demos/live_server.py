"""A million timers against the real clock, cancelled, restarted and re-armed as servers do: lateness and cost."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.resident import resident_bytes

TICK_NS = 1_000_000
RESTARTS, REPLACEMENTS = 256, 64  # connections that are heard from, and that close while another opens, in each turn
SINGLES = 32  # as many again of each, by single calls
CHUNK = 65_536


@dataclass
class Cost:
    """Time spent in one kind of call."""

    calls: int = 0
    timers: int = 0
    nanoseconds: int = 0

    def add(self, calls: int, timers: int, nanoseconds: int) -> None:
        self.calls += calls
        self.timers += timers
        self.nanoseconds += nanoseconds


@dataclass
class Outcome:
    """What a run showed."""

    timers: int
    seconds: float = 0.0
    turns: int = 0
    costs: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))
    lateness_ms: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    missed: int = 0  # timers that should have come and did not. Any other number than 0 is a defect
    fill_ns: int = 0  # to start all of them
    bytes_counted: float = 0.0  # bytes for each timer, as sys.getsizeof sees them
    bytes_resident: float = 0.0  # and as the operating system sees them

    @property
    def early(self) -> int:
        """How many timers came before their deadline. Any other number than 0 is a defect."""
        return int((self.lateness_ms < 0).sum())

    def percentile(self, percent: float) -> float:
        """Milliseconds that `percent` of the timers were late at most."""
        return float(np.percentile(self.lateness_ms, percent)) if self.lateness_ms.size else 0.0

    @property
    def busy(self) -> float:
        """The part of the time that went into the wheel's calls."""
        return sum(cost.nanoseconds for cost in self.costs.values()) / 1e9 / self.seconds


class Server:
    """As many connections as timers: each has one idle timeout, and its number is the timer's key."""

    def __init__(self, wheel: Any, timers: int, longest_ms: int, traffic: float = 1.0) -> None:
        self.wheel = wheel
        self.longest_ns = longest_ms * TICK_NS
        self.restarts, self.replacements, self.singles = (
            int(count * traffic) for count in (RESTARTS, REPLACEMENTS, SINGLES)
        )
        self.random = np.random.default_rng(7)
        self.handles = np.full(timers, 1, np.uint64)  # written to, so that its memory is there before it is measured
        self.due_ns = np.full(timers, 1, np.int64)
        self.walk = self.random.permutation(timers)
        self.position = 0
        self.late_ns: list[NDArray[np.int64]] = []
        self.outcome = Outcome(timers)
        self.origin_ns: int | None = None

    def clock_ns(self) -> int:
        """Nanoseconds since the clock was started: the wheel's tick is this, divided by a million and rounded down."""
        return 0 if self.origin_ns is None else time.perf_counter_ns() - self.origin_ns

    def deadlines(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        """Give each connection a new random timeout from now; return the ticks, rounded up so that none fires early."""
        due = self.clock_ns() + self.random.integers(1, self.longest_ns, len(keys))
        self.due_ns[keys] = due
        return -(-due // TICK_NS)

    def timed(self, what: str, calls: int, timers: int, call: Callable[..., Any], *arguments: Any) -> Any:
        """Call, and book the time it took."""
        start = time.perf_counter_ns()
        result = call(*arguments)
        self.outcome.costs[what].add(calls, timers, time.perf_counter_ns() - start)
        return result

    def fill(self) -> None:
        """Start every timer, see what memory that took, and start the clock."""
        before = resident_bytes()
        for start in range(0, self.outcome.timers, CHUNK):
            keys = np.arange(start, min(start + CHUNK, self.outcome.timers))
            self.arm("schedule_many", keys)
        self.outcome.bytes_resident = (resident_bytes() - before) / self.outcome.timers
        self.outcome.fill_ns = self.outcome.costs.pop("schedule_many").nanoseconds
        self.outcome.bytes_counted = sys.getsizeof(self.wheel) / self.outcome.timers
        self.origin_ns = time.perf_counter_ns()

    def arm(self, what: str, keys: NDArray[Any]) -> None:
        self.handles[keys] = self.timed(what, 1, len(keys), self.wheel.schedule_many, self.deadlines(keys), keys)

    def turn(self) -> None:
        """One turn of a server's loop: hand out what expired and re-arm it, then the traffic of this millisecond."""
        self.outcome.turns += 1
        expired = self.expire()
        if len(expired):
            self.arm("schedule_many", expired)
        keys = self.connections(self.restarts)
        self.timed(
            "reschedule_many", 1, len(keys), self.wheel.reschedule_many, self.handles[keys], self.deadlines(keys)
        )
        keys = self.connections(self.replacements)
        self.timed("cancel_many", 1, len(keys), self.wheel.cancel_many, self.handles[keys])
        self.arm("schedule_many", keys)
        self.single_calls()

    def expire(self) -> NDArray[np.uint64]:
        """Advance to the present, and note how late each timer is in our hands."""
        now = self.clock_ns() // TICK_NS
        start = time.perf_counter_ns()
        expired: NDArray[np.uint64] = self.wheel.advance_many(now)
        end = time.perf_counter_ns()
        self.outcome.costs["advance_many"].add(1, len(expired), end - start)
        self.late_ns.append(self.clock_ns() - self.due_ns[expired])
        return expired

    def missed(self) -> int:
        """Return how many timers are overdue, or not in the wheel at all: after each turn there must be none."""
        overdue = int((-(-self.due_ns // TICK_NS) <= self.wheel.now).sum())
        return overdue + abs(self.outcome.timers - len(self.wheel))

    def connections(self, count: int) -> NDArray[Any]:
        """Return the next `count` random connections, no one twice."""
        start = self.position
        self.position = (start + count) % (len(self.walk) - RESTARTS)
        return self.walk[start : start + count]

    def single_calls(self) -> None:
        """The same once more, one timer at a time."""
        keys = self.connections(self.singles)
        handles, ticks = self.handles[keys].tolist(), self.deadlines(keys).tolist()
        self.timed("reschedule", len(keys), len(keys), _each_pair, self.wheel.reschedule, handles, ticks)
        keys = self.connections(self.singles)
        self.timed("cancel", len(keys), len(keys), _each, self.wheel.cancel, self.handles[keys].tolist())
        ticks = self.deadlines(keys).tolist()
        self.handles[keys] = self.timed(
            "schedule", len(keys), len(keys), _each_pair, self.wheel.schedule, ticks, keys.tolist()
        )

    def run(self, seconds: float, on_progress: Callable[[float], None]) -> Outcome:
        """Fill the wheel and serve for `seconds`, one turn a millisecond; `on_progress` hears the seconds gone."""
        self.fill()
        begin_ns = self.clock_ns()
        end_ns = begin_ns + int(seconds * 1e9)
        report_ns = begin_ns
        while (now_ns := self.clock_ns()) < end_ns:
            self.turn()
            if now_ns >= report_ns:
                report_ns = now_ns + 250 * TICK_NS
                on_progress((now_ns - begin_ns) / 1e9)
            time.sleep(max(0, TICK_NS - self.clock_ns() % TICK_NS) / 1e9)
        self.outcome.missed = self.missed()
        self.outcome.seconds = (self.clock_ns() - begin_ns) / 1e9
        self.outcome.lateness_ms = np.concatenate(self.late_ns) / 1e6
        return self.outcome


def _each(call: Callable[[int], Any], first: list[int]) -> list[Any]:
    return [call(one) for one in first]


def _each_pair(call: Callable[[int, int], Any], first: list[int], second: list[int]) -> list[Any]:
    return [call(one, two) for one, two in zip(first, second, strict=True)]

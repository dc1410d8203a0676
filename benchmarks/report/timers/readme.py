"""The few figures of the README."""

from __future__ import annotations

import textwrap

from benchmarks.host import told
from benchmarks.kept import Kept
from benchmarks.report.text import spoken
from benchmarks.report.timers.programs import CONNECTIONS, PROGRAM
from benchmarks.report.timers.results import Results, known
from benchmarks.report.timers.timer_goals import CALLBACKS, DRIVER
from benchmarks.report.timers.wheel_goals import WHEEL


def figures(kept: Kept) -> str:
    """Return the README's few figures; KeyError if one was not measured."""
    results = Results(kept)

    def times(ratio: float | None) -> str:
        return f"{known(ratio):.0f} times"

    def own(measure: str, peer: str, size: int, workload: str = "uniform") -> str:
        return spoken(known(results.ns(measure, peer, size, workload)))

    many, most = 100_000, 1_000_000
    loops = [times(results.usual_ratio("schedule+cancel", peer, DRIVER, CALLBACKS)) for peer in ("asyncio", "uvloop")]
    heap = times(results.usual_ratio("schedule+cancel", "heapq", WHEEL))
    memory = known(results.value("resident", "bytes", WHEEL, most))
    churn = own("schedule+cancel", DRIVER, many, CALLBACKS), own("schedule+cancel", WHEEL, many)
    ours, theirs = (f"uvloop + {timers}" for timers in ("AsyncTimers", "call_later"))
    took = known(results.ns("echo", ours, CONNECTIONS, PROGRAM))
    ratio = known(results.ratio("echo", theirs, ours, CONNECTIONS, PROGRAM))
    said = (
        f"With {many:,} timers pending, starting and cancelling one of `AsyncTimers` takes {churn[0]}; asyncio's own "
        f"take {loops[0]} as long, uvloop's {loops[1]} (medians of 1,000 to {most:,} pending). The bare wheel takes "
        f"{churn[1]}, heapq {heap} that; a timer takes {memory:.0f} bytes. An echo server on uvloop with "
        f"{CONNECTIONS:,} idle timeouts takes {spoken(took)} of processor time for a message, and {ratio:.1f} times "
        "that with uvloop's own timers."
    )
    return textwrap.fill(f"{said} {told(kept['about'])}", 120, break_on_hyphens=False)

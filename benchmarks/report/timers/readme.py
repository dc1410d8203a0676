"""The few figures of the README."""

from __future__ import annotations

import re

from benchmarks.report.text import spoken
from benchmarks.report.timers.page import machine
from benchmarks.report.timers.programs import CONNECTIONS, PROGRAM
from benchmarks.report.timers.results import Results
from benchmarks.report.timers.wheel_goals import WHEEL


def figures(results: Results) -> str:
    """Return the README's few figures."""

    def times(ratio: float | None) -> str:
        return f"{ratio:.0f} times" if ratio else "- times"

    def own(measure: str, peer: str, size: int) -> str:
        return spoken(results.ns(measure, peer, size) or 0)

    many, most = 100_000, 1_000_000
    churn = [times(results.usual_ratio("schedule+cancel", peer, WHEEL)) for peer in ("asyncio", "uvloop", "heapq")]
    bulk = [own(measure, "KeyWheel", most) for measure in ("schedule_many", "cancel_many", "advance_many")]
    memory = results.value("resident", "bytes", WHEEL, most) or 0
    lines = (
        f"- With {many:,} timers pending, starting and cancelling one takes {own('schedule+cancel', WHEEL, many)}. ",
        f"asyncio takes {churn[0]} as long, uvloop {churn[1]}, heapq {churn[2]} ",
        f"(medians of 1,000 to {most:,} pending).\n",
        f"- With {most:,} pending, delivering one takes {own('delivery', WHEEL, most)}: ",
        f"heapq takes {times(results.ratio('delivery', 'heapq', WHEEL, most))} as long.\n",
        f"- `KeyWheel`'s bulk calls take {bulk[0]} to schedule one, {bulk[1]} to cancel one in random order, ",
        f"{bulk[2]} to deliver one.\n",
        _echo(results),
        f"- A timer of the bare wheel takes {memory:.0f} bytes, one of `AsyncTimers` [with handle, method and context]",
        f"(docs/timers.md#memory) about 195. A jump over 2^40 empty ticks takes {own('jump of 2^40', WHEEL, 0)}.",
    )
    return f"Measured on {machine(results)}\n\n" + "".join(lines)


def _echo(results: Results) -> str:
    ours, theirs = (f"uvloop + {timers}" for timers in ("AsyncTimers", "call_later"))
    took = results.ns("echo", ours, CONNECTIONS, PROGRAM)
    ratio = results.ratio("echo", theirs, ours, CONNECTIONS, PROGRAM)
    if took is None or ratio is None:
        return ""
    return (
        f"- An echo server on uvloop, {CONNECTIONS:,} connections with an idle timeout each, takes {spoken(took)} of "
        f"processor time for a message with `AsyncTimers`, {ratio:.1f} times that with uvloop's own timers.\n"
    )


def with_figures(readme: str, text: str) -> str:
    """Return the README with the text between its two markers."""
    between = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)
    return between.sub(lambda marks: f"{marks[1]}{text}\n{marks[2]}", readme)

"""The whole programs, servers with idle timeouts: a table for each."""

from __future__ import annotations

from benchmarks.report.text import number, spoken, table
from benchmarks.report.timers.results import Results

PROGRAMS = {"echo": "An echo server", "http": "An HTTP server"}
CONNECTIONS, PROGRAM = 2_000, "programs"
FIRST = "asyncio + call_later"


def programs(results: Results) -> str:
    """Return a section for each program that was measured."""
    sections = []
    for program, title in PROGRAMS.items():
        rate = results.value("rate", program, FIRST, CONNECTIONS, PROGRAM)
        if rate is not None:
            head = ("loop + timers", "requests/s", "its core", "a request", "of asyncio's", "p50", "p99")
            sections.append(
                f"### {title}\n\nAnswers at {rate:,.0f} requests/s.\n\n" + table(head, _rows(results, program))
            )
    return "\n\n".join(sections) or "Not measured."


def _rows(results: Results, program: str) -> list[tuple[str, ...]]:
    rows = []
    for peer in results.peers(program, PROGRAM):

        def value(name: str, peer: str = peer) -> float:
            return results.value(name, program, peer, CONNECTIONS, PROGRAM) or 0

        took = results.ns(program, peer, CONNECTIONS, PROGRAM) or 0
        share = results.ratio(program, peer, FIRST, CONNECTIONS, PROGRAM) or 0
        late = [spoken(value(name) * 1e6) for name in ("p50_ms", "p99_ms")]
        rows.append((peer, number(value("a_second")), f"{value('busy'):.0%}", spoken(took), f"{share:.2f}x", *late))
    return rows

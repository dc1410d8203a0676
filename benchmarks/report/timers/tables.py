"""The results as Markdown tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from benchmarks.report import text
from benchmarks.report.text import spoken, table, times
from benchmarks.report.timers.goal import Goal
from benchmarks.report.timers.results import Results

OTHERS = ("pure TimingWheel", "heapq", "sortedcontainers")
LOOPS = ("EventLoop", "Timers", "asyncio", "uvloop")
MEASURES = ("schedule", "cancel", "schedule+cancel", "reschedule", "delivery")
OTHER_CALLS = {
    ("schedule again", 100_000): "`schedule` of 100,000 timers into memory that is there already",
    ("empty tick", 100_000): "`advance` by a tick on which nothing is due, 100,000 pending",
    ("jump of 2^40", 0): "`advance` by 2^40 ticks on an empty wheel",
    ("next_deadline", 100_000): "`next_deadline`, 100,000 pending",
    ("cancel+next_deadline", 100_000): "cancel a random timer, then `next_deadline`, 100,000 pending",
}


def goals(lines: Iterable[Goal]) -> str:
    """Return the goals and what was measured."""
    return table(("measure", "goal", "measured"), [(line.measure, line.goal, line.marked) for line in lines])


def reached(lines: Collection[Goal]) -> str:
    """Return how many of the goals were reached."""
    return f"Of {len(lines)} goals {sum(line.met == 'yes' for line in lines)} were reached."


def comparisons(results: Results) -> str:
    """Return a row for each measure and number of timers: the wheel's time, and how many times that the others take."""
    peers = [peer for peer in OTHERS if any(peer in results.peers(measure) for measure in MEASURES)]
    rows = [
        (f"{measure}, {text.size(size)}", *_beside(results, measure, size, peers))
        for measure in MEASURES
        for size in results.sizes(measure)
    ]
    return table(("call, timers pending", "TimingWheel", *peers), rows)


def other_calls(results: Results) -> str:
    """Return a row for each of the other calls."""
    peers = ("KeyWheel", "empty call", "pure TimingWheel", "heapq")
    rows = [(title, *_beside(results, *call, peers)) for call, title in OTHER_CALLS.items()]
    return table(("call", "TimingWheel", *peers), rows)


def horizons(results: Results) -> str:
    """Return a row for each measure with 100,000 timers of any horizon."""
    rows = [(measure, *_beside(results, measure, 100_000, OTHERS, "horizons")) for measure in MEASURES]
    return table(("100,000 pending", "TimingWheel", *OTHERS), rows)


def _beside(
    results: Results, measure: str, size: int, peers: Iterable[str], workload: str = "uniform"
) -> tuple[str, ...]:
    ours = results.ns(measure, "TimingWheel", size, workload)
    others = (times(results.ratio(measure, peer, "TimingWheel", size, workload)) for peer in peers)
    return (spoken(ours) if ours else "", *others)


def bulk(results: Results) -> str:
    """Return nanoseconds a timer of the bulk calls."""
    measures = (
        "schedule_many, new wheel",
        "schedule_many",
        "reschedule_many",
        "cancel_many",
        "advance_many",
        "advance_many, all at once",
        "advance_many, each tick",
        "whole life",
    )
    sizes = sorted({*results.sizes("schedule_many"), *results.sizes("whole life")})
    rows = [(measure, *(_ns(results.ns(measure, "KeyWheel", size)) for size in sizes)) for measure in measures]
    return table(("ns a timer", *(text.size(size) for size in sizes)), rows)


def _ns(number: float | None) -> str:
    return "" if number is None else f"{number:.1f}"


def ticks(results: Results) -> str:
    """Return the usual and the worst tick with a million pending."""
    rows = []
    for span in ("delays to 60000", "delays to 600000"):
        for peer in results.peers("tick", span):
            usual = results.ns("tick", peer, 1_000_000, span) or 0
            worst = (results.value("worst", "tick", peer, 1_000_000, span) or 0) * 1e9
            rows.append((peer, span, spoken(usual), spoken(worst)))
    return table(("call", "timers", "median", "worst"), rows)


def growth(results: Results) -> str:
    """Return the worst schedule on the way to a million timers."""
    worst = (results.value("worst", "growth", "TimingWheel.schedule", 1_000_000) or 0) * 1e9
    return f"Worst of a million `schedule` calls, from an empty wheel on: {spoken(worst)}, where the pool grows."


def memory(results: Results) -> str:
    """Return bytes for each timer, as the operating system and as getsizeof see them."""
    sizes = results.sizes("bytes")
    head = ["bytes a timer"] + [f"{how}, {text.size(size)}" for size in sizes for how in ("resident", "counted")]
    rows = []
    for peer in results.peers("bytes"):
        values = [results.value(how, "bytes", peer, size) for size in sizes for how in ("resident", "counted")]
        rows.append((peer, *(f"{value:.0f}" if value else "" for value in values)))
    return table(head, rows)


def timeouts(results: Results) -> str:
    """Return what a timeout takes on each loop, and what nothing can do without there."""
    names = ("pywheel.timeout", "asyncio.timeout", "floor")
    rows = []
    for measure in ("timeout", "timeout around sleep(0)"):
        for kind in ("EventLoop", "asyncio", "uvloop"):
            taken = [results.ns(measure, name, workload=f"on {kind}") for name in names]
            ratio = results.ratio(measure, names[1], names[0], workload=f"on {kind}")
            rows.append((f"{measure}, on {kind}", *(spoken(each) if each else "" for each in taken), times(ratio)))
    return table(("", *names, "faster"), rows)


def ttl_dict(results: Results) -> str:
    """Return what TTLDict takes with the most keys, and how many times that cachetools takes."""
    names = ("TTLDict, bounded", "TTLCache", "TTLCache, with a lock")
    rows = []
    for measure in ("set", "[]", "get", "touch", "set again", "set, when full", "expire"):
        for size in results.sizes(measure, "TTL")[-1:]:
            ours = results.ns(measure, "TTLDict", size, "TTL")
            others = [times(results.ratio(measure, name, "TTLDict", size, "TTL")) for name in names]
            rows.append((measure, spoken(ours) if ours else "", *others))
    return table(("", "TTLDict", *names), rows)


def workloads(results: Results) -> str:
    """Return the timeout workload and the recorded trace, beside the others."""
    names = ("TimingWheel", "KeyWheel", "empty call", "pure TimingWheel", "heapq")
    rows = []
    for measure, workload, about in (
        ("timeouts", "timeouts", "timeouts, {} pending"),
        ("replay", "trace", "recorded trace"),
    ):
        for size in results.sizes(measure, workload):
            ours = results.ns(measure, "TimingWheel", size, workload)
            others = [times(results.ratio(measure, name, "TimingWheel", size, workload)) for name in names[1:]]
            rows.append((about.format(text.size(size)), spoken(ours) if ours else "", *others))
    return table(("workload, time an operation", *names), rows)


def callbacks(results: Results) -> str:
    """Return the drivers' calls: the time of AsyncTimers, and how many times that the loops take."""
    rows = []
    for measure in ("schedule", "cancel", "schedule+cancel", "reschedule"):
        for size in results.sizes(measure, "callbacks"):
            ours = results.ns(measure, "AsyncTimers", size, "callbacks")
            others = [times(results.ratio(measure, peer, "AsyncTimers", size, "callbacks")) for peer in LOOPS]
            rows.append((f"{measure}, {text.size(size)}", spoken(ours) if ours else "", *others))
    return table(("call, timers pending", "AsyncTimers", *LOOPS), rows)


def in_a_loop(results: Results) -> str:
    """Return what 20,000 timers of a running loop take, one after the other: EventLoop's, and the others' times it."""
    rows = []
    for measure in ("call_later+cancel", "call_at+fire"):
        ours = results.ns(measure, "EventLoop", workload="callbacks")
        others = [times(results.ratio(measure, peer, "EventLoop", workload="callbacks")) for peer in LOOPS[2:]]
        rows.append((measure, spoken(ours) if ours else "", *others))
    return table(("", "EventLoop", *LOOPS[2:]), rows)


def lateness(results: Results) -> str:
    """Return how late the timers of each driver and loop came under load."""
    names = ("p50_ms", "p99_ms", "max_ms")
    rows = []
    for peer in results.peers("lateness", "callbacks"):
        values = [results.value(name, "lateness", peer, 100_000, "callbacks") for name in names]
        rows.append((peer, *("" if value is None else f"{value:.3g} ms" for value in values)))
    return table(("late by", "p50", "p99", "at most"), rows)


def callback_collection(results: Results) -> str:
    """Return what gc.collect takes with a million callbacks pending."""
    peers = results.peers("gc.collect", "callbacks")
    rows = [(peer, spoken(results.ns("gc.collect", peer, 1_000_000, "callbacks") or 0)) for peer in peers]
    return table(("a million timers pending in", "gc.collect"), rows)

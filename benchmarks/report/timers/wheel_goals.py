"""What the wheel set out to reach, measure by measure."""

from __future__ import annotations

from benchmarks.report.timers.goal import Goal, Part
from benchmarks.report.timers.results import Results

K, M = 1_000, 1_000_000
WHEEL, KEYS = "TimingWheel", "KeyWheel"


def _worst(*numbers: float | None) -> float | None:
    known = [number for number in numbers if number is not None]
    return max(known) if len(known) == len(numbers) else None


def _scaled(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor


def wheel_goals(results: Results) -> list[Goal]:
    """Return every goal with what was measured."""
    return [*_calls(results), *_bulk(results), *_ticks(results), *_memory(results), *_twin(results)]


def _calls(results: Results) -> list[Goal]:
    def times(measure: str, peer: str, size: int) -> float | None:
        return results.ratio(measure, peer, WHEEL, size)

    floor = [Part(1.2, results.ratio("schedule again", WHEEL, "empty call", size)) for size in (K, 100 * K)]
    return [
        Goal("schedule, memory there already, against an empty Cython call, at 1k / 100k", floor, "x"),
        Goal(
            "schedule against heapq, at 100k / 1M",
            [Part(4, times("schedule", "heapq", 100 * K)), Part(8, times("schedule", "heapq", M))],
            "x faster",
            ">=",
        ),
        Goal(
            "schedule+cancel against heapq, median of 1k to 1M",
            [Part(5, results.usual_ratio("schedule+cancel", "heapq", WHEEL))],
            "x faster",
            ">=",
        ),
        Goal("delivery as a list against heapq, at 1M", [Part(40, times("delivery", "heapq", M))], "x faster", ">="),
    ]


def _bulk(results: Results) -> list[Goal]:
    limits = {"schedule_many": 9, "cancel_many": 20, "reschedule_many": 22, "advance_many": 55}
    return [
        Goal(
            "KeyWheel at 1M, each timer: schedule_many / cancel_many random / reschedule_many later / advance_many",
            [Part(limit, results.ns(measure, KEYS, M)) for measure, limit in limits.items()],
            " ns",
        ),
        Goal(
            "KeyWheel at 10M, whole life of a timer (schedule to expiry, re-added)",
            [Part(90, results.ns("whole life", KEYS, 10 * M))],
            " ns",
        ),
        Goal(
            "KeyWheel at 1M, schedule_many into a new wheel, whose memory is not there yet",
            [Part(14, results.ns("schedule_many, new wheel", KEYS, M))],
            " ns",
        ),
    ]


def _ticks(results: Results) -> list[Goal]:
    near, far = "delays to 60000", "delays to 600000"
    calls = ("KeyWheel.advance", "TimingWheel.advance", "KeyWheel.advance_many")
    usual = results.ns("tick", calls[0], M, near)
    worst = [_worst(*(results.value("worst", "tick", call, M, span) for call in calls)) for span in (near, far)]
    return [
        Goal(
            "`KeyWheel.advance` by one tick with 1M pending, delays to 60,000 ticks: median",
            [Part(1.2, _scaled(usual, 1e-3))],
            " us",
        ),
        Goal(
            "the worst of 120,000 ticks, any wheel, any call; with delays to 600,000 ticks",
            [Part(0.3, _scaled(each, 1e3)) for each in worst],
            " ms",
        ),
        Goal("jump over 2^40 empty ticks", [Part(100, results.ns("jump of 2^40", WHEEL))], " ns"),
    ]


def _memory(results: Results) -> list[Goal]:
    def most(size: int) -> float | None:
        return _worst(*(results.value(how, "bytes", WHEEL, size) for how in ("resident", "counted")))

    more = results.more_ms("gc.collect", "the wheel", "a list, empty wheel", M)
    return [
        Goal("bytes a timer at 1M / 1k, without item and handle", [Part(34, most(M)), Part(42, most(K))]),
        Goal(
            "gc.collect with 1M pending, against an empty wheel and the items in a list", [Part(10, more)], " ms more"
        ),
    ]


def _twin(results: Results) -> list[Goal]:
    measures = ("schedule", "cancel", "schedule+cancel", "reschedule", "delivery")

    def against(heap: str, how: str) -> Goal:
        ratios = [results.ratio(measure, "pure TimingWheel", heap, 100 * K) for measure in measures]
        return Goal(
            f"pure twin at 100k against heapq, {how}: " + " / ".join(measures),
            [Part(2, ratio) for ratio in ratios],
            "x",
        )

    return [against("heapq, by methods", "called by methods too"), against("heapq", "written out in the loop")]

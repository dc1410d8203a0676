"""What the timers with callbacks set out to reach, measure by measure."""

from __future__ import annotations

from benchmarks.report.timers.goal import Goal, Part
from benchmarks.report.timers.results import Results
from benchmarks.report.timers.wheel_goals import K, M

LOOP, DRIVER, HAND, THREAD = "EventLoop", "AsyncTimers", "Timers", "ThreadTimers"
CALLBACKS = "callbacks"
IN_A_LOOP = ("call_later+cancel", "call_at+fire", "timeout in sequence")


def timer_goals(results: Results) -> list[Goal]:
    """Return every goal with what was measured."""
    return [
        *_event_loop(results),
        *_timeouts(results),
        *_drivers(results),
        *_lateness(results),
        *_cost(results),
        *_process(results),
    ]


def _event_loop(results: Results) -> list[Goal]:
    measures = " / ".join(IN_A_LOOP)
    goals = []
    for peer, limits in (("asyncio", (4, 4, 2)), ("uvloop", (4, 3.5, 2))):
        ratios = [results.ratio(measure, peer, LOOP, workload=CALLBACKS) for measure in IN_A_LOOP]
        parts = [Part(limit, ratio) for limit, ratio in zip(limits, ratios, strict=True)]
        goals.append(Goal(f"`EventLoop` against {peer}'s: {measures}", parts, "x faster", ">="))
    for what, limit in (("cancelled", 1), ("due at once", 20)):
        worst = results.value("longest_ms", f"1M {what}", LOOP, M, CALLBACKS)
        goals.append(Goal(f"`EventLoop`'s longest turn with 1M timers {what}", [Part(limit, worst)], " ms"))
    for what in ("on one tick", "late", "late, and one in the past"):
        longest = [
            results.value("longest_cpu_ms", f"1M {what}", driver, M, CALLBACKS) for driver in (LOOP, DRIVER, THREAD)
        ]
        whose = "`EventLoop` / `AsyncTimers` / `ThreadTimers`"
        goals.append(
            Goal(f"longest turn, 1M timers {what}, processor time: {whose}", [Part(3, turn) for turn in longest], " ms")
        )
    total = results.ratio("1M due at once", "asyncio", LOOP, M, CALLBACKS)
    goals.append(Goal("all of those, against asyncio's loop", [Part(1, total)], "x faster", ">="))
    collected = results.ratio("gc.collect in a running loop", LOOP, "nothing", M, CALLBACKS)
    goals.append(Goal("gc.collect in a running `EventLoop`, 1M pending, against none", [Part(3, collected)], "x"))
    late = results.value("p99_ms", "lateness", LOOP, 100 * K, CALLBACKS)
    goals.append(Goal("100,000 timers a second for 5 s on `EventLoop`, late by p99", [Part(3, late)], " ms"))
    return goals


def _timeouts(results: Results) -> list[Goal]:
    ratios = [
        results.ratio("timeout", "asyncio.timeout", "pywheel.timeout", workload=f"on {kind}")
        for kind in (LOOP, "asyncio", "uvloop")
    ]
    what = "`pywheel.timeout` against asyncio's, in sequence: on `EventLoop` / asyncio's loop / uvloop"
    return [Goal(what, [Part(3, ratio) for ratio in ratios], "x faster", ">=")]


def _drivers(results: Results) -> list[Goal]:
    def times(measure: str, peer: str, ours: str, size: int) -> float | None:
        return results.ratio(measure, peer, ours, size, CALLBACKS)

    return [
        Goal(
            "`AsyncTimers` on asyncio's loop, start and cancel, against asyncio / uvloop, median of 1k to 1M",
            [
                Part(5, results.usual_ratio("schedule+cancel", peer, DRIVER, CALLBACKS))
                for peer in ("asyncio", "uvloop")
            ],
            "x faster",
            ">=",
        ),
        Goal(
            "`timer.reset()` against cancel and `call_later` on asyncio, 100k pending",
            [Part(20, times("reschedule", "asyncio", DRIVER, 100 * K))],
            "x faster",
            ">=",
        ),
        Goal(
            "`ThreadTimers.call_later` from another thread against `threading.Timer.start`",
            [Part(100, times("start", "threading.Timer", THREAD, K))],
            "x faster",
            ">=",
        ),
    ]


def _lateness(results: Results) -> list[Goal]:
    def value(name: str, driver: str) -> float | None:
        return results.value(name, "lateness", driver, 100 * K, CALLBACKS)

    drivers = THREAD, DRIVER
    return [
        Goal(
            "100,000 timers a second for 5 s, late by p99: `ThreadTimers` / `AsyncTimers`",
            [Part(3, value("p99_ms", driver)) for driver in drivers],
            " ms",
        ),
        Goal("of these, early", [Part(0, value("early", driver)) for driver in drivers]),
    ]


def _cost(results: Results) -> list[Goal]:
    ours, theirs = (
        results.value("resident", "bytes", f"{peer}, one argument", M, CALLBACKS) for peer in (HAND, "asyncio")
    )
    core = results.value("core", "periodic", THREAD, M, CALLBACKS)
    return [
        Goal(
            "bytes a timer with handle, callback and one argument, against asyncio's",
            [Part(0.5, None if ours is None or not theirs else ours / theirs)],
            "x",
        ),
        Goal(
            "gc.collect with 1M timers pending, each with a method and an argument, against none",
            [Part(3, results.ratio("gc.collect", "Timers", "nothing", M, CALLBACKS))],
            "x",
        ),
        Goal("1M periodic timers at one minute: of one core", [Part(10, None if core is None else core * 100)], " %"),
    ]


def _process(results: Results) -> list[Goal]:
    exits = [results.ns("exit", core, M, "process") for core in ("native", "pure")]
    module = results.ns("import", "pywheel", workload="process")
    return [
        Goal(
            "exit of a process with 1M timers of `ThreadTimers` pending: native / pure twin",
            [Part(2, None if nanoseconds is None else nanoseconds / 1e9) for nanoseconds in exits],
            " s",
        ),
        Goal("`import pywheel`", [Part(25, None if module is None else module / 1e6)], " ms"),
    ]

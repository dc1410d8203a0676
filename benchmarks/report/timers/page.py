"""The page of what the wheel and the timers were measured to do."""

from __future__ import annotations

from pathlib import Path

from benchmarks.host import told
from benchmarks.kept import Kept
from benchmarks.report.timers import tables
from benchmarks.report.timers.programs import programs
from benchmarks.report.timers.results import Results
from benchmarks.report.timers.timer_goals import timer_goals
from benchmarks.report.timers.wheel_goals import wheel_goals

PAGE = Path(__file__).with_name("page.md")


def page(kept: Kept) -> str:
    """Return docs/benchmarks.md."""
    results = Results(kept)
    lines = [*wheel_goals(results), *timer_goals(results)]
    return PAGE.read_text(encoding="utf-8").format(
        about=told(kept["about"]),
        versions=", ".join(f"{name} {version}" for name, version in kept["about"]["versions"].items()),
        taken=taken(results),
        reached=tables.reached(lines),
        goals=tables.goals(line for line in lines if line.met != "yes"),
        callbacks=tables.callbacks(results),
        in_a_loop=tables.in_a_loop(results),
        lateness=tables.lateness(results),
        callback_collection=tables.callback_collection(results),
        calls=tables.comparisons(results),
        others=tables.other_calls(results),
        bulk=tables.bulk(results),
        ticks=tables.ticks(results),
        growth=tables.growth(results),
        memory=tables.memory(results),
        programs=programs(results),
        timeouts=tables.timeouts(results),
        ttl_dict=tables.ttl_dict(results),
        workloads=tables.workloads(results),
        horizons=tables.horizons(results),
    )


def taken(results: Results) -> str:
    """Return how quiet the machine was."""
    others = results.about["others"]
    text = f"The last run took {results.about['seconds'] / 60:.0f} min."
    return text if others is None else f"{text} Other programs took {others:.0%} of the processors meanwhile."

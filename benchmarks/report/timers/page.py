"""The page of what the wheel and the timers were measured to do."""

from __future__ import annotations

from pathlib import Path

from benchmarks.report.timers import tables
from benchmarks.report.timers.goal import Goal
from benchmarks.report.timers.programs import programs
from benchmarks.report.timers.results import Results

PAGE = Path(__file__).with_name("page.md")


def page(results: Results, lines: list[Goal], timer_lines: list[Goal]) -> str:
    """Return docs/benchmarks.md."""
    return PAGE.read_text(encoding="utf-8").format(
        machine=machine(results),
        taken=taken(results),
        reached=tables.reached([*lines, *timer_lines]),
        goals=tables.goals(line for line in lines if line.met != "yes"),
        timer_goals=tables.goals(timer_lines),
        callbacks=tables.callbacks(results),
        lateness=tables.lateness(results),
        callback_collection=tables.callback_collection(results),
        calls=tables.comparisons(results),
        others=tables.other_calls(results),
        bulk=tables.bulk(results),
        ticks=tables.ticks(results),
        growth=tables.growth(results),
        memory=tables.memory(results),
        collection=tables.collection(results),
        programs=programs(results),
        timeouts=tables.timeouts(results),
        ttl_dict=tables.ttl_dict(results),
        workloads=tables.workloads(results),
        horizons=tables.horizons(results),
    )


def machine(results: Results) -> str:
    """Return what it ran on."""
    about = results.machine
    processor = about.get("cpu", {}).get("brand_raw") or about.get("processor") or about["machine"]
    cores = about.get("cpu", {}).get("count", "?")
    python = f"{about['python_implementation']} {about['python_version']}"
    return f"pywheel {about['pywheel']['version']}, {python}, {about['system']}, {processor}, {cores} cores."


def taken(results: Results) -> str:
    """Return when, and how quiet the machine was."""
    about = results.machine["pywheel"]
    text = f"From one run, on {results.date}, of {about['seconds'] / 60:.0f} minutes."
    others = about["others"]
    return text if others is None else f"{text} Other programs took {others:.0%} of the processors meanwhile."

"""What `make demo` runs: a real server's timers replayed, then a million timers kept live."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

import pywheel
from benchmarks.timers.workloads import replay
from benchmarks.timers.workloads.trace import Trace, load
from demos.live_server import Outcome, Server

ROOT = Path(__file__).parents[1]
ABOUT = """\
What you will see:

  1. The timers of a real aiohttp server, recorded: 135 365 of them, 60 % cancelled. They are replayed through the
     wheel and through asyncio's own heap, millisecond by millisecond, and must fire in the same milliseconds.
  2. A million timers live against the real clock. Every millisecond, connections are heard from (restart), closed
     (cancel) and opened (schedule), and what expired is started again. How late did timers come, was any early, what
     did a call cost, how much memory does a timer take?
  3. A picture of both.

Exit status: 0 if all is well, 1 if the replays differ, or a timer was early or missed.
"""
EXAMPLES = """\
examples:
  make demo
  python -m demos.timers --seconds 30 --timers 3000000
  python -m demos.timers --no-live              only the replay
  PYWHEEL_PURE=1 python -m demos.timers         with the pure Python twin
"""


@dataclass(frozen=True)
class Defaults:
    """How much each implementation is asked to do."""

    timers: int
    rounds: int
    traffic: float


NATIVE, PURE = Defaults(1_000_000, 5, 1.0), Defaults(50_000, 2, 0.1)


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return the exit status."""
    options = _parser().parse_args(arguments)
    console = Console(highlight=False)
    try:
        return run(options, console)
    except KeyboardInterrupt:
        console.print("\nStopped.")
        return 130


def run(options: argparse.Namespace, console: Console) -> int:
    """Replay, keep timers live, draw."""
    defaults = NATIVE if pywheel.implementation == "native" else PURE
    console.print(f"[bold]pywheel {pywheel.__version__}[/], {pywheel.implementation}, Python {sys.version.split()[0]}")
    if defaults is PURE:
        console.print("This is the pure Python twin: everything is right and slower, so there are fewer timers.")
    console.print()
    trace = load()
    times, problem = replayed(trace, defaults.rounds, console)
    if options.no_live:
        return verdict(console, [problem])
    console.print()
    server = Server(
        pywheel.KeyWheel(), options.timers or defaults.timers, int(options.longest * 1000), defaults.traffic
    )
    outcome = kept_live(server, options.seconds, options.longest, console)
    early = f"{outcome.early} timers came before their deadline" if outcome.early else None
    missed = f"{outcome.missed} timers did not come" if outcome.missed else None
    console.print()
    from demos.picture import draw  # matplotlib takes a second: not for --help

    paths = draw(outcome, times, options.picture)
    console.print("Picture: " + " and ".join(_short(path) for path in paths))
    return verdict(console, [problem, early, missed])


def replayed(trace: Trace, rounds: int, console: Console) -> tuple[dict[str, float], str | None]:
    """Replay the recording through both, in turns; say what came of it."""
    console.print("[bold]1. A real server's timers, replayed[/]")
    console.print(
        f"{trace.scheduled:,} timers scheduled, {trace.cancelled:,} cancelled, {len(trace.fired):,} fired "
        f"in {len(trace.steps) / 1000:.0f} seconds of one process. "
        "Here through TimingWheel, and through asyncio's own loop on a simulated clock."
    )
    took: dict[str, list[int]] = {"pywheel": [], "asyncio": []}
    problem = None
    with console.status("replaying"):
        for _ in range(rounds):
            wheel_ns, wheel_fired = replay.through_wheel(trace, pywheel.TimingWheel())
            asyncio_ns, asyncio_fired = replay.through_asyncio(trace)
            took["pywheel"].append(wheel_ns)
            took["asyncio"].append(asyncio_ns)
            problem = problem or replay.difference(trace, wheel_fired, asyncio_fired)
    times = {name: median(each) for name, each in took.items()}
    table = _table("through", "timers fired", "CPU time", "an operation")
    for name, fired in (("pywheel", wheel_fired), ("asyncio", asyncio_fired)):
        table.add_row(
            name, f"{len(fired):,}", f"{times[name] / 1e6:.0f} ms", f"{times[name] / trace.operations:.0f} ns"
        )
    console.print(table)
    if problem is None:
        same = "The same timers fired in the same milliseconds, and they are those of the recording."
        console.print(f"[green]{same}[/] asyncio took {times['asyncio'] / times['pywheel']:.1f} times as long.")
    return times, problem


def kept_live(server: Server, seconds: float, longest_s: float, console: Console) -> Outcome:
    """Keep timers live for some seconds; print what that showed."""
    console.print(f"[bold]2. {server.outcome.timers:,} timers live for {seconds:g} seconds of real time[/]")
    console.print(f"Timeouts up to {longest_s:g} s, ticks of 1 ms; restarts, cancels and re-arms in every tick.")
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.1f} of {task.total:g} s")
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        task = progress.add_task("live", total=seconds)

        def on_progress(gone: float) -> None:
            progress.update(task, completed=gone, description=f"{len(server.wheel):,} pending")
            progress.refresh()

        outcome = server.run(seconds, on_progress)
    _print_lateness(outcome, console)
    console.print()
    _print_costs(outcome, console)
    console.print(
        f"The wheel was at work for {100 * outcome.busy:.0f} % of the time. All timers were started in "
        f"{outcome.fill_ns / 1e6:.0f} ms."
    )
    console.print(
        f"Memory: {outcome.bytes_counted:.1f} bytes a timer (sys.getsizeof), "
        f"{outcome.bytes_resident:.1f} as the system counts."
    )
    return outcome


def _print_lateness(outcome: Outcome, console: Console) -> None:
    console.print(f"{outcome.lateness_ms.size:,} timers expired. How late they came, in milliseconds:")
    table = _table("", "p50", "p90", "p99", "p99.9", "max", "early", "missed")
    values = [outcome.percentile(percent) for percent in (50, 90, 99, 99.9, 100)]
    defects = (f"[{'bold red' if count else 'green'}]{count}[/]" for count in (outcome.early, outcome.missed))
    table.add_row("late", *(f"{value:.2f}" for value in values), *defects)
    console.print(table)
    console.print(
        "[dim]Up to one tick, 1 ms, of it is the rounding up that keeps a timer from being early; "
        "the rest is this program's turn and the system's wake-up.[/]"
    )


def _print_costs(outcome: Outcome, console: Console) -> None:
    table = _table("call", "calls", "timers", "ns/call", "ns/timer")
    for name, cost in sorted(outcome.costs.items()):
        each = (f"{cost.nanoseconds / max(1, count):,.0f}" for count in (cost.calls, cost.timers))
        table.add_row(name, f"{cost.calls:,}", f"{cost.timers:,}", *each)
    console.print(table)
    console.print("[dim]advance_many counts the timers that expired; it also moves those that were restarted.[/]")


def _table(first: str, *others: str) -> Table:
    """Return a table without lines, so that it fits a narrow terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right")
    return table


def verdict(console: Console, problems: list[str | None]) -> int:
    """Say how it ended; return the exit status."""
    found = [problem for problem in problems if problem]
    for problem in found:
        console.print(f"[bold red]Failed:[/] {problem}.")
    return 1 if found else 0


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demos.timers",
        description=ABOUT,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--timers",
        type=_positive,
        metavar="N",
        help=f"timers kept live (default: {NATIVE.timers}, pure twin {PURE.timers})",
    )
    parser.add_argument(
        "--seconds", type=float, default=8.0, metavar="S", help="how long they are kept live (default: 8)"
    )
    parser.add_argument(
        "--longest", type=float, default=20.0, metavar="S", help="longest timeout of a timer (default: 20)"
    )
    parser.add_argument("--no-live", action="store_true", help="only replay the recording")
    parser.add_argument(
        "--picture",
        type=Path,
        default=ROOT / "build" / "demo.svg",
        metavar="PATH",
        help="where the picture goes, as .svg and as .png (default: build/demo.svg)",
    )
    return parser


def _positive(text: str) -> int:
    number = int(text.replace("_", ""))
    if number < 1000:
        raise argparse.ArgumentTypeError("at least 1000 timers, please")
    return number


if __name__ == "__main__":
    sys.exit(main())

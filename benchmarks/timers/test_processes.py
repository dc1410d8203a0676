"""The cost at both ends of a process: of `import pywheel`, and of its exit with a million timers pending."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

import pywheel
from benchmarks.timers.interleaved import Interleaved, Stages
from benchmarks.timers.settings import QUICK

PENDING = 100_000 if QUICK else 1_000_000
WHERE = str(Path(pywheel.__file__).parents[1])

# An editable install imports much before a program begins, which would then cost nothing here: -S does without.
IMPORT = """
import os, site, sys, time
sys.path.insert(0, {where!r})
start = time.process_time_ns()
import {module}
print(time.process_time_ns() - start)
"""

EXIT = """
import time
import pywheel
timers = pywheel.ThreadTimers()
for number in range({pending}):
    timers.call_later(3600 + number % 977, int)
print(time.monotonic_ns())
"""


def test_import(interleaved: Interleaved) -> None:
    runs = {module: partial(_import, module) for module in ("pywheel", "asyncio")}
    for run in runs.values():
        run()  # for the compiled files, and the disk
    interleaved.run(runs, rounds=5 if QUICK else 11, workload="process")


def _import(module: str) -> Stages:
    return {"import": (int(_run("-S", "-c", IMPORT.format(where=WHERE, module=module))), 1)}


@pytest.mark.parametrize("core", ["native", "pure"])
def test_exit(interleaved: Interleaved, core: str) -> None:
    """From the last line of the program to the end of the process, with a thread that waits for the timers."""
    pure = "1" if core == "pure" else ""
    seconds = [_exit(pure) for _ in range(1 if QUICK else 2)]
    interleaved.keep("exit", core, seconds, size=1_000_000, workload="process")


def _exit(pure: str) -> float:
    last = int(_run("-c", EXIT.format(pending=PENDING), PYWHEEL_PURE=pure))
    return (time.monotonic_ns() - last) / 1e9


def _run(*arguments: str, **environment: str) -> str:
    """Return what Python printed when it has ended."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | environment).stdout

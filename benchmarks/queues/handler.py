"""The function that every queue calls, with two arguments; JOBS_HANDLER says what it does."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from functools import cache
from pathlib import Path

HANDLER = os.environ.get("JOBS_HANDLER", "nothing")
CONCURRENCY = int(os.environ.get("JOBS_CONCURRENCY", "8"))
SLEEPS = {"sleep1": 0.001, "sleep10": 0.01}
TEXT = "x" * 100
_PAIR = struct.Struct("dd")


def work(due: float, text: str) -> None:
    """Do what a handler does, in a thread or a process."""
    if HANDLER in SLEEPS:
        time.sleep(SLEEPS[HANDLER])
    elif HANDLER == "computes":
        _compute()
    elif HANDLER == "records":
        os.write(_file(), _PAIR.pack(due, time.time()))  # a short append is one write, whichever thread does it


async def awork(due: float, text: str) -> None:
    """Do the same in a coroutine."""
    if HANDLER in SLEEPS:
        await asyncio.sleep(SLEEPS[HANDLER])
    else:
        work(due, text)


def _compute() -> None:
    """Use 0.2 ms of the processor."""
    end = time.thread_time_ns() + 200_000
    while time.thread_time_ns() < end:
        pass


@cache
def _file() -> int:
    return os.open(os.environ["JOBS_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def count(path: Path) -> int:
    """Return how many jobs were recorded."""
    return path.stat().st_size // _PAIR.size if path.exists() else 0


def read(path: Path) -> list[tuple[float, float]]:
    """Return (due, came) of each job, in the order in which they came."""
    return sorted(_PAIR.iter_unpack(path.read_bytes()), key=lambda pair: pair[1])

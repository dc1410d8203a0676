"""Whole servers with an idle timeout on each connection, under load from another process on another processor."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import pytest

from benchmarks.timers.interleaved import Interleaved
from benchmarks.timers.peers import available
from benchmarks.timers.programs.clients import ASKS
from benchmarks.timers.settings import QUICK

if sys.platform != "linux":
    pytest.skip("the clients need epoll, and clocks of other processes", allow_module_level=True)

ROOT = Path(__file__).parents[2]
LOOPS = available("asyncio", "EventLoop", "uvloop")
VARIANTS = [(loop, timers) for loop in LOOPS for timers in ("call_later", "AsyncTimers")]
CONNECTIONS = 2_000
IDLE = 10.0  # seconds: a connection that is asked on is heard from many times within
SECONDS = 0.3 if QUICK else 0.8
ROUNDS = {"echo": 2 if QUICK else 4, "http": 1 if QUICK else 3}
PROCESSORS = sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize("program", ROUNDS)
def test_programs(interleaved: Interleaved, program: str) -> None:
    if program == "http":
        pytest.importorskip("aiohttp")
    seen = defaultdict[str, list[dict[str, float]]](list)
    with ExitStack() as stack:
        servers = {" + ".join(variant): stack.enter_context(serving(program, *variant)) for variant in VARIANTS}
        silent = [ask_once(program, port) for _, port in servers.values()]
        # The first turn does not count: as long as no client has gone, glibc maps memory for each of asyncio's reads.
        first = {name: load(program, server) for name, server in servers.items()}
        rate = first["asyncio + call_later"]["a_second"] // 200 * 100
        names = list(servers)
        for number in range(ROUNDS[program]):
            for name in names[number % len(names) :] + names[: number % len(names)]:
                seen[name].append(load(program, servers[name], "--rate", str(rate)))
        for connection in silent:
            assert connection.recv(1) == b""  # the server has closed it
            connection.close()
    for name, turns in seen.items():
        values = {measure: median(turn[measure] for turn in turns) for measure in turns[0]}
        used = [turn["processor"] for turn in turns]
        interleaved.keep(program, name, used, size=CONNECTIONS, workload="programs", values=values)


@contextmanager
def serving(program: str, loop: str, timers: str) -> Iterator[tuple[int, int]]:
    """Start a server in a process; yield that, and its port."""
    command = [sys.executable, "-m", "benchmarks.timers.programs.servers", program, loop, timers]
    command += ["--idle", str(IDLE), "--processor", str(PROCESSORS[0])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        yield server.pid, int(server.stdout.readline())


def ask_once(program: str, port: int) -> socket.socket:
    """Return a connection on which nothing more will come."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(ASKS[program])
    connection.recv(1 << 16)
    return connection


def load(program: str, server: tuple[int, int], *more: str) -> dict[str, float]:
    """Return what the clients saw."""
    process, port = server
    command = [sys.executable, "-m", "benchmarks.timers.programs.clients", program, str(port), "--server", str(process)]
    command += ["--connections", str(CONNECTIONS), "--seconds", str(SECONDS), "--processor", str(PROCESSORS[-1])]
    return dict(json.loads(subprocess.run([*command, *more], check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout))

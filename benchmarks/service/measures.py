"""The measures of the service: puts by HTTP beside the same puts within a process, in turns."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.rows import Measure
from benchmarks.service.client import BATCH, JOB

ROUNDS = 3
_SECONDS = 3.0
_SCRIPT = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = [==[{body}]==]
"""


def python(module: str, *arguments: object) -> str:
    """Return what a module of this folder prints."""
    command = [sys.executable, "-m", f"benchmarks.service.{module}", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def serving(store: str, access: str = "open") -> Iterator[tuple[int, list[str]]]:
    """Serve a store inside the block; give the port, and a token if one is wanted."""
    command = [sys.executable, "-m", "benchmarks.service.serve", store, access]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            port, *token = server.stdout.readline().split()
            yield int(port), token
        finally:
            server.terminate()


@contextmanager
def on_disk(access: str = "open") -> Iterator[tuple[int, list[str]]]:
    """Serve a new store inside the block."""
    with (
        tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder,
        serving(f"sqlite:///{folder}/jobs.db", access) as served,
    ):
        yield served


def loaded(port: int, connections: int, *, path: str = "/v1/jobs", body: bytes = JOB) -> float:
    """Return requests a second: by wrk if there is one, as it leaves the server most of the processor."""
    if shutil.which("wrk") is None:
        batch = ["batch"] if body is BATCH else []
        return float(json.loads(python("client", port, connections, _SECONDS, *batch))["rate"])
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(_SCRIPT.format(body=body.decode()))
        script.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{_SECONDS:.0f}s", "-s", script.name]
        command.append(f"http://127.0.0.1:{port}{path}")
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert "Non-2xx" not in said, said
    found = re.search(r"Requests/sec:\s+([0-9.]+)", said)
    assert found is not None
    return float(found[1])


def beside(connections: int) -> dict[str, float]:
    """Return puts a second by HTTP, within a process, and without a store; and the ratio of the first two."""
    with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
        inside = float(python("inside", f"sqlite:///{folder}/inside.db", connections, _SECONDS))
        with serving(f"sqlite:///{folder}/http.db") as (port, _):
            http = loaded(port, connections)
        with serving("none") as (port, _):
            floor = loaded(port, connections)
    return {"http": http, "in-process": inside, "ratio": http / inside, "without a store": floor}


def at_half_load(connections: int = 64) -> dict[str, float]:
    """Return ms at p50 and p99 of puts at half the rate that is reached."""
    with (
        tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder,
        serving(f"sqlite:///{folder}/jobs.db") as (port, _),
    ):
        most = float(json.loads(python("client", port, connections, _SECONDS))["rate"])
        found = json.loads(python("client", port, connections, _SECONDS, most / 2))
        return {"puts/s": found["rate"], "p50": found["p50"], "p99": found["p99"]}


def batches(connections: int = 1) -> dict[str, float]:
    """Return jobs a second, put a thousand at a time."""
    with (
        tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder,
        serving(f"sqlite:///{folder}/jobs.db") as (port, _),
    ):
        return {"jobs/s": 1_000 * loaded(port, connections, path="/v1/jobs/batch", body=BATCH)}


def among(kind: str, rate: int = 500) -> dict[str, float]:
    """Return ms at p99 of a polite client's puts, at a fixed rate, without hostile clients and among them."""
    with on_disk("tokens" if kind == "tokens" else "open") as (port, token):
        polite = ("client", port, 8, _SECONDS, rate, *token)
        alone = json.loads(python(*polite))
        command = [sys.executable, "-m", "benchmarks.service.hostile", str(port), kind]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as hostile:
            assert hostile.stdout is not None
            hostile.stdout.readline()
            found = json.loads(python(*polite))
            hostile.terminate()
    return {"p99 alone": alone["p99"], "p99": found["p99"], "puts/s": found["rate"]}


MEASURES = [
    Measure("one", ROUNDS, "ratio ≥ 0.35", "one connection", lambda _: beside(1)),
    Measure("many", ROUNDS, "http ≥ 12,000", "64 connections", lambda _: beside(64)),
    Measure("half", ROUNDS, "p99 ≤ 15 ms", "64 connections at half of what they reach", lambda _: at_half_load()),
    Measure("batch", ROUNDS, "≥ 40,000 jobs/s", "batches of 1,000, one connection", lambda _: batches()),
    *(
        Measure(kind, ROUNDS, "p99 ≤ 50 ms", f"500 puts/s beside {title}", lambda _, kind=kind: among(kind))  # type: ignore[misc]
        for kind, title in (
            ("idle", "10,000 idle connections"),
            ("slow", "200 clients that send a byte a second"),
            ("tokens", "1,000 wrong tokens a second"),
            ("large", "bodies over the limit"),
        )
    ),
]

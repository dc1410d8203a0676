"""What the page costs: its first view, a topic of 100 000 jobs, and open pages while jobs are at work.

    python -m benchmarks.service.pages [--pages 200] [--seconds 20]

The server is a process of its own, as is the shop's worker; the readers are in this one.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path

from demos import shop
from pywheel import JobQueue

PATHS = ["/", "/jobs?topic=big.topic", "/jobs?topic=big.topic&newest=1", "/jobs?error=nothing+has+it", "/dead"]
HEADERS = {"Accept-Encoding": "gzip"}


def main() -> None:
    """Print the figures."""
    words = argparse.ArgumentParser()
    words.add_argument("--pages", type=int, default=200)
    words.add_argument("--seconds", type=float, default=20)
    asked = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/jobs.db"
        with JobQueue(url) as queue:
            shop.fill(queue)
            for _ in range(10):
                queue.put_many([queue.job("big.topic", b"{}", delay=86_400 + n) for n in range(10_000)])
        port = _free()
        server = [sys.executable, "-m", "pywheel.cli", "serve", "--open", "--port", str(port), "--store", url]
        worker = [sys.executable, "-m", "demos.shop", url]
        with _running(server, Path(folder) / "server.log") as process, _running(worker, Path(folder) / "worker.log"):
            _wait(port)
            time.sleep(3)  # the worker begins
            _first_view(port, process.pid, "the first of all")
            for _ in range(4):
                time.sleep(1.5)  # a new snapshot
                _first_view(port, process.pid, "of another viewer")
            for path in (
                "/",
                "/jobs?topic=big.topic",
                "/jobs?topic=big.topic&newest=1",
                "/jobs?error=nothing+has+it",
                "/dead",
            ):
                _times(port, path)
            _open_pages(port, process.pid, asked.pages, asked.seconds)


def _first_view(port: int, pid: int, whose: str) -> None:
    before, began = _cpu(pid), time.perf_counter()
    page, _ = _get(port, "/")
    total, first = len(page), time.perf_counter() - began
    for path in re.findall(r'(?:href|src)="(/static/[^"]+)"', gzip.decompress(page).decode()):
        total += len(_get(port, path)[0])
    whole, spent = time.perf_counter() - began, _cpu(pid) - before
    size = f"{total / 1000:.1f} kB compressed"
    times = f"{first * 1000:.0f} ms, with its files {whole * 1000:.0f} ms ({spent * 1000:.0f} ms of CPU)"
    print(f"first view {whose}: {times}, {size}")


def _times(port: int, path: str) -> None:
    times = []
    for _ in range(15):
        began = time.perf_counter()
        content, _ = _get(port, path)
        times.append((time.perf_counter() - began) * 1000)
    size = f"{len(content) / 1000:.1f} kB"
    print(f"{path}: median {statistics.median(times):.1f} ms, slowest of 15 {max(times):.1f} ms, {size}")


def _open_pages(port: int, pid: int, pages: int, seconds: float) -> None:
    idle = _cpu(pid)
    time.sleep(5)
    alone = (_cpu(pid) - idle) / 5
    watcher, sockets, received = selectors.DefaultSelector(), [], 0
    for _ in range(pages):
        reader = socket.create_connection(("127.0.0.1", port))
        reader.sendall(
            f"GET /live?view=overview HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept-Encoding: gzip\r\n\r\n".encode()
        )
        reader.setblocking(False)
        watcher.register(reader, selectors.EVENT_READ)
        sockets.append(reader)
    time.sleep(2)
    before, began = _cpu(pid), time.monotonic()
    while time.monotonic() - began < seconds:
        for key, _ in watcher.select(0.2):
            received += len(key.fileobj.recv(1 << 20))
    spent, took = _cpu(pid) - before, time.monotonic() - began
    for reader in sockets:
        reader.close()
    print(
        f"{pages} open pages: {spent / took * 100:.1f} % of a core ({alone * 100:.1f} % without any), "
        f"{received / took / pages / 1000:.2f} kB/s each"
    )


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _get(port: int, path: str) -> tuple[bytes, int]:
    connection = HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers=HEADERS)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {content[:500]!r}")
    return content, answer.status


def _free() -> int:
    with socket.socket() as ear:
        ear.bind(("127.0.0.1", 0))
        return ear.getsockname()[1]


def _wait(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit("the server did not start")


class _running:  # noqa: N801
    def __init__(self, command: list[str], log: Path) -> None:
        self._process = subprocess.Popen(command, stdout=log.open("wb"), stderr=subprocess.STDOUT)

    def __enter__(self) -> subprocess.Popen[bytes]:
        return self._process

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(20)


if __name__ == "__main__":
    main()

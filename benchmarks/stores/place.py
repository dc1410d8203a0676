"""The place of a store that is measured: a real server of its own, and its description."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Self
from urllib.parse import quote

from benchmarks.host import fsync_p50
from benchmarks.jobs.floor import Floor
from tests.stores.network import Proxy
from tests.stores.server import Server, find


class Place(ABC):
    """A server that was started for one measure, empty; ended by `with`. Not `durable`: it waits for no disk."""

    kind: ClassVar[type[Server]]
    settings: ClassVar[dict[str, Any]] = {}
    server: Server

    def __init__(self, *, durable: bool = True) -> None:
        self.server = self.kind(fsync=durable, settings=self.settings)
        self._connection: Any = None

    def __enter__(self) -> Self:
        self.server.__enter__()
        self._connection = self.server.connect()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self.server.close()

    def url(self) -> str:
        """Return the address of an empty store."""
        return str(self.server.url())

    @contextmanager
    def proxied(self) -> Iterator[tuple[str, str, Proxy]]:
        """Give the address of an empty store, its address by way of a proxy, and the proxy."""
        with Proxy(self.server) as proxy:
            address = self.server.url(via=proxy)
            yield self._direct(address, proxy), address, proxy

    def _direct(self, address: str, proxy: Proxy) -> str:
        place = Path(proxy.address).parent
        assert quote(str(place)) in address, address
        return address.replace(quote(str(place)), quote(str(self.server.folder)))

    def version(self) -> str:
        """Return the version of the server."""
        printed = subprocess.run([self.server.path, "--version"], capture_output=True, text=True, check=True).stdout
        return re.findall(r"[0-9]+[.][0-9][0-9.]*", printed)[0]

    # ---- floors ------------------------------------------------------------------------------------------------------

    def fsync(self) -> float:
        """Return the median seconds of a write to the disk under it."""
        return fsync_p50(self.server.folder)

    def trip(self, rounds: int = 300) -> float:
        """Return the median seconds of the least possible request to the server."""
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            self.ask()
            times.append(time.perf_counter() - began)
        return median(times)

    @abstractmethod
    def ask(self) -> None:
        """Send the server the least possible request."""

    @abstractmethod
    def floor(self) -> Floor:
        """Return a Floor: one table with one index."""

    def tool(self, clients: int, count: int) -> float:
        """Return inserts a second of the server's own tool with `clients` clients; 0 without such a tool."""
        return 0

    # ---- what it takes -----------------------------------------------------------------------------------------------

    @abstractmethod
    def size(self) -> float:
        """Return the bytes that all is stored in."""

    def queries(self) -> float:
        """Return how many queries the server was asked so far; 0 where there is none."""
        return 0

    def settle(self) -> None:  # noqa: B027  (most have nothing to do)
        """Do the server's background work for the jobs that were put."""

    def processor_seconds(self) -> float:
        """Return the server's processor time so far, its helpers included."""
        ticks = _ticks(self.server.pid, ended=True) + sum(_ticks(pid) for pid in _children(self.server.pid))
        return ticks / os.sysconf("SC_CLK_TCK")


def run(program: str, package: str, *arguments: object, given: str = "") -> str:
    """Return what a tool of a server prints."""
    command = [find(program, package), *map(str, arguments)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{program}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.stdout


@contextmanager
def memory_folder() -> Iterator[Path]:
    """Give a temporary folder in memory, where there is one."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="pywheel-bench-", dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _ticks(pid: int, *, ended: bool = False) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return sum(map(int, fields[11 : 15 if ended else 13]))

"""A peer at work: its server, its client and its worker, for one measure."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.queues import languages, record, servers
from benchmarks.queues.catalogue import Peer
from benchmarks.queues.processes import Program


class Site:
    """What a measure works with."""

    def __init__(self, peer: Peer, folder: Path, url: str, server: Program | None) -> None:
        self.server = server
        self._peer = peer
        self._folder = folder
        self._records = folder / "records"
        self._url = url
        extra = dict(setting.split("=") for setting in peer.environment.split())
        self._env = languages.environment() | {"JOBS_URL": url, "JOBS_RECORD": str(self._records)} | extra
        if peer.setup:
            self._run(peer.setup)

    def rate(self, way: str, seconds: float) -> float:
        """Put as many jobs as a process can: `one` by one, by `tasks`, or `many` at once; return how many a second."""
        return float(self._client("rate", way, seconds))

    def fill(self, count: int, earliest: float = 0, latest: float = 0, pace: float = 0) -> None:
        """Put jobs from a process, `pace` a second, or as fast as it can."""
        self._client("fill", count, earliest, latest, pace)

    @contextmanager
    def worker(self, *, ready: bool = True) -> Iterator[Program]:
        """Run a worker; if `ready`, it has handled a job, which is the first of `records`."""
        if ready:
            self.fill(1)
        command = self._command(self._peer.worker.format(url=self._url))
        with Program(command, self._folder / "worker.log", env=self._env) as worker:
            if ready and not self.wait_for(1, 60):
                raise RuntimeError(f"the worker handles nothing:\n{worker.complaint()}")
            yield worker

    def wait_for(self, count: int, seconds: float) -> bool:
        """Wait until so many jobs have come; return whether they have."""
        last = time.monotonic() + seconds
        while record.count(self._records) < count:
            if time.monotonic() > last:
                return False
            time.sleep(0.05)
        return True

    def records(self) -> list[tuple[float, float]]:
        """Return (due, came) of each job that came."""
        return record.read(self._records) if self._records.exists() else []

    def _client(self, *asked: object) -> str:
        return self._run(" ".join([self._peer.client.format(name=self._peer.name), *map(str, asked)]))

    def _run(self, command: str) -> str:
        done = subprocess.run(self._command(command), env=self._env, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{command}:\n{done.stderr}")
        return done.stdout

    def _command(self, text: str) -> list[str]:
        return [*languages.command(self._peer.language), *text.split()]


@contextmanager
def site(peer: Peer) -> Iterator[Site]:
    """Run what the peer needs, in a folder that goes away with it."""
    with tempfile.TemporaryDirectory(prefix="pywheel-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with servers.run(peer.server, folder) as (url, server):
            yield Site(peer, folder, url, server)

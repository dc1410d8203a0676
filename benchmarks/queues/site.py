"""A peer at work: its server, its client and its worker, for one measure."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.queues import record, servers
from benchmarks.queues.catalogue import Peer
from benchmarks.queues.processes import Program


class Site:
    """What a measure works with."""

    def __init__(self, peer: Peer, folder: Path, url: str, server: Program | None) -> None:
        self.server = server
        self._peer = peer
        self._folder = folder
        self._records = folder / "records"
        if peer.name == "pywheel":
            url = f"sqlite:///{url}"
        extra = dict(setting.split("=") for setting in peer.environment.split())
        self._env = os.environ | {"JOBS_URL": url, "JOBS_RECORD": str(self._records)} | extra
        if peer.setup:
            self._run(peer.setup)

    def put(self, count: int, earliest: float, latest: float) -> float:
        """Put jobs from a process; return how many a second."""
        return float(self._run(f"benchmarks.queues.client {self._peer.name} {count} {earliest} {latest}"))

    @contextmanager
    def worker(self, *, ready: bool = True) -> Iterator[Program]:
        """Run a worker; if `ready`, it has handled a job, which is the first of `records`."""
        if ready:
            self.put(1, 0, 0)
        command = [sys.executable, "-m", *self._peer.worker.format(url=self._env["JOBS_URL"]).split()]
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

    def _run(self, command: str) -> str:
        done = subprocess.run([sys.executable, "-m", *command.split()], env=self._env, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{command}:\n{done.stderr}")
        return done.stdout


@contextmanager
def site(peer: Peer) -> Iterator[Site]:
    """Run what the peer needs, in a folder that goes away with it."""
    with tempfile.TemporaryDirectory(prefix="pywheel-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with servers.run(peer.server, folder) as (url, server):
            yield Site(peer, folder, url, server)

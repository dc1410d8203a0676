"""A peer at work: its server, its client and its workers, for one round."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.queues import handler, languages, servers
from benchmarks.queues.catalogue import Peer
from benchmarks.queues.processes import Program

PATIENCE = 60.0  # seconds


class Drained(NamedTuple):
    """Seconds from before the workers' start until all jobs ended, and until some did; the rest a second, or 0."""

    seconds: float
    first: float
    after: float


class Site:
    """The parts of a round."""

    def __init__(self, peer: Peer, folder: Path, url: str) -> None:
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

    def fill(self, count: int, earliest: float, latest: float, pace: float) -> None:
        """Put jobs from a process, `pace` a second."""
        self._client("fill", count, earliest, latest, pace)

    def drain(self, what: str, count: int) -> Drained:
        """Put jobs that are due, then start workers, and return when the store had ended them."""
        command = self._command(self._client_command("drain", count))
        with subprocess.Popen(command, env=self._env, stdout=subprocess.PIPE, text=True) as client:
            try:
                assert client.stdout is not None
                if not client.stdout.readline():
                    raise RuntimeError("the client puts nothing")
                began = time.time()
                with self.worker(what) as workers:
                    try:
                        first, rest, end = map(float, client.communicate(timeout=PATIENCE)[0].split())
                    except (subprocess.TimeoutExpired, ValueError):
                        raise RuntimeError(f"not all jobs ended:\n{workers[0].complaint()}") from None
            finally:
                client.kill()
        return Drained(end - began, first - began, rest / (end - first) if rest else 0)

    @contextmanager
    def worker(self, what: str) -> Iterator[list[Program]]:
        """Run workers with this handler, as many as the peer needs."""
        processes, concurrency = self._peer.size(what)
        command = self._command(self._peer.worker.format(url=self._url, concurrency=concurrency))
        env = self._env | {"JOBS_HANDLER": what, "JOBS_CONCURRENCY": str(concurrency)}
        with ExitStack() as stack:
            logs = [self._folder / f"worker{number}.log" for number in range(processes)]
            yield [stack.enter_context(Program(command, log, env=env)) for log in logs]

    def wait_for(self, count: int, seconds: float) -> bool:
        """Wait until `count` jobs were recorded; return whether they were."""
        last = time.monotonic() + seconds
        while handler.count(self._records) < count:
            if time.monotonic() > last:
                return False
            time.sleep(0.05)
        return True

    def records(self) -> list[tuple[float, float]]:
        """Return (due, came) of each job that was recorded."""
        return handler.read(self._records) if self._records.exists() else []

    def _client(self, *asked: object) -> str:
        return self._run(self._client_command(*asked))

    def _client_command(self, *asked: object) -> str:
        return " ".join([self._peer.client.format(name=self._peer.name), *map(str, asked)])

    def _run(self, command: str) -> str:
        done = subprocess.run(self._command(command), env=self._env, capture_output=True, text=True, timeout=PATIENCE)
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
        with servers.run(peer.server, folder) as (url, _):
            yield Site(peer, folder, url)

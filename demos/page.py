"""The page of a shop's jobs at work, looked at by Chromium if there is one; the picture stays in ``build/page.png``."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from demos import shop
from pywheel import JobQueue

__all__ = ["running"]

PICTURE = Path("build/page.png")
SECONDS = 12  # of work before the picture
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--hide-scrollbars --window-size=1280,800 --timeout=4000"
).split()


def main() -> None:
    """Serve the page for a while, and leave a picture of it."""
    with running() as (url, queue):
        print(
            f"\nthe page of {sum(counts.delayed for counts in queue.topics.counts().values()):,} delayed jobs: {url}/"
        )
        before = _done(queue)
        with urllib.request.urlopen(f"{url}/") as page:
            print(f"first view: {len(page.read()) / 1000:.1f} kB of HTML, uncompressed")
        time.sleep(SECONDS)
        print(f"{_done(queue) - before:,} jobs were done meanwhile")
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            print("no picture: chromium is not installed")
            return
        PICTURE.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="pywheel-chromium-") as profile:
            command = [chromium, *FLAGS, f"--user-data-dir={profile}", f"--screenshot={PICTURE.resolve()}", f"{url}/"]
            result = subprocess.run(command, capture_output=True, timeout=60, check=False)
        print(f"its picture: {PICTURE}" if PICTURE.exists() else f"no picture: {result.stderr[-500:]!r}")


def _done(queue: JobQueue) -> int:
    return sum(counts.done for counts in queue.topics.counts().values())


@contextmanager
def running(workers: int = 1) -> Iterator[tuple[str, JobQueue]]:
    """Yield the address of a server of a shop's page, whose workers are at work, and the shop's queue."""
    with tempfile.TemporaryDirectory(prefix="pywheel-page-") as folder, ExitStack() as stack:
        store = f"sqlite:///{folder}/shop.db"
        queue = stack.enter_context(JobQueue(store))
        shop.fill(queue)
        log = stack.enter_context((Path(folder) / "log").open("w+b"))
        serve = [sys.executable, "-m", "pywheel.cli", "serve", "--open", "--port", "0", "--store", store]
        server = stack.enter_context(_process(serve, log))
        for number in range(1, workers + 1):
            stack.enter_context(
                _process([sys.executable, "-m", "demos.shop", store, f"jobs-{number}:{2100 + number}"], log)
            )
        yield _address(server, Path(log.name)), queue


@contextmanager
def _process(command: list[str], log: object) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=log, stderr=log)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    """Return where the server listens, once it says so."""
    end = time.monotonic() + 30
    while time.monotonic() < end and server.poll() is None:
        said = log.read_text(errors="replace")
        if "http://" in said:
            return "http://" + said.partition("http://")[2].split()[0]
        time.sleep(0.05)
    raise SystemExit(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")


if __name__ == "__main__":
    main()

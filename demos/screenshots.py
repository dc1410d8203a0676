"""Pictures of the page for its documentation, of a shop's jobs at work: ``python -m demos.screenshots docs/images``."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demos import shop
from demos.page import running

FLAGS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking".split()
WIDE = {"width": 1280, "height": 800}
WARM = 75  # seconds: a minute of throughput is shown


def main(folder: str) -> None:
    """Write the pictures into a folder."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("chromium is not installed: apt-get install chromium")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    with running(workers=3) as (url, queue), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        first = browser.new_page()
        first.goto(url)
        time.sleep(WARM)
        dead = next(job.id for job in queue.jobs.list(topic="shop.notify", state="dead"))
        for name, address, words in _pictures(dead):
            context = browser.new_context(
                viewport=words.pop("viewport", WIDE), device_scale_factor=1, timezone_id="Europe/Zurich", **words
            )
            page = context.new_page()
            page.goto(url + address)
            page.wait_for_timeout(2500)
            page.screenshot(path=target / f"page-{name}.png")
            context.close()
        browser.close()


def _pictures(dead: int) -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield "overview", "/", {}
    yield "overview-dark", "/", {"color_scheme": "dark"}
    yield "jobs", "/jobs?topic=shop.notify&state=delayed", {}
    yield "job", f"/jobs/{dead}", {}
    yield "dead", "/dead", {"color_scheme": "dark"}
    yield "workers", "/workers", {"viewport": {"width": 1280, "height": 460}}


__all__ = ["main", "shop"]

if __name__ == "__main__":
    main(*sys.argv[1:])

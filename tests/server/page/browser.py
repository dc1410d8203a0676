"""Chromium for tests: any error that a page logs or raises, and any violation of its policy, fails the test."""

import contextlib
import os
from pathlib import Path

from tests.jobs.waiting import LIMIT
from tests.stores.server import Missing, find

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
).split()
WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 375, "height": 812}
# Said by Chromium itself while a server is away, or when a page is refused as it should be.
EXPECTED = ("Failed to load resource", "net::ERR_", "htmx:sse:error", "htmx: htmx:error")
_REFUSED = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`))"""


@contextlib.contextmanager
def launched():
    """A running Chromium. Missing: something of it is not installed."""
    path = os.environ.get("PYWHEEL_CHROMIUM") or find("chromium", "chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise Missing(str(error)) from None
    with sync_playwright() as playwright, playwright.chromium.launch(executable_path=path, args=FLAGS) as running:
        yield running


@contextlib.contextmanager
def axe():
    """axe-core's source. Missing: npm has not installed it."""
    file = Path(os.environ.get("PYWHEEL_AXE", ""), "node_modules", "axe-core", "axe.min.js")
    if not file.exists():
        raise Missing("axe-core is not installed: make page does it")
    yield file.read_text()


class Browser:
    """One Chromium, with as many people as a test asks for."""

    def __init__(self, chromium):
        self._chromium = chromium
        self._stack = contextlib.ExitStack()
        self.errors = []

    def person(self, site, scheme="light", viewport=WIDE, *, token=None, script=True):
        """Return a page of somebody who has opened nothing yet."""
        context = self._chromium.new_context(
            base_url=site.url, color_scheme=scheme, viewport=viewport, java_script_enabled=script,
            timezone_id="Europe/Zurich", locale="en-GB",
        )  # fmt: skip
        self._stack.callback(context.close)
        context.set_default_timeout(LIMIT * 1000)
        if script:
            context.add_init_script(_REFUSED)
        if token:
            context.add_cookies([{"name": "pywheel_token", "value": token, "url": site.url}])
        page = context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page

    def _heard(self, message):
        if message.type == "error" and not any(part in message.text for part in EXPECTED):
            self.errors.append(message.text)

    def close(self):
        """Close every page; return what went wrong in them."""
        self._stack.close()
        return self.errors


def findings(page, source):
    """Return what axe finds, in short."""
    page.evaluate(source)
    results = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary'][:300]}"
        for one in results["violations"]
    ]

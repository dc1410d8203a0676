"""Debian's programs that check and run the files of ``deploy/`` and of pages."""

import http.client
import json
import os
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import NamedTuple

from tests.stores.server import Missing, Server, find

__all__ = ["AMTOOL", "CADDY", "DEPLOY", "NGINX", "PROMTOOL", "TOOLS", "Prometheus", "checked", "located"]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


class Tool(NamedTuple):
    """A program and its package."""

    program: str
    package: str

    def located(self):
        return find(self.program, self.package)


class Prometheus(Server):
    """Prometheus, at a port of the loopback, with the configuration and the file ``rules.yml`` that it is given."""

    program, package, driver = "prometheus", "prometheus", "prometheus_client"

    def __init__(self, configuration, rules, port, **options):
        self.configuration, self.rules, self.port = configuration, rules, port
        super().__init__(**options)

    def initialise(self):
        self.file = self.folder / "prometheus.yml"
        self.file.write_text(self.configuration)
        (self.folder / "rules.yml").write_text(self.rules)
        self.data.mkdir()
        self._give(self.data)

    def command(self):
        place = f"--web.listen-address=127.0.0.1:{self.port}"
        return [self.path, f"--config.file={self.file}", f"--storage.tsdb.path={self.data}", place]

    def knock(self):
        """Raise OSError if it is not ready."""
        self.ask("/-/ready")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port)

    def url(self, via=None, **_):
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path, **query):
        """Return an answer's body."""
        address = f"{self.url()}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.read()

    def query(self, expression):
        """Return what an expression of PromQL is now: by label set, as text."""
        result = json.loads(self.ask("/api/v1/query", query=expression))["data"]["result"]
        return {tuple(sorted(found["metric"].items())): float(found["value"][1]) for found in result}


PROMTOOL = Tool("promtool", "prometheus")
SYSTEMD_ANALYZE = Tool("systemd-analyze", "systemd")
NGINX = Tool("nginx", "nginx-light")
CADDY = Tool("caddy", "caddy")
AMTOOL = Tool("amtool", "prometheus-alertmanager")
TOOLS = [Prometheus, SYSTEMD_ANALYZE, NGINX, CADDY, AMTOOL]
"""The programs that these tests need: `tests.stores.servers` names the missing packages."""


def located(tool):
    """Return the path of a tool. Where it is not installed the test is skipped, as for servers."""
    import pytest  # which is not there when only what is missing is asked for

    try:
        return tool.located()
    except Missing as missing:
        if os.environ.get("PYWHEEL_REQUIRE_SERVERS") == "1":
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


def checked(tool, *arguments):
    """Run a tool; it must succeed."""
    result = subprocess.run([located(tool), *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"{result.stdout}\n{result.stderr}"
    return result.stdout + result.stderr

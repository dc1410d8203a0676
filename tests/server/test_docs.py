"""What pages show of the service works as shown."""

import os
import re
import shutil
import subprocess

import pytest

from pywheel import JobQueue
from pywheel.server.problems import KINDS
from tests.docs.pages import blocks, text
from tests.server.client import Process

COMMANDS = {
    page: [command for block in blocks(page, "sh") for command in re.split(r"\n(?=curl)", block.strip())]
    for page in ("docs/server.md", "docs/coming-from-lmstfy.md")
}


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize("page", COMMANDS)
def test_every_command_is_answered_well(page, tmp_path):
    server = Process(tmp_path, "--open")
    environment = {**os.environ, "no_proxy": "*"}
    try:
        for command in COMMANDS[page]:
            if "$RECEIPT" in command:
                server("POST", "/v1/jobs", json={"topic": "of its own"})
                answer = server("POST", "/v1/reserve", json={"topics": ["of its own"]})
                environment["RECEIPT"] = answer.json()["jobs"][0]["receipt"]
            if "nightly" in command:
                with JobQueue(server.store) as queue:
                    queue.schedules.set("nightly", "report", every="1d")
            line = command.replace("localhost:8080", f"localhost:{server.port}").replace("curl -s", "curl -sf", 1)
            stream = "-sfN" in line
            line = line.replace("-sfN", "-sfN --max-time 1")
            done = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, timeout=60)
            assert done.returncode == (28 if stream else 0), (command, done.returncode, done.stdout, done.stderr)
    finally:
        assert server.stop() == 0


def test_every_kind_of_problem_is_listed():
    listed = re.findall(r"^\| `([a-z0-9-]+)` \| (\d+) \| (.*) \|$", text("docs/server.md"), re.MULTILINE)
    assert {name: (int(status), title) for name, status, title in listed} == {
        name: tuple(kind) for name, kind in KINDS.items()
    }

"""The code about other queues in docs/coming-from.md runs with them, on real servers."""

import os
import socket
import subprocess

import pytest

from tests.docs.pages import blocks
from tests.stores.servers import Redis, started

pytestmark = pytest.mark.coming
NAMES = ["celery", "arq", "plugin"]
BEFORE = dict(zip(NAMES, blocks("docs/coming-from.md", "py"), strict=True))
del BEFORE["plugin"]  # tests/inlets/test_docs.py runs it


@pytest.fixture(scope="module")
def redis():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    yield from started(Redis, settings={"port": port})


def run(code, folder):
    """Run a page's lines as the module `before`: a queue keeps its functions by the module's name."""
    (folder / "before.py").write_text(code, encoding="utf-8")
    command = [os.environ["PYWHEEL_COMING"], "-c", "import before"]  # which has those queues
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", BEFORE)
def test_lines_before_put_something_into_redis(name, redis, tmp_path):
    with redis.connect() as client:
        client.flushdb()
        run(BEFORE[name].replace("redis://localhost:6379", f"redis://localhost:{redis.settings['port']}"), tmp_path)
        assert client.dbsize() > 0

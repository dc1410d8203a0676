"""Programs in other languages: each runs the same scenarios against a real server, by what the OpenAPI document says."""

import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from pywheel.server.tokens import Tokens
from pywheel.stores import open as open_store
from tests.clients import tools

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Address and token of a server in a process of its own."""
    folder = tmp_path_factory.mktemp("server")
    url = f"sqlite:///{folder}/jobs.db"
    with open_store(url) as store:
        token = Tokens(store).add(("put", "read", "work"))
    command = [sys.executable, "-m", "pywheel.cli", "serve", "--port", "0", "--store", url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            said = process.stderr.readline()
            assert " on http://" in said, said
            yield {"PYWHEEL_URL": said.partition(" on ")[2].split()[0], "PYWHEEL_TOKEN": token}
        finally:
            process.terminate()
            print(process.stderr.read())
    assert process.returncode == 0


@pytest.mark.parametrize("language", tools.BUILT)
def test_the_scenarios_hold(language, server, tmp_path):
    command = tools.BUILT[language](tmp_path)
    said = tools.run(*command, tools.HERE / "scenarios.json", **server)
    assert [line for line in said.splitlines() if line.startswith("ok ")] == [
        f"ok {scenario['name']}" for scenario in tools.scenarios()
    ]


def test_the_types_of_the_node_client_are_those_of_the_document(tmp_path):
    tools.node_types(tmp_path / "schema.d.ts")
    kept = tools.ROOT / "examples" / "node-client" / "schema.d.ts"
    assert (tmp_path / "schema.d.ts").read_text() == kept.read_text(), "make node-client writes it anew"


def test_a_client_without_a_token_is_refused(server):
    for headers in ({}, {"Authorization": "Bearer pw_none_none"}):
        request = urllib.request.Request(f"{server['PYWHEEL_URL']}/v1/jobs", headers=headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        assert refused.value.code == 401
        assert refused.value.headers["content-type"] == "application/problem+json"

"""Programs in other languages: each runs the same scenarios against a real server, by its OpenAPI document.

So do the lines that docs/clients.md shows in each of them.
"""

import httpx
import pytest

from pywheel.server.tokens import Tokens
from pywheel.stores import open as open_store
from tests.clients import tools
from tests.server.client import Process


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Address and token of a server in a process of its own."""
    folder = tmp_path_factory.mktemp("server")
    with open_store(f"sqlite:///{folder}/jobs.db") as store:
        token = Tokens(store).add(("put", "read", "work"))
    server = Process(folder)
    yield {"PYWHEEL_URL": server.url, "PYWHEEL_TOKEN": token}
    assert server.stop() == 0


@pytest.mark.parametrize("language", tools.BUILT)
def test_the_scenarios_hold_and_the_guide_delivers_a_job(language, server, tmp_path):
    scenarios, guide = tools.BUILT[language](tmp_path)
    said = tools.run(*scenarios, tools.HERE / "scenarios.json", **server)
    held = [line for line in said.splitlines() if line.startswith("ok ")]
    assert held == [f"ok {scenario['name']}" for scenario in tools.scenarios()]
    tools.run(*guide, **server)
    headers = {"authorization": f"Bearer {server['PYWHEEL_TOKEN']}"}
    found = httpx.get(f"{server['PYWHEEL_URL']}/v1/jobs", params={"topic": language}, headers=headers)
    assert [job["state"] for job in found.json()["jobs"]] == ["done"]


def test_the_types_of_the_node_client_are_those_of_the_document(tmp_path):
    tools.node_types(tmp_path / "schema.d.ts")
    kept = tools.ROOT / "examples" / "node-client" / "schema.d.ts"
    assert (tmp_path / "schema.d.ts").read_text() == kept.read_text(), "make node-client writes it anew"

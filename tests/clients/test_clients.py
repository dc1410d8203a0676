"""Programs in other languages: each runs the same scenarios against a real server, by its OpenAPI document.

So do the lines that docs/clients.md shows in each of them.
"""

import httpx
import pytest

from pywheel.server.tokens import Tokens
from pywheel.stores import open as open_store
from tests.clients import tools


@pytest.fixture(scope="module")
def place(server):
    """The address of a server, and a token for it."""
    with open_store(server.store) as store:
        return {"PYWHEEL_URL": server.url, "PYWHEEL_TOKEN": Tokens(store).add(("put", "read", "work"))}


@pytest.mark.parametrize("language", tools.BUILT)
def test_the_scenarios_hold_and_the_guide_delivers_a_job(language, place, tmp_path):
    scenarios, guide = tools.BUILT[language](tmp_path)
    said = tools.run(*scenarios, tools.HERE / "scenarios.json", **place)
    held = [line for line in said.splitlines() if line.startswith("ok ")]
    assert held == [f"ok {scenario['name']}" for scenario in tools.scenarios()]
    tools.run(*guide, **place)
    headers = {"authorization": f"Bearer {place['PYWHEEL_TOKEN']}"}
    found = httpx.get(f"{place['PYWHEEL_URL']}/v1/jobs", params={"topic": language}, headers=headers)
    assert [job["state"] for job in found.json()["jobs"]] == ["done"]


def test_the_types_of_the_node_client_are_those_of_the_document(tmp_path):
    tools.node_types(tmp_path / "schema.d.ts")
    kept = tools.ROOT / "examples" / "node-client" / "schema.d.ts"
    assert (tmp_path / "schema.d.ts").read_text() == kept.read_text(), "make node-client writes it anew"

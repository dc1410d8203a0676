"""Programs in other languages: each runs the same scenarios against a real server, by its OpenAPI document."""

import re

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
def test_the_scenarios_hold(language, server, tmp_path):
    command = tools.BUILT[language](tmp_path)
    said = tools.run(*command, tools.HERE / "scenarios.json", **server)
    held = [line for line in said.splitlines() if line.startswith("ok ")]
    assert held == [f"ok {scenario['name']}" for scenario in tools.scenarios()]


def test_the_types_of_the_node_client_are_those_of_the_document(tmp_path):
    tools.node_types(tmp_path / "schema.d.ts")
    kept = tools.ROOT / "examples" / "node-client" / "schema.d.ts"
    assert (tmp_path / "schema.d.ts").read_text() == kept.read_text(), "make node-client writes it anew"


GO = """
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

var token = os.Getenv("PYWHEEL_TOKEN")
var _ io.Reader

%s

func main() {
	var put struct{ Id string }
	fmt.Println(call("POST", "/v1/jobs", map[string]any{"topic": "guide", "body": 5}, &put))
	var claims struct{ Jobs []struct{ Id, Receipt string } }
	fmt.Println(call("POST", "/v1/reserve", map[string]any{"topics": []string{"guide"}, "wait": 20}, &claims))
	fmt.Println(call("POST", "/v1/claims/"+claims.Jobs[0].Receipt+"/ack", nil, nil))
	var job struct{ State string }
	fmt.Println(call("GET", "/v1/jobs/"+put.Id, nil, &job))
	fmt.Println(job.State)
}
"""


def test_the_go_of_the_guide_puts_reserves_and_acks(server, tmp_path):
    guide = (tools.ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    [call] = re.findall(r"^```\n(func call\(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    source = tmp_path / "guide.go"
    source.write_text(GO % call.replace("http://127.0.0.1:8080", server["PYWHEEL_URL"]))
    said = tools.run("go", "run", source, GO111MODULE="off", GOCACHE=str(tmp_path / "cache"), **server)
    assert said.splitlines() == ["201 <nil>", "200 <nil>", "204 <nil>", "200 <nil>", "done"]

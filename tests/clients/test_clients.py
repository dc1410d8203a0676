"""Programs in other languages: each runs the same scenarios against a real server, by its OpenAPI document.

So do the lines that docs/clients.md shows in each of them.
"""

import os
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from pywheel.server.tokens import Tokens
from pywheel.stores import open as open_store
from tests.clients import tools
from tests.jobs.waiting import LIMIT


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


RESERVE, ACK = "/v1/reserve", "/v1/claims/r/ack"
# The path that is asked, and the answer; None: the connection is cut, as by a server that ends.
TALK = [
    (RESERVE, 503, b"{}"), (RESERVE, None, b""),
    (RESERVE, 200, b'{"jobs": [{"receipt": "r", "body": 5}], "more": false}'),
    (ACK, 503, b"{}"), (ACK, None, b""), (ACK, 204, b""), (RESERVE, 401, b'{"title": "no", "detail": "end"}'),
]  # fmt: skip


# Its pauses are over at once.
HURRIED = """data:text/javascript,
import timers from "node:timers/promises";
import { syncBuiltinESMExports } from "node:module";
timers.setTimeout = async () => {};
syncBuiltinESMExports();
"""


def talked(folder, talk, *flags):
    """Run the Node worker beside a server that talks like this; return the paths that were asked, and its errors.

    An answer's status may be a signal: the worker gets that, and its connection is cut.
    """
    tools.built_node(folder)
    asked, left, begun = [], iter(talk), threading.Event()

    class Desk(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers.get("content-length", 0)))
            asked.append(self.path)
            _, status, content = next(left, TALK[-1])  # a worker that asks more ends
            if isinstance(status, signal.Signals):
                begun.wait()
                worker.send_signal(status)
            if status is None or isinstance(status, signal.Signals):
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("content-type", "application/json")
            if status != 204:
                self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Desk) as desk:
        thread = threading.Thread(target=desk.serve_forever)
        thread.start()
        environment = {**os.environ, "PYWHEEL_URL": f"http://127.0.0.1:{desk.server_port}"}
        command = ["node", *flags, folder / "worker.mjs"]
        try:
            with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as worker:
                begun.set()
                try:
                    return asked, worker.communicate(timeout=LIMIT)[1]
                finally:
                    worker.kill()
        finally:
            desk.shutdown()
            thread.join()


def test_the_node_worker_goes_on_after_a_restart_of_the_server_and_repeats_its_ack(tmp_path):
    asked, said = talked(tmp_path, TALK)
    assert asked == [path for path, _, _ in TALK], said
    assert "no: end" in said


def test_ctrl_c_ends_the_node_worker_though_its_server_is_away(tmp_path):
    talk = [(RESERVE, None, b""), (RESERVE, signal.SIGINT, b""), (RESERVE, 401, b'{"title": "no", "detail": "end"}')]
    asked, said = talked(tmp_path, talk)
    assert asked == [RESERVE] * 2, said


def test_the_node_worker_gives_an_ack_up_after_some_tries(tmp_path):
    """By then its claim is over, or soon will be."""
    talk = [TALK[2], *[(ACK, None, b"")] * 30, TALK[-1]]
    asked, said = talked(tmp_path, talk, "--import", HURRIED)
    assert asked == [path for path, _, _ in talk], said

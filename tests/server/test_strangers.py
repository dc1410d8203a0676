"""Requests of strangers to a server with tokens: none breaks a line of the log, or the server."""

import json
import socket

import pytest

from tests.server.client import Process, read_all

pytestmark = pytest.mark.stress

LINE = "2026-01-01 00:00:00,000 INFO forged"


@pytest.fixture(scope="module", params=["text", "json"])
def serving(request, tmp_path_factory):
    with Process(tmp_path_factory.mktemp("strangers"), "--log-format", request.param) as server:
        yield server


def ask(server, method, path, body=b"", **headers):
    """Return the status of a request that is sent as it is."""
    sent = {"host": f"127.0.0.1:{server.port}", "connection": "close", "content-length": len(body), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in sent.items())
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body)
        return int(read_all(connection).split()[1])


FORGED = "x%0d%0a" + LINE.replace(" ", "%20")
ORIGINS = ["http://[", "http://[::1", "http://a]", "//[", "\N{LATIN SMALL LETTER E WITH ACUTE}://[", "http://a\x01["]
PATHS = [f"/bulk/{FORGED}", f"/jobs/{FORGED}", "/topics", "/sign-in", "/sign-out", "/jobs", "/dead"]
TARGETS = ["//[", "http://[", "/\\[", "//a]", "///["]


@pytest.mark.parametrize("path", PATHS)
def test_an_origin_that_is_no_address_is_one_of_another_site(serving, path):
    for origin in ORIGINS:
        assert ask(serving, "POST", path, origin=origin) in (400, 403)


@pytest.mark.parametrize("target", TARGETS)
def test_signing_in_takes_what_is_no_path_for_none(serving, target):
    assert ask(serving, "GET", f"/sign-in?next={target}") == 200
    body = f"token=pw_1&next={target}".encode()
    assert ask(serving, "POST", "/sign-in", body, sec_fetch_site="same-origin") == 401


def test_a_body_that_is_for_nothing_and_a_form_that_anybody_may_send_are_short(serving):
    for body, status in ((b"{}", 200), (b"{%s}" % (b" " * 4_096), 413)):
        assert ask(serving, "GET", "/v1/openapi.json", body, content_type="application/json") == status
    for body, status in ((b"token=" + b"x" * 8_192, 413), (b"token=\xff", 400)):
        assert ask(serving, "POST", "/sign-in", body, sec_fetch_site="same-origin") == status


@pytest.mark.parametrize("host", ["[", "a[", "a b", "http://[", "a\x7f", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
@pytest.mark.parametrize("path", ["/", "/sign-in", "/nothing", f"/jobs/{FORGED}"])
def test_a_host_that_is_no_name_breaks_nothing(serving, host, path):
    assert ask(serving, "GET", path, host=host) < 500


def test_no_line_of_the_log_is_by_a_stranger(serving):
    """After all the others of this file."""
    for path in ("/bulk", "/jobs", "/v1/jobs", "/v1/schedules", "/v1/claims", "/static/x", ""):
        for method in ("GET", "POST", "DELETE"):
            assert ask(serving, method, f"{path}/{FORGED}", origin="http://[") < 500
    log = serving.log.read_text()
    assert "Traceback" not in log
    for line in log.splitlines():
        text = json.loads(line)["message"] if line.startswith("{") else line
        assert not text.startswith(LINE)
        assert "\n" not in text

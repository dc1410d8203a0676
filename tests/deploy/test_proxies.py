"""nginx and Caddy before the service, as deploy/proxies configures them: real ones, by TLS."""

import json
import os
import re
import ssl
import subprocess
import sys

import httpx
import pytest

from tests.deploy.tools import CADDY, DEPLOY, NGINX, located
from tests.jobs.waiting import until
from tests.outlets.certificates import authority
from tests.ports import reserved_ports
from tests.server.client import Process, listens

pytestmark = pytest.mark.servers
LONGEST_WAIT = 30  # seconds that a long poll waits
NGINX_BLOCK = (DEPLOY / "proxies" / "nginx.conf").read_text(encoding="utf-8")
CADDY_FILE = (DEPLOY / "proxies" / "Caddyfile").read_text(encoding="utf-8")


def replaced(text, *pairs):
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    return text


def nginx(folder, port, service, gone, pem):
    """Return the command of an nginx with the file's block, at a port, before a service and one that is gone."""
    block = replaced(
        NGINX_BLOCK,
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("/etc/ssl/jobs.example.pem", str(pem)),
        ("/etc/ssl/jobs.example.key", str(pem)),
        ("10.0.0.11:8080", f"127.0.0.1:{service}"),
        ("10.0.0.12:8080", f"127.0.0.1:{gone}"),
    )
    places = "".join(
        f"{what}_temp_path {folder}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    text = f"{user} daemon off; pid {folder}/pid; error_log stderr; events {{}}\n"
    (folder / "conf").write_text(f"{text}http {{ access_log off; {places}\n{block}}}\n")
    return [located(NGINX), "-e", "stderr", "-p", str(folder), "-c", str(folder / "conf")]


def caddy(folder, port, service, gone, pem):
    """Return the command of a Caddy, likewise."""
    block = replaced(
        CADDY_FILE,
        ("\n{\n", "\n{\n    admin off\n    auto_https disable_redirects\n"),
        ("jobs.example {", f"https://127.0.0.1:{port} {{\n    tls {pem} {pem}"),
        ("10.0.0.11:8080", f"127.0.0.1:{service}"),
        ("10.0.0.12:8080", f"127.0.0.1:{gone}"),
    )
    (folder / "Caddyfile").write_text(block)
    return [located(CADDY), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with Process(tmp_path_factory.mktemp("service"), "--proxies", "127.0.0.1") as process:
        yield process


@pytest.fixture(scope="module")
def token(service):
    command = [sys.executable, "-m", "pywheel.cli", "token", "add", "--scope", "admin", "--store", service.store]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(params=[nginx, caddy], ids=lambda made: made.__name__)
def proxy(request, service, tmp_path):
    """The address of a proxy before the service, and the path of the authority of its certificate."""
    root, server = authority(tmp_path, "root")
    server("127.0.0.1")
    port, gone = reserved_ports(2)
    command = request.param(tmp_path, port, service.port, gone, tmp_path / "root-127.0.0.1.pem")
    places = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **places})
    try:
        until(lambda: process.poll() is not None or listens(port))
        assert process.poll() is None, (tmp_path / "log").read_text()
        yield f"https://127.0.0.1:{port}", root
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def client(proxy, token):
    url, root = proxy
    context = ssl.create_default_context(cafile=root)
    with httpx.Client(base_url=url, verify=context, timeout=60, headers={"authorization": f"Bearer {token}"}) as client:
        yield client


def test_it_speaks_http_2(proxy, token):
    url, root = proxy
    command = ["curl", "-s", "--http2", "--cacert", root, "-o", os.devnull, "-w", "%{http_version} %{http_code}"]
    told = subprocess.run([*command, "-H", f"authorization: Bearer {token}", f"{url}/v1/topics"], capture_output=True)
    assert told.stdout == b"2 200"


def test_a_batch_of_four_megabytes_goes_through(client):
    jobs = [{"topic": "large", "body": "x" * 60_000} for _ in range(65)]
    assert client.post("/v1/jobs/batch", json={"jobs": jobs}).status_code == 201


def test_an_event_arrives_while_its_stream_goes_on(client):
    with client.stream("GET", "/v1/events?topic=mail") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        id = client.post("/v1/jobs", json={"topic": "mail", "body": 1}).json()["id"]
        assert client.post(f"/v1/jobs/{id}/cancel").status_code == 204
        data = next(line for line in lines if line.startswith("data:") and str(id) in line)
    assert json.loads(data.removeprefix("data:"))


def test_each_request_reaches_the_service_that_is_there(client):
    answers = [client.post("/v1/jobs", json={"topic": "mail"}).status_code for _ in range(6)]
    assert answers + [client.get("/readyz").status_code for _ in range(6)] == [201] * 6 + [200] * 6


def test_a_form_of_the_page_is_one_of_this_site(client, token):
    """The proxy hands on the host by which it was asked."""
    url = str(client.base_url).rstrip("/")
    for origin, status in ((url, 303), ("https://other.example", 403)):
        answer = client.post("/sign-in", data={"token": token}, headers={"origin": origin})
        assert answer.status_code == status, answer.text


def test_nothing_gives_up_before_a_long_poll_does():
    assert int(re.search(r"proxy_read_timeout (\d+)s;", NGINX_BLOCK)[1]) > LONGEST_WAIT
    assert "timeout" not in CADDY_FILE  # Caddy has none of its own here

"""The destinations that a job may name if its outlet has its own place: only those in its configuration."""

import signal
from contextlib import contextmanager

import pytest

from pywheel import BadOption, GiveUp, JobQueue
from pywheel.jobs import State
from pywheel.outlets import Webhook
from pywheel.server.tokens import Tokens
from tests.cli.running import running
from tests.jobs.waiting import finished
from tests.outlets.conftest import SECRET, a_job, deliver, inside
from tests.outlets.endpoint import Endpoint
from tests.server.client import Process

SHOP = """
[outlets.shop]
kind = "webhook"
topics = ["t"]
url = "{url}"
headers = {{ authorization_env = "SHOP_AUTHORIZATION" }}
secrets_env = "SHOP_SECRET"
allow = ["127.0.0.0/8"]
ports = []
"""
SECRETS = {"SHOP_AUTHORIZATION": "Bearer TOPSECRET", "SHOP_SECRET": SECRET}


# ---- a whole system: a service, a token that may put, a process that delivers --------------------------------------


@pytest.fixture
def service(tmp_path):
    with Process(tmp_path) as process:
        yield process


@pytest.fixture
def put(service):
    """Put jobs by HTTP, with a token that may do nothing else."""
    with JobQueue(service.store) as queue:
        headers = {"authorization": f"Bearer {Tokens(queue.store).add(['put'])}"}

    def put(**words):
        answer = service("POST", "/v1/jobs", json={"topic": "t", "body": {"n": 1}, **words}, headers=headers)
        assert answer.status_code == 201, answer.text
        return int(answer.json()["id"])

    return put


@contextmanager
def delivering(store, folder, config):
    (folder / "outlets.toml").write_text(config)
    with running("deliver", "--store", store, folder=folder, **SECRETS) as command:
        yield
        command.send(signal.SIGTERM)
        command.ends()


@pytest.mark.stress
def test_a_put_token_leads_no_secret_of_an_outlet_elsewhere(endpoint, service, put, tmp_path):
    config = SHOP.format(url=endpoint.url("/hook")) + f'allow_to = ["{endpoint.url("/tenants/")}"]\n'
    with Endpoint() as attacker, JobQueue(service.store) as queue:
        theirs = [
            put(to=attacker.url("/steal")),
            put(headers={"to": attacker.url("/steal")}),
            put(to=endpoint.url("/admin/delete")),
            put(to=endpoint.url("/hook?all=1")),
            put(to=endpoint.url("/tenants/../admin")),
        ]
        ours = [put(), put(to=endpoint.url("/hook")), put(to=endpoint.url("/tenants/7?x=1"))]
        with delivering(service.store, tmp_path, config):
            refused = [finished(queue, id) for id in theirs]
            assert {finished(queue, id).state for id in ours} == {State.DONE}
        assert attacker.connections == 0
    assert sorted(endpoint.paths()) == ["/hook", "/hook", "/tenants/7?x=1"]
    assert {request.headers["authorization"] for request in endpoint.requests} == {"Bearer TOPSECRET"}
    assert {job.state for job in refused} == {State.DEAD}
    assert all("allow_to" in job.last_error for job in refused)


# ---- URLs -----------------------------------------------------------------------------------------------------------

OTHERS = {
    "another path": "http://127.0.0.1:{port}/admin",
    "a path that begins alike": "http://127.0.0.1:{port}/hooksuffix",
    "a way up": "http://127.0.0.1:{port}/hooks/../admin",
    "a way up at the end": "http://127.0.0.1:{port}/hooks/..",
    "a way up in disguise": "http://127.0.0.1:{port}/hooks/%2e%2E/admin",
    "a way up behind a slash in disguise": "http://127.0.0.1:{port}/hooks/a%2f..%2f..%2fadmin",
    "a way up behind a backslash in disguise": "http://127.0.0.1:{port}/hooks/%5c..%5c..%5cadmin",
    "a way up with a parameter": "http://127.0.0.1:{port}/hooks/..;/admin",
    "a way up with a parameter in disguise": "http://127.0.0.1:{port}/hooks/..%3Ba=b/admin",
    "a way up in disguise twice": "http://127.0.0.1:{port}/hooks/%252e%252e/admin",
    "a way up before a byte that ends text": "http://127.0.0.1:{port}/hooks/..%00/admin",
    "another port": "http://127.0.0.1:1/hooks/",
    "port 0": "http://127.0.0.1:0/hooks/",
    "no port": "http://127.0.0.1/hooks/",
    "another scheme": "https://127.0.0.1:{port}/hooks/",
    "another host": "http://127.0.0.2:{port}/hooks/",
    "a name that begins alike": "http://127.0.0.1.evil.example:{port}/hooks/",
    "a name": "hooks",
    "a user": "http://127.0.0.1:{port}@evil.example/hooks/",
}
THERE = ["/hooks", "/hooks/", "/hooks/a;v=1/b..c", "/hooks/a/b?c=d", "/hooks?c=../x", "/hooks//a", "/own?key=1"]


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_url_that_the_outlet_does_not_name_makes_its_job_dead(endpoint, slash):
    outlet = inside(endpoint.url("/own?key=1"), allow_to=[endpoint.url(f"/hooks{slash}")])
    jobs = [a_job(headers={"to": url.format(port=endpoint.port)}) for url in OTHERS.values()]
    ends = zip(OTHERS, deliver(outlet, *jobs), strict=True)
    assert [which for which, error in ends if not isinstance(error, GiveUp)] == []
    nowhere = inside(allow_to=[endpoint.url(f"/hooks{slash}")])  # without a url of its own
    assert all(isinstance(error, GiveUp) for error in deliver(nowhere, *jobs[:1], a_job()))
    assert endpoint.connections == 0


def test_urls_below_those_that_the_outlet_names_are_delivered_to(endpoint):
    for outlet in (
        inside(endpoint.url("/own?key=1"), allow_to=[endpoint.url("/hooks")]),
        inside(allow_to=[endpoint.url("/own"), endpoint.url("/hooks")], headers={"authorization": "x"}),
        inside(allow_to=[endpoint.url("")]),
    ):
        endpoint.requests.clear()
        assert deliver(outlet, *(a_job(headers={"to": endpoint.url(path)}) for path in THERE)) == [None] * len(THERE)
        assert endpoint.paths() == THERE
    assert deliver(inside(endpoint.url("/own")), a_job(headers={"to": ""})) == [None]  # it says nothing


@pytest.mark.parametrize("name", ["authorization", "X-Api-Key", "cookie", "x-plain"])
def test_headers_that_would_go_wherever_a_job_says_are_refused_unless_they_hold_no_secret(name):
    with pytest.raises(BadOption, match=rf"{name} .*: give it a url, or name in allow_to where jobs may go"):
        Webhook(headers={name: "TOPSECRET"})
    Webhook("https://shop.example/", headers={name: "x"})
    Webhook(allow_to=["https://shop.example/"], headers={name: "x"})
    Webhook(headers={"User-Agent": "shop/1", "Accept": "application/json", "Content-Type": "application/json"})

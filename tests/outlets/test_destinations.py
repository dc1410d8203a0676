"""The destinations that a job may name if its outlet has its own place: only those in its configuration."""

import pytest

from pywheel import BadOption, GiveUp
from pywheel.jobs import State
from pywheel.outlets import Webhook
from pywheel.outlets.config import load
from pywheel.testing import run_due
from tests.outlets.conftest import a_job, deliver, inside
from tests.outlets.endpoint import Endpoint

SHOP = """
[outlets.shop]
kind = "webhook"
url = "{0}/hook"
allow_to = ["{0}/tenants/"]
headers = {{ authorization_env = "SHOP_AUTHORIZATION" }}
allow = ["127.0.0.0/8"]
ports = []
"""

# ---- URLs -----------------------------------------------------------------------------------------------------------


def test_whoever_may_put_leads_no_secret_of_a_configured_outlet_elsewhere(endpoint, queue, tmp_path, monkeypatch):
    (tmp_path / "outlets.toml").write_text(SHOP.format(endpoint.url("")))
    monkeypatch.setenv("SHOP_AUTHORIZATION", "Bearer TOPSECRET")
    [configured] = load(tmp_path / "outlets.toml")
    queue.handler("t")(configured.outlet)
    with Endpoint() as attacker:
        theirs = [queue.put("t", to=endpoint.url(to)) for to in ("/admin/delete", "/hook?all=1", "/tenants/../admin")]
        theirs += [queue.put("t", to=attacker.url("/steal")), queue.put("t", headers={"to": attacker.url("/steal")})]
        ours = [queue.put("t"), *(queue.put("t", to=endpoint.url(to)) for to in ("/hook", "/tenants/7?x=1"))]
        run_due(queue)
        assert attacker.connections == 0
    assert sorted(endpoint.paths()) == ["/hook", "/hook", "/tenants/7?x=1"]
    assert {request.headers["authorization"] for request in endpoint.requests} == {"Bearer TOPSECRET"}
    assert {queue.get(id).state for id in ours} == {State.DONE}
    assert {queue.get(id).state for id in theirs} == {State.DEAD}
    assert all("allow_to" in queue.get(id).last_error for id in theirs)


# Other paths, ways up in all disguises; other ports and schemes; other hosts, a name and a user.
OTHERS = """
http://127.0.0.1:{port}/admin http://127.0.0.1:{port}/hooksuffix http://127.0.0.1:{port}/hooks/../admin
http://127.0.0.1:{port}/hooks/.. http://127.0.0.1:{port}/hooks/%2e%2E/admin
http://127.0.0.1:{port}/hooks/a%2f..%2f..%2fadmin http://127.0.0.1:{port}/hooks/%5c..%5c..%5cadmin
http://127.0.0.1:{port}/hooks/..;/admin http://127.0.0.1:{port}/hooks/..%3Ba=b/admin
http://127.0.0.1:{port}/hooks/%252e%252e/admin http://127.0.0.1:{port}/hooks/..%00/admin
http://127.0.0.1:1/hooks/ http://127.0.0.1:0/hooks/ http://127.0.0.1/hooks/ https://127.0.0.1:{port}/hooks/
http://127.0.0.2:{port}/hooks/ http://127.0.0.1.evil.example:{port}/hooks/ hooks
http://127.0.0.1:{port}@evil.example/hooks/
""".split()
THERE = ["/hooks", "/hooks/", "/hooks/a;v=1/b..c", "/hooks/a/b?c=d", "/hooks?c=../x", "/hooks//a", "/own?key=1"]


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_url_that_the_outlet_does_not_name_makes_its_job_dead(endpoint, slash):
    outlet = inside(endpoint.url("/own?key=1"), allow_to=[endpoint.url(f"/hooks{slash}")])
    jobs = [a_job(headers={"to": url.format(port=endpoint.port)}) for url in OTHERS]
    ends = zip(OTHERS, deliver(outlet, *jobs), strict=True)
    assert [url for url, error in ends if not isinstance(error, GiveUp)] == []
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

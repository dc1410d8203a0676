"""Deliveries by HTTP: the request, and the outcome of each answer."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
import standardwebhooks

from pywheel import BadOption, GiveUp, RetryLater
from pywheel.outlets import Webhook
from pywheel.outlets.contract import delivery_id
from pywheel.outlets.webhook import DeliveryFailed, decoded, retry_after, signature
from pywheel.testing import run_due
from tests.outlets.conftest import SECRET, a_job, deliver, inside
from tests.outlets.endpoint import answer

OTHER = "whsec_" + "QUJD" * 8
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


# ---- what is sent ---------------------------------------------------------------------------------------------------


def test_a_job_goes_where_it_says_or_to_the_outlets_url(endpoint, queue):
    queue.handler("t")(inside(endpoint.url("/mine"), allow_to=[endpoint.url("/hook")]))
    queue.put_many([queue.job("t", {"n": 1}, to=endpoint.url("/hook?x=1")), queue.job("t")])
    assert run_due(queue) == 2
    request, other = sorted(endpoint.requests, key=lambda request: request.path)
    assert (request.method, request.path, request.body) == ("POST", "/hook?x=1", b'{"n":1}')
    assert request.headers["host"] == f"127.0.0.1:{endpoint.port}"
    assert request.headers["content-type"] == "application/json"
    assert "webhook-signature" not in request.headers
    assert other.path == "/mine"


def test_a_job_without_a_url_is_dead_and_says_what_is_missing(endpoint):
    error = deliver(inside())
    assert (type(error), "to=" in str(error)) == (GiveUp, True)


def test_a_signature_is_what_standard_webhooks_verify(endpoint):
    signed = signature([decoded(SECRET)], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="  # the vector of the specification
    job = a_job('{"text": "täglich"}'.encode())
    assert deliver(inside(endpoint.url(), secrets=SECRET), job) == [None]
    [request] = endpoint.requests
    assert standardwebhooks.Webhook(SECRET).verify(request.body, request.headers) == {"text": "täglich"}
    assert request.headers["webhook-id"] == delivery_id(job)
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 300
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(OTHER).verify(request.body, request.headers)


def test_each_job_may_have_secrets_of_its_own_and_during_a_rotation_each_verifies(endpoint):
    secrets = {"a": SECRET, "b": [OTHER], "c": [SECRET, OTHER]}
    outlet = inside(endpoint.url(), secrets=lambda job: secrets[job.headers["tenant"]])
    assert deliver(outlet, *(a_job(headers={"tenant": tenant}) for tenant in "abc")) == [None] * 3
    for own, request in zip(([SECRET], [OTHER], [SECRET, OTHER]), endpoint.requests, strict=True):
        assert request.headers["webhook-signature"].count("v1,") == len(own)
        for secret in own:
            standardwebhooks.Webhook(secret).verify(request.body, request.headers)


def test_a_body_that_is_no_json_and_one_that_says_what_it_is(endpoint):
    bodies = [b"\x00\x01", b"", b"[1]", b"7", b'{"n": 1}' + b" " * 70_000, b"{" + b" " * 70_000 + b"}"]
    deliver(inside(endpoint.url()), *map(a_job, bodies), a_job(b"a,b", headers={"content-type": "text/csv"}))
    kinds = [request.headers["content-type"].removeprefix("application/") for request in endpoint.requests]
    assert kinds == ["octet-stream", "octet-stream", "json", "json", "octet-stream", "json", "text/csv"]
    assert [request.body for request in endpoint.requests] == [*bodies, b"a,b"]


def test_headers_of_a_job_are_sent_that_are_named_and_no_others(endpoint):
    outlet = inside(endpoint.url("/its"), headers={"Authorization": "Bearer x"}, pass_headers=["X-Tenant"])
    headers = {"x-tenant": "7", "secret": "s", "to": endpoint.url("/its"), "traceparent": TRACE, "tracestate": "a=1"}
    assert deliver(outlet, a_job(headers=headers)) == [None]
    [request] = endpoint.requests
    sent = {line.partition(b":")[0].lower().decode() for line in request.lines}
    assert sent == {
        "host", "content-length", "content-type", "user-agent", "webhook-id", "webhook-timestamp", "x-tenant",
        "authorization", "traceparent", "tracestate",
    }  # fmt: skip
    assert (request.headers["traceparent"], request.headers["authorization"]) == (TRACE, "Bearer x")


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\0b", "☃", "x" * 9_000])
def test_a_header_that_http_does_not_send_makes_its_job_dead(endpoint, value):
    names = ["tenant", "content-type", "traceparent"]
    jobs = [a_job(headers={name: value}) for name in names]
    for name, error in zip(names, deliver(inside(endpoint.url(), pass_headers=["tenant"]), *jobs), strict=True):
        assert (type(error), name in str(error)) == (GiveUp, True)
    assert endpoint.requests == []


@pytest.mark.parametrize(
    "options",
    [
        {"url": "ftp://shop.example/"}, {"connect_timeout": -1}, {"per_host": 0}, {"headers": {"a b": "c"}},
        {"headers": {"a": "b\r\nc: d"}}, {"headers": {"webhook-id": "x"}}, {"pass_headers": ["content-length"]},
        *({"secrets": value} for value in ("whsec_short", "whsec_" + "!" * 40, ["whsec_QUJD"], [7])),
        *({"allow": value} for value in (["10.0.0.1/8"], ["10.0.0"], "10.0.0.0/8", [""])),
        {"ca": ""}, {"ca": "é"}, {"secrets": []}, {"secrets": ()},
    ],
    ids=str,
)  # fmt: skip
def test_an_outlet_that_makes_no_sense_is_refused(options):
    """What else makes none, a config file says: test_config.py."""
    with pytest.raises(BadOption) as refused:
        Webhook(**options)
    assert "short" not in str(refused.value)  # a secret


# ---- answers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_only_2xx_is_success(endpoint, status):
    endpoint.answers["/"] = b"HTTP/1.1 %d X\r\n\r\n" % status if status == 204 else answer(status, b"fine")
    outlet = inside(endpoint.url())
    assert deliver(outlet) is None
    assert (outlet.answers.last.status, outlet.answers.last.error) == (str(status), None)


@pytest.mark.parametrize("status", [300, 304, 400, 404, 418, 500, 503, 599])
def test_the_rest_is_a_failed_attempt_that_says_what_was_answered(endpoint, status):
    endpoint.answers["/"] = answer(status, b"" if status == 304 else b"<b>no\x1b[31m\r\n\0 room</b>")
    error = deliver(inside(endpoint.url("/?token=secret")))
    assert (type(error), error.status) == (DeliveryFailed, status)
    assert f"answered {status}" in str(error)
    assert "secret" not in str(error)
    assert status == 304 or "room</b>" in str(error)
    assert status == 304 or str(error).isprintable()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(endpoint, status):
    for location in (b"http://127.0.0.1:1/", b"/other", b"http://169.254.169.254/latest"):
        endpoint.answers["/"] = answer(status, b"", b"Location: " + location)
        assert "redirects" in str(deliver(inside(endpoint.url())))
    assert endpoint.paths() == ["/"] * 3


@pytest.mark.parametrize(
    ("status", "said", "delay"),
    [
        *((status, "7", 7_000) for status in (429, 502, 503, 504)),
        (503, " 7 ", 7_000),
        (503, "0", 0),
        *((503, said, 86_400_000) for said in ("86401", "9" * 21)),
    ],
)
def test_an_endpoint_may_say_when_to_come_again(endpoint, status, said, delay):
    endpoint.answers["/"] = answer(status, b"busy", b"Retry-After: " + said.encode())
    error = deliver(inside(endpoint.url()))
    assert (type(error), error.delay, error.least) == (RetryLater, delay, True)
    assert "busy" in str(error)


def test_a_date_says_it_too():
    now = datetime(2030, 1, 1, tzinfo=UTC)
    for days, seconds in ((0, 90), (-9, 0), (9, 86_400)):
        said = format_datetime(now + timedelta(days=days, seconds=90), usegmt=True)
        assert retry_after(said, now.timestamp()) == seconds


@pytest.mark.parametrize(
    ("status", "said"),
    [
        *((503, said) for said in ["Mon, 99 Foo 9999", "x" * 8_000, *" soon -5 1.5 1e9 ٣ \u00b2 0x10".split(" ")]),
        *((status, "7") for status in (200, 400, 500)),  # who is not asked to does not throttle
    ],
)
def test_what_is_not_understood_is_left_to_the_ladder(endpoint, status, said):
    endpoint.answers["/"] = answer(status, b"", b"Retry-After: " + said.encode())
    assert type(deliver(inside(endpoint.url()))) is (DeliveryFailed if status != 200 else type(None))


def test_an_endpoint_that_is_gone_is_disabled_and_its_jobs_are_dead_at_once(endpoint):
    endpoint.answers["/gone"] = answer(410)
    gone, other = (a_job(headers={"to": endpoint.url(path)}) for path in ("/gone", "/other"))
    first, second, third = deliver(inside(name="shop"), gone, gone, other)
    assert (type(first), type(second), third) == (GiveUp, GiveUp, None)
    assert "pywheel outlets enable shop" in str(second)
    assert endpoint.paths() == ["/gone", "/other"]

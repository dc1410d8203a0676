"""Each invalid request gets a problem that says how to mend it, and changes nothing."""

import asyncio

import pytest

from pywheel.client.schedules import AsyncSchedules
from pywheel.server import Limits
from tests.server.client import problem

JSON = {"content-type": "application/json"}


def send(api, content, path="/v1/jobs", **headers):
    return api("POST", path, content=content, headers={**JSON, **headers})


@pytest.fixture(autouse=True)
def nothing_is_put(queue):
    yield
    assert queue.jobs.list() == []


@pytest.mark.parametrize(
    ("content", "kind", "pointer"),
    [
        (b"", "bad-json", None),
        (b"{", "bad-json", None),
        (b"\xff\xfe{}", "bad-json", None),
        (b'{"topic": "\xff"}', "bad-json", None),
        (b'{"topic": "a", "body": "\xff"}', "bad-body", "#/body"),
        (b'{"topic": "a", "body": "\\ud800"}', "bad-json", None),
        (b'{"topic": "a", "body": NaN}', "bad-json", None),
        (b"[]", "bad-body", "#"),
        (b"7", "bad-body", "#"),
        (b"{}", "bad-body", "#/topic"),
        (b'{"topic": ""}', "bad-body", "#/topic"),
        (b'{"topic": 7}', "bad-body", "#/topic"),
        (b'{"topic": null}', "bad-body", "#/topic"),
        (b'{"topic": "' + b"x" * 16_385 + b'"}', "bad-body", "#/topic"),
        (b'{"topic": "a", "colour": 1}', "bad-body", "#/colour"),
        (b'{"topic": "a", "a/b~c": 1}', "bad-body", "#/a~1b~0c"),
        (b'{"topic": "a", "delay": "soon"}', "bad-body", "#"),
        (b'{"topic": "a", "delay": true}', "bad-body", "#/delay"),
        (b'{"topic": "a", "delay": 1e300}', "bad-body", "#"),
        (b'{"topic": "a", "delay": "9999999d"}', "bad-body", "#"),
        (b'{"topic": "a", "at": "2040-01-01T00:00:00"}', "bad-body", "#/at"),
        (b'{"topic": "a", "at": "tomorrow"}', "bad-body", "#/at"),
        (b'{"topic": "a", "at": "1066-10-14T00:00:00Z"}', "bad-body", "#"),
        (b'{"topic": "a", "at": "2040-01-01T00:00:00Z", "delay": 1}', "bad-body", "#"),
        (b'{"topic": "a", "key": ""}', "bad-body", "#/key"),
        (b'{"topic": "a", "replace": 1}', "bad-body", "#/replace"),
        (b'{"topic": "a", "ttr": 0}', "bad-body", "#"),
        (b'{"topic": "a", "max_attempts": 0}', "bad-body", "#/max_attempts"),
        (b'{"topic": "a", "max_attempts": 1.5}', "bad-body", "#/max_attempts"),
        (b'{"topic": "a", "max_attempts": 1000001}', "bad-body", "#/max_attempts"),
        (b'{"topic": "a", "headers": []}', "bad-body", "#/headers"),
        (b'{"topic": "a", "headers": {"b": 1}}', "bad-body", "#/headers"),
        (b'{"topic": "a", "body": 1, "body_base64": "AA=="}', "bad-body", "#/body_base64"),
        (b'{"topic": "a", "body_base64": "A"}', "bad-body", "#/body_base64"),
        (b'{"topic": "a", "body_base64": "A-_="}', "bad-body", "#/body_base64"),
    ],
)
def test_a_wrong_field_is_named(api, content, kind, pointer):
    answer = send(api, content)
    assert problem(answer) == kind
    if pointer is not None:
        assert answer.json()["errors"][0]["pointer"] == pointer


LONG = "1h " * 700_000


def test_a_duration_that_is_too_long_to_be_read_is_refused_and_says_how_long_it_may_be(api):
    api.put("mail")
    [job] = api.reserve("mail")
    one, claim = f"jobs/{job['id']}", f"claims/{job['receipt']}"
    for path, body in (
        ("jobs", {"topic": "a", "delay": LONG}),
        ("jobs", {"topic": "a", "ttr": LONG}),
        ("jobs", {"topic": "a", "key": "k", "dedupe_for": LONG}),
        ("jobs/batch", {"jobs": [{"topic": "a", "delay": LONG}]}),
        ("jobs/retry", {"topic": "a", "delay": LONG}),
        (f"{one}/retry", {"delay": LONG}),
        (f"{one}/reschedule", {"delay": LONG}),
        ("reserve", {"topics": ["a"], "wait": LONG}),
        ("reserve", {"topics": ["a"], "ttr": LONG}),
        (f"{claim}/nack", {"delay": LONG}),
        (f"{claim}/touch", {"ttr": LONG}),
    ):
        answer = api("POST", f"/v1/{path}", json=body)
        assert problem(answer) == "bad-body"
        assert "at most 100 are allowed" in answer.json()["detail"]
        assert len(answer.content) < 1_000
    assert api("POST", f"/v1/{claim}/ack").status_code == 204
    assert api("DELETE", f"/v1/{one}").status_code == 204


@pytest.mark.parametrize("depth", [65, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["arrays", "objects"])
def test_a_body_that_is_nested_too_deep_is_refused(api, depth, opening, closing):
    body = opening * depth + b"1" + closing * depth
    assert problem(send(api, b'{"topic": "a", "body": ' + body + b"}")) == "too-deep"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"}, {"content-type": "application/jsonx"},
        {"content-type": ""}, {"content-encoding": "gzip"},
    ],
)  # fmt: skip
def test_a_body_of_another_type_is_refused(api, headers):
    answer = send(api, b'{"topic": "a"}', **headers)
    assert (answer.status_code, problem(answer)) == (415, "wrong-type")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json; charset=utf-8", b"1"),
        ('Application/JSON;charset="UTF-8"', b"1"),
        ("application/json", b"[" + b"[]," * 500 + b"[]]"),  # many brackets on one level are not deep
    ],
)
def test_json_may_say_that_it_is_utf_8_and_be_wide(api, queue, kind, body):
    answer = send(api, b'{"topic": "a", "body": ' + body + b"}", **{"content-type": kind})
    queue.jobs.delete(int(answer.json()["id"]))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/jobs?colour=1", "colour"), ("/v1/jobs?limit=0", "limit"), ("/v1/jobs?limit=1001", "limit"),
        ("/v1/jobs?limit=x", "limit"), ("/v1/jobs?state=asleep", "state"), ("/v1/jobs?state=null", "state"),
        ("/v1/jobs?due_from=null", "due_from"), ("/v1/jobs?due_until=0.5", "due_until"),
        ("/v1/jobs?topic=", "topic"), ("/v1/jobs?error=", "error"), ("/v1/jobs?due_from=x", "due_from"),
        ("/v1/jobs?due_from=2040-01-01T00:00:00", "due_from"), ("/v1/jobs?body=x", "body"),
        ("/v1/jobs?cursor=%FF", None), ("/v1/jobs?limit=1&limit=2", None), ("/v1/jobs?topic=%ff", None),
        ("/v1/jobs?token=secret", "token"), ("/v1/topics?x=1", "x"), ("/v1/jobs/by-key?topic=a", "key"),
        ("/v1/jobs/by-key?topic=a&key=%00", "key"), ("/v1/jobs/1?x", "x"),
    ],
)  # fmt: skip
def test_a_wrong_parameter_is_named(api, path, name):
    answer = api("GET", path)
    assert (answer.status_code, problem(answer)) == (400, "bad-parameter")
    if name is not None:
        assert answer.json()["parameter"] == name


def test_a_request_over_the_limit_is_too_large(serving):
    answer = send(serving(limits=Limits(request=100)), b'{"topic": "a", "body": "' + b"x" * 100 + b'"}')
    assert (answer.status_code, problem(answer)) == (413, "too-large")


def test_a_body_that_does_not_arrive_in_time_is_refused(serving):
    async def beginning():
        yield b'{"topic": '
        for _ in range(2_000):  # more comes again and again: that is no more time
            await asyncio.sleep(0.001)
            yield b" "

    api = serving(limits=Limits(arrival=0.05))
    answer = send(api, beginning(), "/v1/jobs")
    assert (answer.status_code, problem(answer), answer.headers["connection"]) == (408, "too-slow", "close")
    form = api("POST", "/sign-in", content=beginning(), headers={"sec-fetch-site": "same-origin"})
    assert (form.status_code, form.headers["connection"]) == (408, "close")
    assert "the body took too long to arrive" in form.text


@pytest.mark.parametrize(
    ("wish", "pointer"),
    [
        ({"topics": []}, "#/topics"),
        ({"topics": "mail"}, "#/topics"),
        ({"limit": 0}, "#/limit"),
        ({"limit": 1001}, "#/limit"),
        ({"wait": "-1s"}, "#/wait"),
        ({"ttr": 0}, "#/ttr"),
        ({"worker": ""}, "#/worker"),
    ],
)
def test_a_wrong_wish_of_reserve_is_named(api, wish, pointer):
    answer = api("POST", "/v1/reserve", json={"topics": ["a"], **wish})
    assert problem(answer) == "bad-body"
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_more_jobs_than_a_batch_may_have_are_refused(api):
    for number in (0, 10_001):
        assert problem(api("POST", "/v1/jobs/batch", json={"jobs": [{"topic": "a"}] * number})) == "bad-body"


@pytest.mark.parametrize(("method", "path"), [("PUT", "/v1/jobs"), ("PUT", "/v1/jobs/1"), ("POST", "/healthz")])
def test_another_method_is_refused_and_the_right_ones_are_named(api, method, path):
    answer = api(method, path)
    assert (answer.status_code, problem(answer)) == (405, "method-not-allowed")
    assert "GET" in answer.headers["allow"]


def test_what_is_nowhere_is_not_found(api):
    for path in ("/v1", "/v1/", "/v2/jobs", "/v1/jobs/", "/v1/jobs/1/x", "/v1/claims/x", "/v1/jobs/1/"):
        assert problem(api("GET", path)) == "not-found"
    assert problem(api("GET", "/v1/jobs/%FF")) == "bad-request"  # no UTF-8


def test_an_empty_object_is_taken_where_no_body_is_needed(api):
    """Generated clients of some languages always send one."""
    id = api.put("mail")
    [job] = api.reserve("mail")
    assert send(api, b"{}", f"/v1/claims/{job['receipt']}/release").status_code == 204
    assert send(api, b"{}", f"/v1/jobs/{id}/cancel").status_code == 204
    assert send(api, b"{}", f"/v1/jobs/{id}/retry").status_code == 204
    assert api("DELETE", f"/v1/jobs/{id}").status_code == 204


@pytest.mark.parametrize("content", [b'{"colour": 1}', b"[]", b"7", b"{"])
def test_any_other_body_where_none_belongs_is_refused(api, content):
    assert problem(send(api, content, "/v1/jobs/1/cancel")) in ("bad-body", "bad-json")


# ---- what is wrong with the store -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status", "kind"),
    [
        ("StoreAway", 503, "store-away"), ("StoreBusy", 503, "store-busy"), ("StoreFull", 507, "store-full"),
        ("StoreClosed", 503, "stopping"), ("StoreReadOnly", 403, "read-only"),
        ("StoreCorrupt", 500, "store-failed"),
    ],
)  # fmt: skip
def test_what_the_store_cannot_do_is_a_problem(api, monkeypatch, name, status, kind):
    import pywheel

    def refuse(*_):
        raise getattr(pywheel, name)("it rained")

    monkeypatch.setattr(api.queue.store, "apply", refuse)
    answer = send(api, b'{"topic": "a"}')
    assert (answer.status_code, problem(answer)) == (status, kind)
    assert ("retry-after" in answer.headers) == (status in (503, 507))


def test_an_error_of_our_own_is_told_by_its_request_id_alone_and_is_one_line_of_the_log(api, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("a secret")

    monkeypatch.setattr(AsyncSchedules, "get", fail)
    answer = api("POST", "/v1/schedules/a%0d%0aforged%E2%80%A8/run", headers={"x-request-id": "mine"})
    assert (answer.status_code, problem(answer)) == (500, "internal-error")
    assert "mine" in answer.json()["detail"]
    assert "secret" not in answer.text
    [said] = [record.getMessage() for record in caplog.records if record.name.startswith("pywheel")]
    assert len(said.splitlines()) == 1
    assert "forged" in said
    assert "mine" in said


# ---- request ids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/v1/topics", "/nowhere", "/v1/jobs/x"])
def test_every_answer_has_the_id_of_its_request_unless_that_could_hurt_a_log(api, path):
    assert api("GET", path, headers={"x-request-id": "mine"}).headers["x-request-id"] == "mine"
    assert api("GET", path).headers["x-request-id"] != api("GET", path).headers["x-request-id"]
    for id in ("", "a b", "x" * 129, "a\u00e9"):
        [own] = api("GET", path, headers={"x-request-id": id.encode()}).headers.get_list("x-request-id")
        assert own != id

"""Each invalid request gets a problem that says how to mend it, and changes nothing."""

import asyncio
import re

import pytest

from pywheel.client.schedules import AsyncSchedules
from pywheel.server import Limits
from pywheel.server.problems import KINDS
from tests.docs.pages import text
from tests.server.client import problem

JSON = {"content-type": "application/json"}


def send(api, content, path="/v1/jobs", **headers):
    return api("POST", path, content=content, headers={**JSON, **headers})


@pytest.fixture(autouse=True)
def nothing_is_put(queue):
    yield
    assert queue.jobs.list() == []


NO_JSON = [
    b"", b"{", b"\xff\xfe{}", b'{"topic": "\xff"}', b'{"topic": "a", "body": "\\ud800"}',
    b'{"topic": "a", "body": NaN}',
]  # fmt: skip


@pytest.mark.parametrize("content", NO_JSON)
def test_what_is_no_json_is_told_so(api, content):
    assert problem(send(api, content)) == "bad-json"


# of a job of the topic a, by the field that is named
WRONG = {
    "#/topic": [b'"topic": ""', b'"topic": 7', b'"topic": null', b'"topic": "%s"' % (b"x" * 16_385)],
    "#/body": [b'"body": "\xff"'],
    "#/colour": [b'"colour": 1'],
    "#/a~1b~0c": [b'"a/b~c": 1'],
    "#": [
        b'"delay": "soon"', b'"delay": 1e300', b'"delay": "9999999d"', b'"at": "1066-10-14T00:00:00Z"',
        b'"at": "2040-01-01T00:00:00Z", "delay": 1', b'"ttr": 0',
    ],
    "#/delay": [b'"delay": true'],
    "#/at": [b'"at": "2040-01-01T00:00:00"', b'"at": "tomorrow"'],
    "#/key": [b'"key": ""'],
    "#/replace": [b'"replace": 1'],
    "#/max_attempts": [b'"max_attempts": 0', b'"max_attempts": 1.5', b'"max_attempts": 1000001'],
    "#/headers": [b'"headers": []', b'"headers": {"b": 1}'],
    "#/body_base64": [b'"body": 1, "body_base64": "AA=="', b'"body_base64": "A"', b'"body_base64": "A-_="'],
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "pointer"),
    [
        (b"[]", "#"), (b"7", "#"), (b"{}", "#/topic"),
        *((b'{"topic": "a", %s}' % field, pointer) for pointer, fields in WRONG.items() for field in fields),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(api, content, pointer):
    answer = send(api, content)
    assert problem(answer) == "bad-body"
    assert answer.json()["errors"][0]["pointer"] == pointer


LONG = "1h " * 700_000


def test_a_duration_that_is_too_long_to_be_read_is_refused_and_says_how_long_it_may_be(api):
    api.put("mail")
    [job] = api.reserve("mail")
    one, claim = f"jobs/{job['id']}", f"claims/{job['receipt']}"
    for path, body in (
        *(("jobs", {"topic": "a", **words}) for words in ({"delay": LONG}, {"ttr": LONG})),
        ("jobs", {"topic": "a", "key": "k", "dedupe_for": LONG}),
        ("jobs/batch", {"jobs": [{"topic": "a", "delay": LONG}]}),
        ("jobs/retry", {"topic": "a", "delay": LONG}),
        *((path, {"delay": LONG}) for path in (f"{one}/retry", f"{one}/reschedule", f"{claim}/nack")),
        *(("reserve", {"topics": ["a"], field: LONG}) for field in ("wait", "ttr")),
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
    ("field", "value"),
    [
        ("topics", []), ("topics", "mail"), ("limit", 0), ("limit", 1001), ("wait", "-1s"), ("ttr", 0), ("worker", ""),
    ],
)  # fmt: skip
def test_a_wrong_wish_of_reserve_is_named(api, field, value):
    answer = api("POST", "/v1/reserve", json={"topics": ["a"], field: value})
    assert (problem(answer), answer.json()["errors"][0]["pointer"]) == ("bad-body", f"#/{field}")


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
    for path in (f"claims/{job['receipt']}/release", f"jobs/{id}/cancel", f"jobs/{id}/retry"):
        assert send(api, b"{}", f"/v1/{path}").status_code == 204
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


def test_every_kind_of_problem_is_listed_in_the_docs_with_its_status():
    rows = re.findall(r"^\| (\d{3}) \| (`.*`) \|$", text("docs/server.md"), re.MULTILINE)
    listed = {name: int(status) for status, names in rows for name in re.findall(r"`([a-z0-9-]+)`", names)}
    assert listed == {name: kind.status for name, kind in KINDS.items()}

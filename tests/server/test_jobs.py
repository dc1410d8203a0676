"""One job by HTTP: look at it, cancel, edit, retry, delete; by its id or its key."""

import pytest

from pywheel.jobs.commands import Ack
from tests.server.client import problem

BY_KEY = "/v1/jobs/by-key{}?topic=mail&key=k"


@pytest.fixture(params=["id", "key"])
def path(api, request):
    """Return the path of something about the job that has the key k."""
    id = api.put(key="k", delay="1h")
    return lambda suffix="": f"/v1/jobs/{id}{suffix}" if request.param == "id" else BY_KEY.format(suffix)


def test_a_job_is_shown_with_text_ids_and_times_in_utc(api, path):
    job = api("GET", path()).json()
    assert (job["id"], job["topic"], job["state"], job["key"]) == ("1", "mail", "delayed", "k")
    assert job["due"].endswith("Z")


def test_a_cancelled_job_is_never_delivered(api, path, clock):
    assert api("POST", path("/cancel")).status_code == 204
    clock.advance(7_200)
    assert api.reserve() == []


@pytest.mark.parametrize(
    ("method", "suffix"), [("POST", "/cancel"), ("POST", "/reschedule"), ("POST", "/retry"), ("DELETE", "")]
)
def test_a_job_that_runs_is_not_changed_and_its_state_is_told(api, path, clock, method, suffix):
    clock.advance(7_200)
    api.reserve()
    words = {"json": {"delay": 9}} if suffix == "/reschedule" else {}
    answer = api(method, path(suffix), **words)
    assert (problem(answer), answer.json()["state"]) == ("wrong-state", "running")
    assert "is running, not" in answer.json()["detail"]


def test_a_job_in_the_wrong_state_is_not_changed_by_a_refusal_that_asks_nothing_more(api, path, monkeypatch):
    answer = api("POST", path("/retry"))
    assert (problem(answer), answer.json()["state"]) == ("wrong-state", "delayed")
    api("POST", path("/cancel"))
    asked = []
    monkeypatch.setattr(api.queue.store, "ask", asked.append)
    answer = api("POST", path("/cancel"))
    assert (problem(answer), answer.json()["state"], asked) == ("wrong-state", "cancelled", [])


@pytest.mark.parametrize("words", [{"delay": "2h"}, {"delay": 7_200}])
def test_a_rescheduled_job_is_due_then(api, path, words):
    created = api.queue.get(("mail", "k")).created
    assert api("POST", path("/reschedule"), json=words).status_code == 204
    assert api.queue.get(("mail", "k")).due == created + 7_200_000
    for wrong in ({}, {"delay": 1, "at": "2040-01-01T00:00:00Z"}):  # it names one time
        assert problem(api("POST", path("/reschedule"), json=wrong)) == "bad-body"


@pytest.mark.parametrize("words", [{}, {"json": {"delay": "5m"}}])
def test_a_finished_job_is_retried(api, path, words):
    api("POST", path("/cancel"))
    assert api("POST", path("/retry"), **words).status_code == 204
    assert api("GET", path()).json()["state"] == "delayed"


def test_a_deleted_job_is_not_there(api, path):
    assert api("DELETE", path()).status_code == 204
    for method, suffix in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/retry"), ("GET", "/history")):
        assert problem(api(method, path(suffix))) == "no-such-job"


@pytest.mark.parametrize(
    ("result", "said"),
    [(None, {}), (b'{"a":1}', {"result": {"a": 1}}), (b"null", {"result": None}), (b"\xff", {"result_base64": "/w=="})],
)
def test_a_history_has_a_row_an_attempt_with_its_result(api, path, clock, result, said):
    clock.advance(7_200)
    [job] = api.reserve(worker="node-7")
    api.settle(job, "nack", json={"error": "502", "delay": 0})
    [job] = api.queue.reserve("mail")
    api.queue.store.apply([Ack(job.id, job.claims, result)])
    failed, done = api("GET", path("/history")).json()["attempts"]
    assert (failed["outcome"], failed["error"], failed["worker"]) == ("failed", "502", "node-7")
    assert {name: value for name, value in done.items() if name in ("result", "result_base64", "encrypted")} == said


def test_an_id_that_is_none_is_no_such_job(api):
    for id in ("0", "7", "x", "1.0", "+1", "1_0", "9" * 19, "9" * 30, "%C3%A9", " 1"):
        assert problem(api("GET", f"/v1/jobs/{id}")) == "no-such-job"


def test_a_key_may_have_any_character(api):
    api.put("a/b?c&d", key="/ü%20\N{SNOWMAN}")
    answer = api("GET", "/v1/jobs/by-key", params={"topic": "a/b?c&d", "key": "/ü%20\N{SNOWMAN}"})
    assert answer.json()["key"] == "/ü%20\N{SNOWMAN}"


# ---- preconditions --------------------------------------------------------------------------------------------------

DELAY = {"json": {"delay": 9}}
CHANGES = [("POST", "/cancel", {}), ("POST", "/reschedule", DELAY), ("PATCH", "", DELAY)]


def test_an_etag_changes_with_the_job_which_is_not_sent_again_until_then(api, path):
    tag = api("GET", path()).headers["etag"]

    def get(tag):
        answer = api("GET", path(), headers={"if-none-match": tag})
        return answer.status_code, answer.headers["etag"]

    assert (get(tag), get('"x"')) == ((304, tag), (200, tag))
    for change in (
        lambda: api.put(key="k", delay="1h", body="new", replace=True),
        lambda: api.queue.reschedule(1, 5),
        lambda: api("PATCH", path(), json={"body": "newer"}),
    ):
        before = tag
        change()
        status, tag = get(before)
        assert (status, tag == before) == (200, False)


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("method", "suffix", "words"), CHANGES)
def test_a_job_that_has_changed_since_is_left_alone(api, path, method, suffix, words, replaced):
    tag = api("GET", path()).headers["etag"]
    if replaced:
        assert api.put(key="k", delay="1h", body="new", replace=True) == "1"
    else:
        api.queue.reschedule(1, 5)
    before = api.queue.get(1)
    answer = api(method, path(suffix), headers={"if-match": tag}, **words)
    assert (answer.status_code, problem(answer)) == (412, "changed")
    assert api.queue.get(1) == before


@pytest.mark.parametrize(("method", "suffix", "words"), CHANGES)
def test_a_job_that_has_not_changed_since_is_changed(api, path, method, suffix, words):
    tag = api("GET", path()).headers["etag"]
    assert api(method, path(suffix), headers={"if-match": tag}, **words).status_code == 204


TAGS = """
x "" "delayed-1-0","delayed-2-0" W/"delayed-1-0" "delayed-1-" "delayed--1-0" "delayed-1--1" "delayed-ffffffffffffffff-0"
"delayed-0-ffffffffffffffff" "delayed-4000000000000000-0" "delayed--4000000000000000-0" "delayed-1-3fffffffffffffff" "x"
""".split()


def test_a_tag_that_no_job_has_is_no_match(api):
    id = api.put(delay="1h")
    for tag in TAGS:
        for method, suffix, words in CHANGES:
            answer = api(method, f"/v1/jobs/{id}{suffix}", headers={"if-match": tag}, **words)
            assert problem(answer) == "changed"


def test_an_edit_leaves_what_it_does_not_name(api, path):
    before = api.queue.get(("mail", "k"))

    def edited(**words):
        assert api("PATCH", path(), json=words).status_code == 204
        return api.queue.get(("mail", "k"))

    job = edited(body={"to": "b"}, priority=5, ttr="7s")
    assert job == before._replace(body=b'{"to":"b"}', priority=5, ttr=7_000, claims=1)
    assert edited(body_base64="/w==", headers={"a": "b"}, max_attempts=3, ttr=None, delay=None) == job._replace(
        body=b"\xff", headers={"a": "b"}, max_attempts=3, ttr=None, claims=2
    )
    assert edited(delay="2h").due - job.created == 7_200_000
    edited(body=None, headers={}, at="2020-01-31T12:00:00Z")
    [job] = api.queue.reserve("mail")
    assert (job.body, job.headers, job.priority) == (b"null", {}, 5)
    for words in ({"delay": 0}, {"body": 1}):  # no more, as it runs
        answer = api("PATCH", path(), json=words)
        assert (problem(answer), answer.json()["state"]) == ("wrong-state", "running")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ({"delay": 1, "at": "2040-01-01T00:00:00Z"}, "bad-body"),
        ({"body": 1, "body_base64": "MQ=="}, "bad-body"),
        ({"body": "x" * 2**20}, "too-large"),
        *((words, "bad-body") for words in ({}, {"delay": None}, {"key": "other"}, {"body_base64": "?"}, {"ttr": 0})),
        *(({"priority": priority}, "bad-body") for priority in (10, None)),
    ],
)
def test_an_edit_that_makes_no_sense_changes_nothing(api, path, words, name):
    before = api.queue.get(("mail", "k"))
    assert problem(api("PATCH", path(), json=words)) == name
    assert api.queue.get(("mail", "k")) == before

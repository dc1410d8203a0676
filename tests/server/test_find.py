"""Many jobs by HTTP: search in parts, changes by filter, topics and their counts."""

import asyncio
import json
import threading

import pytest

from pywheel import LimitOverride
from pywheel.client.jobs import Jobs
from pywheel.jobs.queries import ListNotes
from pywheel.server.api import claims
from tests.server.client import on_its_loop, problem, turns_until


def found(api, **parameters):
    """Return the ids of all that a search finds, part by part."""
    ids, cursor = [], None
    while True:
        words = {**parameters, **({"cursor": cursor} if cursor else {})}
        part = api("GET", "/v1/jobs", params=words).json()
        ids += [job["id"] for job in part["jobs"]]
        assert len(part["jobs"]) <= parameters.get("limit", 100)
        cursor = part["next"]
        if cursor is None:
            return ids


FIND = "GET", "/v1/jobs", {"params": {"limit": 100}}
RESERVE = "POST", "/v1/reserve", {"json": {"topics": ["mail"], "limit": 100}}


@pytest.mark.parametrize(("method", "path", "words"), [FIND, RESERVE], ids=["find", "reserve"])
@on_its_loop
async def test_an_answer_of_many_jobs_lets_other_requests_have_their_turn(api, monkeypatch, method, path, words):
    """It is counted from when the store has answered."""
    api.queue.put_many([api.queue.job("mail", "x" * 60_000) for _ in range(100)])
    real, answered = claims.reserve_async, asyncio.Event()

    async def claim(calls, command):
        jobs = await real(calls, command)
        answered.set()
        return jobs

    async def read(context, function, *args, **words):
        answer = function(*args, **words)  # here and now
        answered.set()
        return answer

    monkeypatch.setattr(claims, "reserve_async", claim)
    monkeypatch.setattr(type(api.context), "read", read)
    request = asyncio.ensure_future(api.ask(method, path, **words))
    await answered.wait()
    answer, turns = await turns_until(request)
    jobs = answer.json()["jobs"]
    assert len(jobs) == 100 if method == "POST" else 50 <= len(jobs) < 100  # a search has parts of some MB
    assert {job["body"] for job in jobs} == {"x" * 60_000}
    assert turns > len(jobs) / 8


def test_every_word_of_a_filter_counts(api, clock):
    near = api.put("a", delay=10, key="k")
    far = api.put("a", delay=1_000)
    other = api.put("b")
    [job] = api.reserve("b")
    api.settle(job, "nack", json={"delay": None, "error": "status 502"})
    due = api.job(near)["due"]
    for words, ids in (
        ({"topic": "a"}, [near, far]),
        ({"topic": "a", "key": "k"}, [near]),
        ({"state": "dead"}, [other]),
        ({"error": "502"}, [other]),
        ({"error": "503"}, []),
        ({"topic": "a", "due_until": due}, [near]),
        ({"topic": "a", "due_from": due}, [near, far]),
        ({"topic": "nowhere"}, []),
    ):
        assert found(api, **words) == ids, words


def test_bodies_come_along_unless_they_are_not_wanted(api):
    api.put(body={"to": 5})
    [with_body] = api("GET", "/v1/jobs").json()["jobs"]
    [without] = api("GET", "/v1/jobs?body=false").json()["jobs"]
    assert with_body.pop("body") == {"to": 5}
    assert with_body == without


# ---- changes by filter ----------------------------------------------------------------------------------------------


def states(api):
    return sorted(job.state.value for job in api.queue.jobs.list())


def bulk(api, what, **words):
    return api("POST", f"/v1/jobs/{what}", json=words)


def test_what_a_filter_means_is_cancelled_retried_and_deleted_and_a_dry_run_counts_alone(api):
    for topic in ("a", "a", "b"):
        api.put(topic, delay="1h")
    for what in ("cancel", "delete"):
        assert bulk(api, what, topic="a", dry_run=True).json() == {"jobs": 2, "dry_run": True}
    assert states(api) == ["delayed"] * 3
    for what, words, after in (
        ("cancel", {"topic": "a"}, ["cancelled", "cancelled", "delayed"]),
        ("retry", {"state": "cancelled", "delay": "5m"}, ["delayed"] * 3),
        ("delete", {"topic": "a"}, ["delayed"]),
    ):
        assert bulk(api, what, **words).json() == {"jobs": 2, "dry_run": False}
        assert states(api) == after
    for what, state in (("cancel", "done"), ("retry", "delayed"), ("delete", "running")):  # none can have that change
        assert problem(bulk(api, what, state=state)) == "bad-body"


@on_its_loop
async def test_changes_of_many_hold_up_nobody_else(api, monkeypatch):
    """However many go on, and for however long."""
    id = api.queue.put("a", delay="1h")
    go_on = threading.Event()
    monkeypatch.setattr(Jobs, "delete_many", lambda *_, **__: go_on.wait(60) and 1)
    many = [asyncio.ensure_future(api.ask("POST", "/v1/jobs/delete", json={"topic": "a"})) for _ in range(10)]
    await asyncio.sleep(0.1)
    answers = [await api.ask("GET", path) for path in (f"/v1/jobs/{id}", "/v1/jobs", "/v1/counts", "/readyz")]
    answers.append(await api.ask("POST", "/v1/topics/a/pause"))
    assert not any(one.done() for one in many)
    go_on.set()
    answers += await asyncio.gather(*many)
    assert {answer.status_code for answer in answers} == {200}


# ---- topics ---------------------------------------------------------------------------------------------------------


def test_topics_and_their_counts_and_a_paused_one_gives_no_job_until_it_is_resumed(api):
    name, path = "a/b c", "/v1/topics/a%2Fb%20c"
    api.put(name)
    api.put("b", delay="1h")
    for what, answers in (("pause", [True, False]), ("resume", [True])):
        assert [api("POST", f"{path}/{what}").json()["changed"] for _ in answers] == answers
        assert api("GET", "/v1/topics").json() == {
            "topics": [{"topic": name, "paused": what == "pause"}, {"topic": "b", "paused": False}],
            "next": None,
        }
        assert len(api.reserve(name)) == (what == "resume")
    counts = api("GET", "/v1/counts").json()["topics"]
    assert (counts[name]["running"], counts["b"]["delayed"]) == (1, 1)


# ---- parts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("what", "name"), [("topics", "topic"), ("schedules", "name"), ("jobs", "topic")])
def test_every_list_comes_in_parts_by_one_kind_of_cursor(api, queue, what, name):
    names = ["a", "b/ä", "c"]
    for one in names:
        queue.put(one)
        queue.schedules.set(one, "a", every="1h")
    seen, words = [], {"limit": 1}
    while words.get("cursor", "") is not None:
        part = api("GET", f"/v1/{what}", params=words).json()
        assert len(part[what]) <= 1
        seen += [one[name] for one in part[what]]
        words["cursor"] = part["next"]
    assert [one for one in seen if one in names] == names
    for cursor in ("====", "AA==", "/w==", "x", "", "bm9uZQ==", "9" * 100, "x" * 3_000):
        answer = api("GET", f"/v1/{what}", params={"cursor": cursor})
        if answer.status_code != 200 or (what == "jobs" and cursor not in ("====", "AA==", "/w==", "x" * 3_000)):
            assert (answer.status_code, problem(answer)) == (400, "bad-parameter")


def test_a_list_goes_on_in_a_topic_with_a_long_name(bearing, queue):
    """To a token for some topics it goes topic by topic: the cursor has its name."""
    names = ["m" * 5_000 + letter for letter in "ab"]
    for name in names:
        queue.put(name)
    api = bearing("read", topics=["m*"])
    first = api("GET", "/v1/jobs", params={"limit": 1}).json()
    second = api("GET", "/v1/jobs", params={"limit": 1, "cursor": first["next"]}).json()
    assert [job["topic"] for job in first["jobs"] + second["jobs"]] == names


SOUGHT = [
    ({"text": "needle"}, [0, 1]), ({"header": "tenant=a"}, [0]), ({"header": "tenant"}, [0, 2]),
    ({"priority": 5}, [1]), ({"worker": "app1:"}, [3]), ({"text": "needle", "priority": 0}, [0]),
]  # fmt: skip


@pytest.fixture
def shop(api):
    """The ids of some jobs that differ in their bodies, headers, priorities and workers."""
    ids = [
        api.put("shop.a", body={"a": "needle"}, headers={"tenant": "a"}, delay=60),
        api.put("shop.b", body={"b": "needles"}, priority=5, delay=60),
        api.put("shop.a", headers={"tenant": "b"}, delay=60),
        api.put("shop.a"),
    ]
    api.reserve("shop.a", worker="app1:7")
    return ids


@pytest.mark.parametrize(("words", "places"), SOUGHT)
def test_jobs_are_found_by_body_header_worker_and_priority(api, bearing, shop, words, places):
    ids = [shop[place] for place in places]
    whole = api("GET", "/v1/jobs", params=words).json()
    assert ([job["id"] for job in whole["jobs"]], whole["looked"]) == (ids, 4)
    assert found(api, **words, limit=1) == ids
    for topics in (["*"], ["shop.*"]):
        part = bearing("read", topics=topics)("GET", "/v1/jobs", params={**words, "body": False}).json()
        assert ({job["id"] for job in part["jobs"]}, part["looked"]) == ({*ids}, 4)
    assert api("GET", "/v1/jobs").json().get("looked", 0) == 0


def test_a_change_of_many_goes_by_them_too(api, shop):
    for words, places in SOUGHT:
        answer = api("POST", "/v1/jobs/cancel", json={**words, "dry_run": True})
        assert answer.json()["jobs"] == len([place for place in places if place != 3])
    assert api("POST", "/v1/jobs/cancel", json={"text": "needle"}).json()["jobs"] == 2
    assert [api.job(id)["state"] for id in shop] == ["cancelled", "cancelled", "delayed", "running"]


@pytest.mark.parametrize("words", [{"text": ""}, {"priority": "high"}, {"priority": 10}, {"worker": "x" * 201}])
def test_a_word_that_makes_no_sense_is_a_bad_parameter(api, words):
    assert problem(api("GET", "/v1/jobs", params=words)) == "bad-parameter"


def test_the_limits_of_a_topic_are_set_looked_at_and_left_to_its_code(api):
    path = "/v1/topics/a%2Fb%20c/limits"
    assert api("GET", path).json() == {"limits": None}
    assert api("PUT", path, json={"limit": 5, "per": ":", "rate": "100/m"}).json() == {"changed": True}
    assert api("PUT", path, json={"limit": 5, "per": ":", "rate": "100/m"}).json() == {"changed": False}
    assert api("GET", path).json() == {"limits": {"limit": 5, "per": ":", "rate": "100/m"}}
    assert api("PUT", path, json={"limit": None, "rate": None}).json() == {"changed": True}
    assert api.queue.topics.limits("a/b c") == LimitOverride()
    assert [api("DELETE", path).json()["changed"] for _ in range(2)] == [True, False]
    assert api.queue.topics.limits("a/b c") is None
    kept = [json.loads(value) for _, value in api.queue.store.ask(ListNotes("audit:"))]
    assert all((deed["action"], deed["topic"]) == ("limit", "a/b c") for deed in kept)
    assert {deed["what"] for deed in kept} == {
        "topic a/b c: 5 at once of each group up to ':', 100/m", "topic a/b c: no limit",
        "topic a/b c: as its code says",
    }  # fmt: skip


@pytest.mark.parametrize(
    "wish",
    [
        {}, {"limit": 5}, {"limit": 0, "rate": None}, {"limit": "5", "rate": None}, {"limit": None, "rate": "soon"},
        {"limit": None, "per": ":", "rate": None}, {"limit": 1, "per": "", "rate": None},
    ],
)  # fmt: skip
def test_limits_that_make_no_sense_are_refused(api, wish):
    answer = api("PUT", "/v1/topics/mail/limits", json=wish)
    assert (answer.status_code, problem(answer)) == (422, "bad-body")
    assert api.queue.store.ask(ListNotes("")) == []


def test_a_path_with_what_can_be_no_topic_is_told_so(api):
    for method, path in (("GET", "limits"), ("DELETE", "limits"), ("POST", "pause"), ("POST", "resume")):
        answer = api(method, f"/v1/topics/{'x' * 16_385}/{path}")
        assert (answer.status_code, problem(answer), answer.json()["parameter"]) == (400, "bad-parameter", "topic")

"""Schedules by HTTP: their state; run, pause, resume; and the rights for that."""

from urllib.parse import quote

import pytest

from pywheel import State
from pywheel.testing import run_due
from tests.client.periods import pass_time, start
from tests.server.client import problem


def test_schedules_are_listed_in_parts_with_where_they_are(api, queue, clock):
    start(clock)
    queue.handler("work")(lambda job: None)
    queue.schedules.set("a", "work", b"secret", every="1m")
    queue.schedules.set("b", "work", cron="0 3 * * *", tz="Europe/Berlin", catch_up="one")
    pass_time(queue, clock, 60)
    first = api("GET", "/v1/schedules?limit=1").json()
    [a] = first["schedules"]
    assert (a["name"], a["every"], a["outcome"], a["paused"]) == ("a", 60.0, "done", False)
    assert (a["last"], a["next"]) == ("2026-01-01T12:01:00Z", "2026-01-01T12:02:00Z")
    assert api("GET", f"/v1/jobs/{a['job']}").json()["key"] == "a@2026-01-01T12:01:00Z"
    [b] = api("GET", f"/v1/schedules?cursor={first['next']}").json()["schedules"]
    assert (b["cron"], b["tz"], b["last"], b["next"]) == ("0 3 * * *", "Europe/Berlin", None, "2026-01-02T02:00:00Z")
    assert "secret" not in api("GET", "/v1/schedules").text


@pytest.mark.parametrize("name", ["a b", "shop/night", "/", "a//b", "/run/run", "x/pause"])
def test_one_is_run_now_paused_and_resumed_whatever_slashes_its_name_has(api, queue, name):
    queue.handler("work")(lambda job: None)
    queue.schedules.set(name, "work", every="1h")
    for path in (quote(name, safe=""), quote(name)):
        id = int(api("POST", f"/v1/schedules/{path}/run").json()["id"])
        assert queue.get(id).headers["pywheel-schedule"] == name
        run_due(queue)
        assert queue.get(id).state is State.DONE
        for word, paused in (("pause", True), ("pause", True), ("resume", False)):
            changed = queue.schedules.get(name).schedule.paused is not paused
            assert api("POST", f"/v1/schedules/{path}/{word}").json()["changed"] is changed
            assert queue.schedules.get(name).schedule.paused is paused
    assert problem(api("POST", "/v1/schedules/c/run")) == "no-such-schedule"


@pytest.mark.parametrize("name", ["nightly", "a b/c", "/", "pause"])
def test_a_schedule_is_made_changed_looked_at_and_removed(api, queue, clock, name):
    start(clock)
    path = f"/v1/schedules/{quote(name)}"
    made = api("PUT", path, json={"topic": "work", "body": {"of": 5}, "every": "1m", "max_attempts": 3})
    assert made.status_code == 200, made.text
    assert (made.json()["name"], made.json()["every"], made.json()["next"]) == (name, 60.0, "2026-01-01T12:01:00Z")
    assert api("GET", path).json() == made.json()
    kept = queue.schedules.get(name).schedule
    assert (kept.body, kept.max_attempts) == (b'{"of":5}', 3)
    words = {"topic": "work", "cron": "0 3 * * *", "tz": "Europe/Berlin", "catch_up": "all"}
    changed = api("PUT", path, json={**words, "body_base64": "AP+A"}).json()
    assert (changed["every"], changed["cron"], changed["overlap"]) == (None, "0 3 * * *", "queue")
    assert queue.schedules.get(name).schedule.body == b"\0\xff\x80"
    assert api("DELETE", path).status_code == 204
    assert queue.schedules.list() == []
    for method in ("GET", "DELETE"):
        assert problem(api(method, path)) == "no-such-schedule"


@pytest.mark.parametrize(
    "wish",
    [
        {}, {"every": "1m", "cron": "0 3 * * *"}, {"every": "1ms"}, {"cron": "soon"}, {"every": "1m", "jitter": "soon"},
        {"every": "1m", "catch_up": "all", "overlap": "skip"}, {"every": "1m", "body": 1, "body_base64": "AP+A"},
    ],
)  # fmt: skip
def test_a_schedule_that_makes_no_sense_is_refused(api, queue, wish):
    assert problem(api("PUT", "/v1/schedules/s", json={"topic": "work", **wish})) == "bad-body"
    assert problem(api("PUT", "/v1/schedules/" + "s" * 181, json={"topic": "work", "every": "1m"})) == "bad-body"
    assert queue.schedules.list() == []


def test_a_method_that_a_schedule_does_not_take_is_refused(api, queue):
    queue.schedules.set("s", "work", every="1h")
    for method, path in (("POST", "schedules/s"), ("GET", "topics/mail/pause"), ("PUT", "schedules/s/pause")):
        answer = api(method, f"/v1/{path}")
        assert (problem(answer), bool(answer.headers["allow"])) == ("method-not-allowed", True)
    assert problem(api("GET", f"/v1/jobs/{api.put()}/1/history")) == "not-found"  # an id has no slashes


def test_a_token_for_other_topics_sees_and_changes_no_schedule(bearing, queue):
    queue.schedules.set("s", "work", every="1h")
    api = bearing("read", "put", topics=["mail"])
    for method, path, wish, kind in (
        ("PUT", "s", {"topic": "mail", "every": "1m"}, "no-such-schedule"),
        ("PUT", "t", {"topic": "work", "every": "1m"}, "scope-missing"),
        ("DELETE", "s", None, "no-such-schedule"),
        ("POST", "s/run", None, "no-such-schedule"),
    ):
        assert problem(api(method, f"/v1/schedules/{path}", json=wish)) == kind
    assert [one.schedule.topic for one in queue.schedules.list()] == ["work"]
    assert api("GET", "/v1/schedules?limit=1").json() == {"schedules": [], "next": None}
    queue.schedules.set("t", "mail", every="1h")
    assert [one["name"] for one in api("GET", "/v1/schedules?limit=1").json()["schedules"]] == ["t"]

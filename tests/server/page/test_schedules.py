"""The page's schedules, and the rights to see, make, change, run, pause and remove them."""

import dataclasses
import re

import pytest

from pywheel import JobQueue, Keyring, State

from .site import post, said, typed
from .test_audit import log


def test_a_schedule_is_made_changed_and_removed(queue, client):
    wish = {"name": "<ni/ght>", "topic": "work", "body": '{"n": 1}', "cron": "0 3 * * *", "tz": "Europe/Berlin"}
    answer = post(client, "/schedules/form", **wish, jitter="30s", ttr="5m", max_attempts="3")
    assert said(client, answer) == "&lt;ni/ght&gt; is made"
    made = queue.schedules.get("<ni/ght>").schedule
    assert (made.topic, made.body, made.cron, made.tz) == ("work", b'{"n": 1}', "0 3 * * *", "Europe/Berlin")
    assert (made.jitter, made.ttr, made.max_attempts, made.overlap) == (30_000, 300_000, 3, "skip")
    page = client.get("/schedules").text
    assert 'href="/schedules/form?name=%3Cni/ght%3E"' in page
    form = client.get("/schedules/form?name=%3Cni%2Fght%3E").text
    there = typed(form)
    assert {name: value for name, value in there.items() if value} == {
        **wish, "edit": "1", "catch_up": "none", "overlap": "skip", "jitter": "30s", "ttr": "300s",
        "max_attempts": "3",
    }  # fmt: skip
    changed = {**there, "cron": "", "tz": "", "every": "15m", "catch_up": "one"}
    assert said(client, post(client, "/schedules/form", **changed)) == "&lt;ni/ght&gt; is changed"
    after = queue.schedules.get("<ni/ght>").schedule
    assert (after.every, after.cron, after.catch_up, after.ttr) == (900_000, None, "one", 300_000)
    assert typed(client.get("/schedules/form?name=%3Cni%2Fght%3E").text)["every"] == "900s"
    assert said(client, post(client, "/schedules", name="<ni/ght>", action="remove")) == "&lt;ni/ght&gt; is removed"
    assert queue.schedules.list() == []
    what = "schedule &lt;ni/ght&gt; work"
    assert [(action, of) for _, action, of, _ in log(client)] == [("remove", what), ("set", what), ("set", what)]


@pytest.mark.parametrize("every", ["2w", "365d", "1234567ms"])
def test_a_period_of_any_length_and_what_the_form_has_no_field_for_stay_as_they_were(queue, client, every):
    words = {"jitter": "1234567ms", "ttr": "20d", "headers": {"k": "v"}, "priority": 5}
    queue.schedules.set("s", "work", b"x", every=every, **words)
    queue.schedules.pause("s")
    before = queue.schedules.get("s").schedule
    form = typed(client.get("/schedules/form?name=s").text)
    answer = post(client, "/schedules/form", **form | {"max_attempts": "3"})
    assert said(client, answer) == "s is changed"
    after = queue.schedules.get("s").schedule
    assert after == dataclasses.replace(before, max_attempts=3, since=after.since, version=after.version)


@pytest.mark.parametrize(
    ("wrong", "status", "told"),
    [
        ({"every": ""}, 400, "every= or cron="), ({"every": "soon"}, 400, "soon"),
        ({"cron": "x"}, 400, "every= or cron="), ({"every": "", "cron": "x y"}, 400, "x y"),
        ({"max_attempts": "many"}, 400, "many"),
        ({"max_attempts": "9" * 5_000}, 400, "max_attempts must be a whole number"),
        ({"topic": "a\0b"}, 400, "without NUL"), ({"overlap": "skip", "catch_up": "all"}, 400, "catch_up"),
        ({"name": ""}, 400, "name of a schedule"), ({"name": "there"}, 409, "there is a schedule of this name"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told_and_what_was_typed_stays(queue, client, wrong, status, told):
    queue.schedules.set("there", "work", every="1h")
    answer = post(client, "/schedules/form", **{"name": "s", "topic": "work", "body": "typed", "every": "1h", **wrong})
    assert answer.status_code == status
    alert = re.search(r'role="alert">(.*?)</p>', answer.text)[1]
    assert told in alert
    assert typed(answer.text)["body"] == "typed"
    assert [one.schedule.name for one in queue.schedules.list()] == ["there"]


@pytest.mark.parametrize("body", [b"\xff", "sealed"])
def test_a_schedule_whose_body_cannot_be_typed_is_not_changed_here(tmp_path, sites, body):
    url = f"sqlite:///{tmp_path}/jobs.db"
    keys = {"encryption": Keyring({"a": bytes(range(32))})} if body == "sealed" else {}
    with JobQueue(url, **keys) as queue:
        queue.schedules.set("s", "work", body, every="1h")
    with JobQueue(url) as queue, sites(queue).client() as client:
        before = queue.schedules.get("s")
        assert "Save" not in client.get("/schedules/form?name=s").text
        assert post(client, "/schedules/form", name="s", topic="work", every="2h", edit="1").status_code == 409
        assert queue.schedules.get("s").schedule == before.schedule


def test_each_says_when_it_comes_and_can_be_run_paused_and_resumed(queue, client):
    def told(action):
        return said(client, post(client, "/schedules", name="<ni/ght>", action=action))

    assert "There is no schedule" in client.get("/schedules").text
    queue.schedules.set("<ni/ght>", "work", every="1h")
    page = client.get("/schedules").text
    assert "&lt;ni/ght&gt;" in page
    assert "every 1h" in page
    assert queue.get(int(re.search(r"job (\d+)", told("run"))[1])).state is State.DELAYED
    assert told("pause") == "&lt;ni/ght&gt; is paused"
    assert queue.schedules.get("<ni/ght>").schedule.paused
    assert "Resume" in client.get("/schedules").text
    assert told("resume") == "&lt;ni/ght&gt; goes on"
    assert post(client, "/schedules", name="<ni/ght>", action="drop").status_code == 400
    assert post(client, "/schedules", name="none", action="run").status_code == 404


def test_a_long_list_comes_in_parts(queue, client):
    for number in range(203):
        queue.schedules.set(f"s{number:03}", "work", every="1h")
    page = client.get("/schedules").text
    assert page.count('value="run"') == 200
    following = re.search(r'/schedules\?after=([^"]+)"', page)[1]
    assert client.get(f"/schedules?after={following}").text.count('value="run"') == 3


@pytest.mark.parametrize("length", [1, 150])
def test_a_schedule_of_a_hidden_topic_is_refused_as_one_that_is_not_there(queue, guarded, length):
    hidden, none = "h" * length, "n" * length
    queue.schedules.set(hidden, "bank.pay", every="1h")
    before = queue.schedules.list()
    with guarded.client("shop_admin") as client:

        def told(name):
            acted = [post(client, "/schedules", name=name, action=action) for action in ("run", "pause", "remove")]
            answers = [client.get(f"/schedules/form?name={name}"), *acted]
            return [(answer.status_code, re.sub(f"&#39;{name[0]}+", "", answer.text)) for answer in answers]

        assert told(hidden) == told(none)
        assert {status for status, _ in told(hidden)} == {404}
        changed = post(client, "/schedules/form", name=hidden, topic="shop.mail", every="1h", edit="1")
        assert changed.status_code == 404
        assert "bank" not in changed.text
    assert queue.schedules.list() == before

"""The form that puts a job, and clones one."""

import re

import pytest

from pywheel.jobs.bodies import MAGIC
from pywheel.jobs.job import State

from .site import post, said, typed


def wrong(text):
    """Return what is said to be wrong, by field."""
    return dict(re.findall(r'<span class="error" id="(\w+)-wrong" role="alert">(.*?)</span>', text))


def test_a_job_is_put_as_the_form_says(queue, client):
    body = '\n{"order": 7,\n "näme": "<b>"}'
    words = {"body": body.replace("\n", "\r\n"), "delay": "2h", "priority": "-3", "key": "k"}
    before = queue.store.clock.wall()
    answer = post(client, "/put", topic=" shop.mail ", **words)
    [job] = queue.jobs.list()
    assert said(client, answer) == f"job {job.id} was put"
    assert (job.topic, job.body, job.priority, job.key) == ("shop.mail", body.encode(), -3, "k")
    assert 0 <= job.due - before - 7_200_000 < 60_000
    for at in ("2031-02-03T04:05:06", ""):
        post(client, "/put", topic="shop.mail", at=at)
    _, later, now = queue.jobs.list()
    assert later.due == 1_927_857_906_000
    assert now.due <= queue.store.clock.wall()


@pytest.mark.parametrize(
    ("field", "value", "status"),
    [
        ("topic", "", 400), ("delay", "soon", 400), ("at", "tomorrow", 400), ("at", "1969-01-01T00:00", 400),
        ("priority", "high", 400), ("priority", "10", 400), ("priority", "9" * 5000, 400), ("key", "taken", 409),
        ("body", "x" * (1 << 20) + "y", 400),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_field_and_what_was_typed_is_kept(queue, client, field, value, status):
    several = post(client, "/put", topic="", delay="1m", at="2031-01-01T00:00", priority="x")
    assert wrong(several.text).keys() == {"topic", "at", "priority"}
    queue.put("shop.mail", b"", key="taken", delay=60)
    given = {"topic": "shop.mail", "body": '"<x>"\n', "delay": "", "at": "", "priority": "1", "key": "other"}
    given[field] = value
    answer = post(client, "/put", **given)
    assert answer.status_code == status
    assert wrong(answer.text).keys() == {field}
    assert typed(answer.text) == given
    assert f'aria-describedby="{field}-wrong"' in answer.text
    assert len(queue.jobs.list()) == 1


def test_a_form_that_is_sent_twice_puts_one_job_and_with_other_values_another(queue, client):
    [form] = re.findall(r'name="form" value="(\w+)"', client.get("/put").text)
    for body, jobs in (("1", 1), ("1", 1), ("2", 2), ("2", 2)):
        answer = post(client, "/put", topic="shop.mail", body=body, form=form)
        assert len(queue.jobs.list()) == jobs
        assert answer.headers["location"].endswith(f"/jobs/{queue.jobs.list()[-1].id}")
    assert form not in client.get("/put").text


def test_a_clone_has_what_the_job_has(queue, client):
    headers = {"tenant": "7", "traceparent": f"00-{'1' * 32}-{'2' * 16}-01"}
    words = {"delay": 600, "key": "k", "priority": 4, "ttr": 90, "max_attempts": 3, "headers": headers}
    id = queue.put("shop.mail", b"\nfirst\n", **words)
    assert f'href="/put?clone={id}"' in client.get(f"/jobs/{id}").text
    form = typed(client.get(f"/put?clone={id}").text)
    assert (form["topic"], form["body"]) == ("shop.mail", "\nfirst\n")
    assert wrong(post(client, "/put", **form).text).keys() == {"key"}
    said(client, post(client, "/put", **{**form, "key": ""}))
    job, clone = queue.jobs.list()
    assert (clone.topic, clone.body, clone.due, clone.priority) == (job.topic, job.body, job.due, job.priority)
    assert (clone.ttr, clone.max_attempts) == (job.ttr, job.max_attempts)
    assert clone.headers == {"tenant": "7"}
    assert clone.state is State.DELAYED


@pytest.mark.parametrize("body", [b"\x00\xff\x01", b"a\r\nb", b"nul\0", MAGIC + b"\x01k" + bytes(40)])
def test_a_body_that_a_form_would_change_is_cloned_as_it_is_unless_its_key_is_missing(queue, client, body):
    sealed = body.startswith(MAGIC)
    id = queue.put("shop.mail", body)
    if not sealed:
        queue.ack(queue.reserve("shop.mail")[0])
    form = typed(client.get(f"/put?clone={id}").text)
    assert form == {"clone": str(id), "topic": "shop.mail", "delay": "", "at": "", "priority": "", "key": ""}
    answer = post(client, "/put", **form, body="anything")
    assert wrong(answer.text).keys() == ({"body"} if sealed else set())
    assert [job.body for job in queue.jobs.list()] == ([body] if sealed else [body, body])


# ---- a job that waits ------------------------------------------------------------------------------------------------


def edit(client, id):
    """Return what the form says that edits a job."""
    path = f"/put?clone={id}&edit=1"
    assert f'href="{path.replace("&", "&amp;")}"' in client.get(f"/jobs/{id}").text
    return typed(client.get(path).text)


def test_a_job_that_waits_is_edited_by_the_form(queue, client):
    id = queue.put("shop.mail", {"n": 1}, delay=600, key="k", priority=2, headers={"tenant": "7"})
    before = queue.get(id)
    form = edit(client, id)
    assert (form["body"], form["priority"], form["delay"], form["at"]) == ('{"n":1}', "2", "", "")
    assert not form.keys() & {"topic", "key"}
    edited = before._replace(body=b"new", priority=0, claims=1)
    for changed, job in (({}, before), ({"body": "new", "priority": ""}, edited)):
        assert said(client, post(client, "/put", **form | changed)) == f"job {id} edited"
        assert queue.get(id) == job
    post(client, "/put", **edit(client, id) | {"at": "2031-02-03T04:05:06"})
    assert queue.get(id).due == 1_927_857_906_000
    post(client, "/put", **edit(client, id) | {"delay": "0s"})
    assert queue.get(id).due <= queue.store.clock.wall()
    assert len(queue.jobs.list()) == 1


def test_a_job_that_has_changed_since_the_form_was_shown_or_runs_is_not_edited_and_what_was_typed_is_kept(
    queue, client
):
    id = queue.put("shop.mail", {"n": 1})
    form = edit(client, id) | {"body": "mine", "priority": "3"}
    queue.jobs.edit(id, body="theirs")
    answer = post(client, "/put", **form)
    assert answer.status_code == 409
    assert wrong(answer.text) == {"body": f"job {id} has changed since this form was shown and was not edited"}
    assert typed(answer.text) == form
    assert queue.get(id).json() == "theirs"
    [job] = queue.reserve("shop.mail")
    assert "edit=1" not in client.get(f"/jobs/{id}").text
    form["edit"] = f"{job.due}.{job.claims}"
    assert wrong(post(client, "/put", **form).text) == {"body": f"job {id} is running and was not edited"}
    assert queue.get(id) == job


@pytest.mark.parametrize("body", [b"\xff\x00", MAGIC + b"secret"])
def test_a_body_that_a_form_would_change_stays_when_the_rest_is_edited(queue, client, body):
    id = queue.put("shop.mail", body, delay=600)
    form = edit(client, id)
    assert "body" not in form
    post(client, "/put", **form | {"priority": "4"})
    assert (queue.get(id).body, queue.get(id).priority) == (body, 4)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"priority": "10"}, 400), ({"delay": "soon"}, 400), ({"delay": "1m", "at": "2031-01-01T00:00"}, 400),
        ({"edit": "x"}, 422), ({"edit": "1"}, 422),
    ],
)  # fmt: skip
def test_an_edit_that_makes_no_sense_changes_nothing(queue, client, fields, status):
    id = queue.put("shop.mail", {"n": 1}, delay=600)
    before = queue.get(id)
    assert post(client, "/put", **edit(client, id) | {"body": "new"} | fields).status_code == status
    assert queue.get(id) == before

"""The audit log: every change that was made by the page, by whom, and nothing that is secret."""

import re

import pytest

from pywheel import JobQueue
from pywheel.clock import ManualClock
from pywheel.jobs.queries import ListNotes
from pywheel.server import audit
from pywheel.server.tokens import Tokens, id_of
from tests.jobs.waiting import until

from .site import act, dead, post
from .test_actions import wait_until_over


def log(client, path="/log"):
    """Return the entries of the log: who, action, of what with its topic, outcome."""
    rows = re.findall(r"<tr><td><time .*?</time></td>(.*?)</tr>", client.get(path).text)
    cells = [[re.sub(r"<.*?>", "", cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]
    return [(who, action, f"{what} {topic}".strip(), outcome) for who, action, what, topic, outcome in cells]


def test_each_change_is_in_the_log_the_newest_first(queue, client):
    assert "Nothing." in client.get("/log").text
    delayed, gone = queue.put("mail", b"", key="k", delay=60), dead(queue, "mail")
    queue.schedules.set("night", "mail", every="1h")
    steps = [
        (f"/jobs/{delayed}", {"action": "reschedule", "delay": "2h"}, f"job {delayed} mail", "done"),
        (f"/jobs/{delayed}", {"action": "cancel"}, f"job {delayed} mail", "done"),
        (f"/jobs/{delayed}", {"action": "cancel"}, f"job {delayed} mail", "none: it is cancelled"),
        (f"/jobs/{gone}", {"action": "retry"}, f"job {gone} mail", "done"),
        (f"/jobs/{gone}", {"action": "delete"}, f"job {gone} mail", "done"),
        ("/topics", {"action": "pause", "topic": "mail"}, "topic mail mail", "done"),
        ("/topics", {"action": "limit", "topic": "mail", "limit": "5"}, "topic mail: 5 at once mail", "done"),
        ("/schedules", {"action": "run", "name": "night"}, "schedule night mail", "done"),
        ("/bulk", {"action": "retry", "id": [delayed, gone]}, f"2 jobs: {delayed}, {gone}", "1 retried"),
    ]
    for path, fields, _, _ in steps:
        there, _, id = path.rpartition("/")
        answer = act(client, queue, int(id), **fields) if there == "/jobs" else post(client, path, **fields)
        assert answer.status_code == 303
    wanted = [("everybody", fields["action"], what, outcome) for _, fields, what, outcome in steps]
    assert log(client) == wanted[::-1]


def test_what_is_put_is_in_the_log_without_its_body(queue, client):
    post(client, "/put", topic="mail", body="the secret", key="k")
    [job] = queue.jobs.list()
    post(client, "/put", topic="mail", clone=job.id)
    post(client, "/put", topic="mail", body="the secret", key="k")
    post(client, "/put", topic="mail", body="the secret", delay="soon")  # nothing came of it
    assert log(client) == [
        ("everybody", "put", "a job mail", "failed (409)"),
        ("everybody", "put", f"job {job.id + 1}, like job {job.id} mail", "done"),
        ("everybody", "put", f"job {job.id} mail", "done"),
    ]
    assert "secret" not in str(queue.store.ask(ListNotes("audit:")))


def test_what_is_done_to_many_is_in_the_log_when_it_begins_and_when_it_ends(queue, client):
    queue.put_many([queue.job("mail", b"", delay=60) for _ in range(30)])
    wait_until_over(client, post(client, "/bulk", action="cancel", topic="mail"))
    until(lambda: len(log(client)) == 2)  # the end is noted right after it is shown
    dead(queue, "shop", "timeout")
    wait_until_over(client, post(client, "/dead", action="retry", topic="shop", like="timeout"))
    until(lambda: len(log(client)) == 4)
    retry = "topic shop, state dead, errors like “timeout” shop"
    assert [entry[1:] for entry in log(client)] == [
        ("retry", retry, "1 retried, the end"),
        ("retry", retry, "begun"),
        ("cancel", "topic mail mail", "30 cancelled, the end"),
        ("cancel", "topic mail mail", "begun"),
    ]


def test_the_log_says_whose_token_it_was_and_never_the_token(queue, guarded):
    tokens = guarded.context.access.tokens = Tokens(queue.store)
    secret = tokens.add(["admin"], note="Ada <on call>")
    id = queue.put("mail", b"", delay=60)
    with guarded.client(secret) as client:
        act(client, queue, id, action="cancel")
        assert log(client) == [(f"Ada &lt;on call&gt; {id_of(secret)}", "cancel", f"job {id} mail", "done")]
    assert secret not in str(queue.store.ask(ListNotes("audit:")))


def test_a_long_log_comes_in_parts_and_is_bounded_and_an_entry_is_kept_for_90_days(sites, monkeypatch):
    monkeypatch.setattr(audit, "_NUMBER", 120)
    monkeypatch.setattr(audit, "_TRIM", 10)
    clock = ManualClock()
    with JobQueue("memory:", clock=clock) as queue, sites(queue).client() as client:
        for action in ("pause", "resume") * 70:
            clock.advance(1)
            post(client, "/topics", topic="mail", action=action)
        kept = len(queue.store.ask(ListNotes("audit:")))
        assert 120 <= kept < 130
        first = log(client)
        assert (len(first), first[0][1]) == (100, "resume")
        earlier = re.search(r'href="(/log\?after=[^"]+)"', client.get("/log").text)[1]
        assert len(log(client, earlier)) == kept - 100
        for days, there in ((89, True), (1, False)):
            clock.advance(days * 86_400)
            assert bool(log(client)) is there


@pytest.mark.parametrize("path", ["/topics", "/schedules"])
@pytest.mark.parametrize("length", [3, 200_000])
def test_an_action_that_there_is_not_leaves_no_entry(queue, client, path, length):
    """Otherwise anybody who may put could fill the store with texts of their own."""
    queue.schedules.set("mail", "mail", every="1h")
    assert post(client, path, name="mail", topic="mail", action="x" * length).status_code == 400
    assert queue.store.ask(ListNotes("audit:")) == []


def test_every_text_of_an_entry_is_cut(queue, client):
    """A text of any length would take its room for months, or the store would refuse it, and no entry be there."""
    long = "x" * 200_000
    for action in ("pause", "resume"):
        post(client, "/topics", topic=long[:16_000], action=action)
    post(client, "/bulk", action="cancel", topic=long)
    until(lambda: len(log(client)) == 4)
    assert all(len(value) < 2_000 for _, value in queue.store.ask(ListNotes("audit:")))

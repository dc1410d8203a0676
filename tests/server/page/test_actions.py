"""What can be done on the page, by forms alone, and by whom."""

import html
import re

import pytest

from pywheel import JobQueue, LimitOverride
from pywheel.jobs.commands import Nack, SetNote
from pywheel.jobs.job import State
from pywheel.jobs.queries import ListNotes
from tests.jobs.waiting import until

from .site import Site, buttons, post, said, tokens


def dead(queue, topic="shop.notify", error="it failed", **words):
    """Put a job and let it die."""
    id = queue.put(topic, {"n": 1}, **words)
    [job] = queue.reserve(topic)
    queue.store.apply([Nack(job.id, job.claims, None, error)])
    return id


def wait_until_over(client, answer):
    """Return the page of a bulk action, once it is over."""

    def over():
        nonlocal text
        text = client.get(answer.headers["location"]).text
        return any(word in text for word in ("Done.", "stopped", "then it ended"))

    text = ""
    until(over)
    return text


def test_a_delayed_job_is_cancelled(queue, client):
    id = queue.put("mail", b"", delay=60)
    assert said(client, post(client, f"/jobs/{id}", action="cancel")) == f"job {id} cancelled"
    assert queue.get(id).state is State.CANCELLED


def test_a_delayed_job_is_rescheduled_from_now_or_to_a_time(queue, client):
    id = queue.put("mail", b"", delay=60)
    before = queue.store.clock.wall()
    said(client, post(client, f"/jobs/{id}", action="reschedule", delay="2h", at=""))
    assert 0 <= queue.get(id).due - before - 7_200_000 < 60_000
    said(client, post(client, f"/jobs/{id}", action="reschedule", delay="", at="2031-02-03T04:05:06"))
    assert queue.get(id).due == 1_927_857_906_000


def test_due_now_wins_over_the_field_before_it(queue, client):
    id = queue.put("mail", b"", delay=600)
    said(client, post(client, f"/jobs/{id}", action="reschedule", delay=["", "0s"], at=""))
    assert queue.get(id).due <= queue.store.clock.wall()


@pytest.mark.parametrize(
    "fields",
    [{}, {"delay": "soon"}, {"at": "tomorrow"}, {"at": "1969-01-01T00:00"}, {"delay": "1m", "at": "2031-01-01T00:00"}],
)
def test_a_due_time_that_makes_no_sense_changes_nothing(queue, client, fields):
    id = queue.put("mail", b"", delay=60)
    due = queue.get(id).due
    assert post(client, f"/jobs/{id}", action="reschedule", **fields).status_code == 400
    assert queue.get(id).due == due


def test_a_dead_job_is_retried_and_deleted(queue, client):
    id = dead(queue)
    said(client, post(client, f"/jobs/{id}", action="retry"))
    assert queue.get(id).state is State.DELAYED
    said(client, post(client, f"/jobs/{id}", action="delete"))
    assert queue.jobs.list() == []


def test_an_action_that_comes_too_late_says_so(queue, client):
    id = queue.put("mail", b"", delay=60)
    queue.cancel(id)
    assert f"job {id} is cancelled and was not rescheduled" in said(
        client, post(client, f"/jobs/{id}", action="reschedule", delay="1m")
    )


def test_an_action_on_a_job_that_runs_by_then_says_so(queue, client):
    id = queue.put("mail", b"")
    queue.reserve("mail")
    assert f"job {id} is running and was not cancelled" in said(client, post(client, f"/jobs/{id}", action="cancel"))


def test_a_retry_whose_key_is_taken_says_so(queue, client):
    id = dead(queue, key="a")
    queue.put("shop.notify", b"", key="a", delay=60)
    answer = post(client, f"/jobs/{id}", action="retry")
    assert answer.status_code == 409
    assert "key" in answer.text
    assert queue.get(id).state is State.DEAD


@pytest.mark.parametrize("action", ["", "ack", "explode"])
def test_an_unknown_action_is_refused(queue, client, action):
    id = queue.put("mail", b"", delay=60)
    assert post(client, f"/jobs/{id}", action=action).status_code == 400


def test_a_topic_is_paused_and_resumed(queue, client):
    queue.put("mail", b"", delay=60)
    assert "mail is paused" in said(client, post(client, "/topics", topic="mail", action="pause"))
    assert [topic.paused for topic in queue.topics.list()] == [True]
    assert "mail goes on" in said(client, post(client, "/topics", topic="mail", action="resume"))
    assert [topic.paused for topic in queue.topics.list()] == [False]


@pytest.mark.parametrize(
    ("typed", "said_of_it", "kept"),
    [
        ({"limit": "5", "per": "", "rate": " 100/m "}, "5 at once, 100/m", LimitOverride(5, None, "100/m")),
        ({"limit": "1", "per": " ", "rate": ""}, "1 at once of each group up to &#39; &#39;", LimitOverride(1, " ")),
        ({"limit": "", "per": "", "rate": ""}, "no limit", LimitOverride()),
    ],
)
def test_a_topic_is_limited_and_left_to_its_code_on_its_page(queue, client, typed, said_of_it, kept):
    queue.put("mail", b"", delay=60)
    assert "Limits: as its code says<" in client.get("/jobs?topic=mail").text
    form = {"topic": "mail", "from": "jobs", "query": "topic=mail"}
    answer = post(client, "/topics", action="limit", **form, **typed)
    assert answer.headers["location"] == "/jobs?topic=mail"
    assert said(client, answer) == f"mail is limited: {said_of_it}"
    assert queue.topics.limits("mail") == kept
    text = client.get("/jobs?topic=mail").text
    assert f"Limits: {said_of_it}, set by an operator<" in text
    for field, value in kept._asdict().items():
        assert f'name="{field}" value="{value or ""}"' in text
    assert "as_code" in buttons(text)
    assert "as its code says" in said(client, post(client, "/topics", action="as_code", **form))
    assert queue.topics.limits("mail") is None
    assert "as_code" not in buttons(client.get("/jobs?topic=mail").text)


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ({"limit": "0"}, "limit must be a whole number from 1"),
        ({"limit": "five"}, "not &#39;five&#39;"),
        ({"limit": "9" * 5_000}, "limit must be a whole number from 1"),
        ({"per": ":"}, "limit must be a whole number from 1"),
        ({"rate": "soon"}, "rate is text such as"),
    ],
)
def test_a_limit_that_makes_no_sense_is_said_and_not_set(queue, client, typed, why):
    answer = post(client, "/topics", topic="mail", action="limit", **typed)
    assert answer.status_code == 400
    assert why in answer.text
    assert queue.topics.limits("mail") is None


# ---- many at once ----------------------------------------------------------------------------------------------------


def test_a_selection_is_counted_and_then_changed(queue, client):
    ids = [queue.put("mail", b"", delay=60) for _ in range(4)]
    asked = post(client, "/jobs", action="cancel", scope="selected", id=ids[:3], topic="mail")
    assert "Cancel 3 jobs?" in asked.text
    assert all(job.state is State.DELAYED for job in queue.jobs.list())
    assert said(client, post(client, "/bulk", action="cancel", id=ids[:3], topic="mail")) == "3 of 3 jobs cancelled"
    assert [job.state is State.CANCELLED for job in queue.jobs.list()] == [True, True, True, False]


def test_a_selection_that_has_changed_is_changed_as_far_as_it_can_be(queue, client):
    ids = [queue.put("mail", b"", delay=60) for _ in range(3)]
    queue.cancel(ids[0])
    assert "2 of 3 jobs cancelled" in said(client, post(client, "/bulk", action="cancel", id=ids))


def test_nothing_selected_says_so(queue, client):
    queue.put("mail", b"", delay=60)
    assert said(client, post(client, "/jobs", action="cancel", scope="selected")) == "no job was selected"


def test_a_whole_search_is_counted_and_then_changed(queue, client):
    queue.put_many([queue.job("mail", b"", delay=60, key=f"k{n}") for n in range(600)])
    other = queue.put("shop", b"", delay=60)
    asked = post(client, "/jobs", action="cancel", scope="all", topic="mail")
    assert "Cancel 600 jobs?" in asked.text
    text = wait_until_over(client, post(client, "/bulk", action="cancel", topic="mail"))
    assert "600 cancelled" in text
    assert queue.topics.counts()["mail"].cancelled == 600
    assert queue.get(other).state is State.DELAYED


def test_a_search_by_error_changes_what_it_finds_alone(queue, client):
    for error in ("timeout after 3 s", "refused", "timeout after 9 s"):
        dead(queue, error=error)
    asked = post(client, "/jobs", action="delete", scope="all", error="timeout")
    assert "Delete 2 jobs?" in asked.text
    wait_until_over(client, post(client, "/bulk", action="delete", error="timeout"))
    assert [job.last_error for job in queue.jobs.list()] == ["refused"]


def test_to_retry_a_search_without_a_state_is_to_retry_the_dead(queue, client):
    dead(queue, topic="mail")
    queue.ack((queue.put("mail", b""), queue.reserve("mail")[0])[1])
    assert "Retry 1 job?" in post(client, "/jobs", action="retry", scope="all", topic="mail").text
    wait_until_over(client, post(client, "/bulk", action="retry", topic="mail"))
    assert queue.topics.counts()["mail"][:4] == (1, 0, 1, 0)


def test_an_action_of_another_state_is_refused(queue, client):
    queue.put("mail", b"", delay=60)
    assert post(client, "/jobs", action="retry", scope="all", state="delayed").status_code == 400


def test_a_bulk_action_can_be_stopped(queue, client, monkeypatch):
    monkeypatch.setattr("pywheel.server.page.bulk._BATCH", 1)
    queue.put_many([queue.job("mail", b"", delay=60) for _ in range(3_000)])
    answer = post(client, "/bulk", action="cancel", topic="mail")
    post(client, answer.headers["location"], action="stop")
    assert "stopped" in wait_until_over(client, answer)
    assert 0 < queue.topics.counts()["mail"].delayed <= 3_000


def test_a_bulk_action_is_seen_and_stopped_at_every_server_of_the_store(queue, client, monkeypatch):
    monkeypatch.setattr("pywheel.server.page.bulk._BATCH", 1)
    queue.put_many([queue.job("mail", b"", delay=60) for _ in range(3_000)])
    answer = post(client, "/bulk", action="cancel", topic="mail")
    path = answer.headers["location"]
    other = Site(queue)
    try:
        with other.client() as elsewhere:
            assert "cancelled" in elsewhere.get(path).text
            assert post(elsewhere, path, action="stop").status_code == 303
            assert "stopped" in wait_until_over(elsewhere, answer)
    finally:
        other.stop()
    assert "stopped" in client.get(path).text
    assert 0 < queue.topics.counts()["mail"].delayed <= 3_000


def test_a_bulk_action_whose_server_has_ended_says_so(queue, client, monkeypatch):
    queue.put("mail", b"", delay=60)
    answer = post(client, "/bulk", action="cancel", topic="mail")
    wait_until_over(client, answer)
    [(name, value)] = queue.store.ask(ListNotes("bulk:"))
    queue.store.apply([SetNote(name, value.replace(b'"over":true', b'"over":false'), 60_000)])
    assert "then it ended" not in client.get(answer.headers["location"]).text
    monkeypatch.setattr("pywheel.server.page.bulk._SILENT", -1)
    assert "the server that did it has ended" in client.get(answer.headers["location"]).text


@pytest.fixture
def small(monkeypatch):
    """Bulk actions in many batches."""
    monkeypatch.setattr("pywheel.server.page.bulk._BATCH", 7)


DUE = 1_927_857_906_000  # 2031-02-03T04:05:06 in UTC


@pytest.mark.parametrize("query", [{"topic": "mail"}, {"due_from": "2026-01-01T00:00"}, {"topic": "mail", "key": "k3"}])
def test_a_whole_search_is_rescheduled_once_each(queue, client, small, query):
    queue.put_many([queue.job("mail", b"", delay=60 + n, key=f"k{n}") for n in range(40)])
    running = queue.put("mail", b"")
    queue.reserve("mail")
    number = 1 if "key" in query else 40
    asked = post(client, "/jobs", action="reschedule", scope="all", **query)
    assert f"Reschedule {number} job" in asked.text
    begun = post(client, "/bulk", action="reschedule", delay="", at="2031-02-03T04:05:06", **query)
    page = wait_until_over(client, begun)
    assert f">{number} rescheduled. Done.<" in page
    assert "due at 2031-02-03 04:05:06.000 UTC" in page
    assert sum(job.due == DUE for job in queue.jobs.list()) == number
    assert queue.get(running).state is State.RUNNING


def test_a_selection_is_rescheduled(queue, client):
    ids = [queue.put("mail", b"", delay=60) for _ in range(3)]
    other = queue.get(ids[2]).due
    assert "Due in" in post(client, "/jobs", action="reschedule", scope="selected", id=ids[:2]).text
    answer = post(client, "/bulk", action="reschedule", id=ids[:2], at="2031-02-03T04:05:06")
    assert said(client, answer) == "2 of 2 jobs rescheduled"
    assert [queue.get(id).due for id in ids] == [DUE, DUE, other]


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"delay": "soon"}, "delay"),
        ({"at": "tomorrow"}, "at"),
        ({}, "delay"),
        ({"delay": "1m", "at": "2031-01-01T00:00"}, "delay"),
    ],
)
def test_a_new_due_time_of_many_that_makes_no_sense_is_said_at_its_field(queue, client, typed, field):
    ids = [queue.put("mail", b"", delay=60) for _ in range(2)]
    before = queue.jobs.list()
    for given in ({"id": ids}, {"topic": "mail"}):
        answer = post(client, "/bulk", action="reschedule", **given, **typed)
        assert answer.status_code == 400
        assert f'id="{field}-wrong" role="alert"' in answer.text
        for name, value in typed.items():
            assert f'name="{name}" value="{value}"' in answer.text
        assert "Reschedule 2 jobs?" in answer.text
    assert queue.jobs.list() == before


def test_rescheduling_many_can_be_stopped(queue, client, monkeypatch):
    monkeypatch.setattr("pywheel.server.page.bulk._BATCH", 1)
    queue.put_many([queue.job("mail", b"", delay=60) for _ in range(3_000)])
    answer = post(client, "/bulk", action="reschedule", topic="mail", at="2031-02-03T04:05:06")
    post(client, answer.headers["location"], action="stop")
    assert "stopped" in wait_until_over(client, answer)
    assert 0 < sum(job.due != DUE for job in queue.jobs.list()) <= 3_000


@pytest.mark.parametrize("ids", [["x"], [10**30, "1.5"], list(range(1001))])
def test_ids_that_are_none_are_refused(client, ids):
    assert post(client, "/bulk", action="cancel", id=ids).status_code == 400


# ---- the dead --------------------------------------------------------------------------------------------------------


def test_the_dead_are_grouped_by_error_with_digits_and_ids_left_out(queue, client):
    for n in range(3):
        dead(queue, error=f"KeyError: order {n} of 0x7f{n}a0, job 8f14e45fceea167a5a36dedd4bea254{n}")
    dead(queue, error="refused")
    dead(queue, topic="mail", error="refused")
    text = client.get("/dead").text
    assert re.findall(r'class="many"><a [^>]*><strong>(\d+)', text) == ["3", "1", "1"]
    assert re.findall(r'class="many"><a [^>]*><strong>(\d+)', client.get("/dead?topic=mail").text) == ["1"]


def test_a_group_of_dead_jobs_is_retried_and_no_other(queue, client):
    for n in range(3):
        dead(queue, error=f"timeout after {n} s")
    other = dead(queue, error="refused")
    text = client.get("/dead").text
    like = re.search(r'name="like" value="([^"]+)"', text)[1]
    wait_until_over(client, post(client, "/dead", topic="shop.notify", like=like, action="retry"))
    assert queue.topics.counts()["shop.notify"][:4] == (3, 0, 0, 1)
    assert queue.get(other).state is State.DEAD


ERRORS = {
    "digits": [f"timeout after {n} s" for n in range(30)],
    "text": ["timeout after a while", "timeout after a while"],
    "odd": [' \t<b> & "x" + 100%\u00e4\u2028more', ' \t<b> & "x" + 7%\u00e4'],
    "long": [f"{n} {'x y ' * 2_000}" for n in range(2)],
    "none": [None, "", " \n "],
}


def test_a_group_of_dead_jobs_leads_to_exactly_its_jobs(queue, client, monkeypatch):
    monkeypatch.setattr("pywheel.server.page.jobs._LIMIT", 7)
    ids = {kind: [] for kind in ERRORS}
    for n in range(30):
        for kind, errors in ERRORS.items():
            ids[kind] += [dead(queue, error=errors[n])] if n < len(errors) else []
            dead(queue, topic="other", error=errors[n % len(errors)])
    text = client.get("/dead?topic=shop.notify").text
    groups = re.findall(r'class="many"><a href="([^"]+)"[^>]*><strong>(\d+)', text)
    assert sorted(int(number) for _, number in groups) == sorted(map(len, ids.values()))
    led = []
    for link, number in groups:
        found, path = [], html.unescape(link)
        while path:
            page = client.get(path).text
            found += map(int, re.findall(r'<th scope="row"><a href="/jobs/(\d+)"', page))
            following = re.search(r'href="([^"]+)" rel="next"', page)
            path = following and html.unescape(following[1])
        assert len(found) == int(number)
        led.append(found)
    assert sorted(led) == sorted(ids.values())


def test_what_is_done_to_all_of_a_group_that_was_searched_is_done_to_no_other(queue, client):
    for n in range(3):
        dead(queue, error=f"timeout after {n} s")
    other = dead(queue, error="refused")
    query = {"topic": "shop.notify", "state": "dead", "like": "timeout after # s"}
    asked = post(client, "/jobs", action="delete", scope="all", **query).text
    assert "Delete 3 jobs?" in asked
    assert 'name="like" value="timeout after # s"' in asked
    wait_until_over(client, post(client, "/bulk", action="delete", **query))
    assert [job.id for job in queue.jobs.list()] == [other]


# ---- who may ---------------------------------------------------------------------------------------------------------

MAY = {
    "viewer": [],
    "operator": ["cancel", "reschedule", "retry"],
    "admin": ["cancel", "delete", "reschedule", "retry"],
}


@pytest.mark.parametrize("role", MAY)
def test_each_role_sees_the_buttons_of_what_it_may_do(queue, guarded, role):
    delayed, finished = queue.put("mail", b"", delay=60), dead(queue)
    with guarded.client(role) as client:
        offered = {*buttons(client.get(f"/jobs/{delayed}").text), *buttons(client.get(f"/jobs/{finished}").text)}
        assert sorted(offered) == MAY[role]
        many = [*buttons(client.get("/").text), *buttons(client.get("/jobs").text), *buttons(client.get("/dead").text)]
        assert sorted(set(many)) == (["cancel", "delete", "pause", "reschedule", "retry"] if role == "admin" else [])


@pytest.mark.parametrize("role", MAY)
@pytest.mark.parametrize("action", ["cancel", "delete", "reschedule", "retry"])
def test_an_action_is_checked_on_the_server(queue, guarded, role, action):
    id = dead(queue) if action == "retry" else queue.put("mail", b"", delay=60)
    before = queue.get(id)
    with guarded.client(role) as client:
        answer = post(client, f"/jobs/{id}", action=action, delay="1h")
    if action in MAY[role]:
        assert answer.status_code == 303
        assert queue.jobs.list() == [] or queue.get(id) != before
    else:
        assert answer.status_code == 403
        assert queue.get(id) == before


MANY = [
    ("/topics", {"topic": "mail", "action": "pause"}),
    ("/topics", {"topic": "mail", "action": "limit", "limit": "1"}),
    ("/topics", {"topic": "mail", "action": "as_code"}),
    ("/jobs", {"action": "cancel", "scope": "all"}),
    ("/bulk", {"action": "cancel"}),
    ("/bulk", {"action": "cancel", "id": "1"}),
    ("/dead", {"topic": "mail", "like": "x", "action": "retry"}),
]


@pytest.mark.parametrize("role", ["viewer", "operator"])
@pytest.mark.parametrize(("path", "fields"), MANY)
def test_what_is_done_to_many_is_for_admins(queue, guarded, role, path, fields):
    id = queue.put("mail", b"", delay=60)
    with guarded.client(role) as client:
        assert post(client, path, **fields).status_code == 403
    assert queue.get(id).state is State.DELAYED
    assert not queue.topics.list()[0].paused
    assert queue.topics.limits("mail") is None


@pytest.mark.parametrize(("path", "fields"), [*MANY, ("/jobs/1", {"action": "cancel"})])
def test_a_site_that_only_reads_changes_nothing(queue, sites, path, fields):
    id = queue.put("mail", b"", delay=60)
    site = sites(queue, read_only=True)
    with site.client() as client:
        assert post(client, path, **fields).status_code == 403
        assert buttons(client.get(f"/jobs/{id}").text + client.get("/").text + client.get("/jobs").text) == []
    assert queue.get(id).state is State.DELAYED


def test_a_token_for_some_topics_sees_and_changes_no_others(queue, guarded):
    mine, foreign = queue.put("shop.notify", b"mine", delay=60), queue.put("bank.pay", b"foreign", delay=60)
    with guarded.client("shop_admin") as client:
        for path in ("/", "/jobs", "/dead", "/workers"):
            assert "bank.pay" not in client.get(path).text
        assert "shop.notify" in client.get("/").text
        for path in ("/jobs?topic=bank.pay", "/coming?topic=bank.pay", "/coming", "/outlets"):
            assert client.get(path).status_code == 403
        for answer in (
            client.get(f"/jobs/{foreign}"),
            client.get(f"/jobs/{foreign}/body"),
            post(client, f"/jobs/{foreign}", action="cancel"),
        ):  # as if it did not exist
            assert answer.status_code == 404
            assert "bank.pay" not in answer.text
        for path, fields in (
            ("/topics", {"topic": "bank.pay", "action": "pause"}),
            ("/bulk", {"action": "cancel", "topic": "bank.pay"}),
            ("/dead", {"topic": "bank.pay", "like": "x", "action": "retry"}),
        ):
            assert post(client, path, **fields).status_code == 403
        said(client, post(client, "/bulk", action="cancel", id=[mine, foreign]))
        assert queue.get(foreign).state is State.DELAYED
        assert queue.get(mine).state is State.CANCELLED
        queue.jobs.retry(mine)
        assert "Cancel 1 job?" in post(client, "/jobs", action="cancel").text
        progress = wait_until_over(client, post(client, "/bulk", action="cancel"))
        assert "1 cancelled" in progress
        assert "looked at" not in progress
    assert queue.get(foreign).state is State.DELAYED


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://{host}"}, 303),
        ({"origin": "https://{host}"}, 303),
        ({}, 403),
    ],
)
def test_a_form_of_another_site_changes_nothing(queue, guarded, headers, status):
    id = queue.put("mail", b"", delay=60)
    with guarded.client("admin") as client:
        del client.headers["sec-fetch-site"]
        host = f"127.0.0.1:{guarded.port}"
        client.headers.update({name: value.format(host=host) for name, value in headers.items()})
        assert post(client, f"/jobs/{id}", action="cancel").status_code == status
    assert queue.get(id).state is (State.CANCELLED if status == 303 else State.DELAYED)


def test_an_action_of_somebody_unknown_does_nothing(queue, guarded):
    id = queue.put("mail", b"", delay=60)
    for token in (None, "wrong", "worker"):
        with guarded.client(token) as client:
            assert post(client, f"/jobs/{id}", action="cancel").status_code == 401
    assert queue.get(id).state is State.DELAYED


def test_a_form_that_is_too_long_is_refused(client):
    assert post(client, "/bulk", action="cancel", error="x" * 300_000).status_code == 413


def test_a_store_that_is_closed_is_said(sites):
    queue = JobQueue("memory:")
    site = sites(queue, known=tokens())
    id = queue.put("mail", b"", delay=60)
    with site.client("admin") as client:
        client.get("/")
        queue.close()
        assert post(client, f"/jobs/{id}", action="cancel").status_code == 503
        assert client.get(f"/jobs/{id}").status_code == 503
        until(lambda: "The store does not answer" in client.get("/workers").text)

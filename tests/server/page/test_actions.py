"""The actions of the page, by forms alone, and the rights that they need."""

import html
import re

import pytest

from pywheel import JobQueue, LimitOverride
from pywheel.clock import ManualClock
from pywheel.jobs.commands import Expire, Nack, SetNote
from pywheel.jobs.job import State
from pywheel.jobs.queries import ListNotes
from pywheel.server.page import bulk
from pywheel.server.page.bulk import ACTIONS
from tests.jobs.waiting import until

from .site import act, buttons, dead, pages_of, post, said, tokens

AT = "2031-02-03T04:05:06"
DUE = 1_927_857_906_000  # the same, in UTC


def wait_until_over(client, answer):
    """Return the page of a bulk action, once it is over."""
    path = answer.headers["location"]
    until(lambda: re.search(r"Done\.|stopped|then it ended", client.get(path).text))
    return client.get(path).text


def test_one_job_is_cancelled_retried_rescheduled_and_deleted(queue, client):
    id, other = queue.put("mail", b"", delay=60), dead(queue)

    def told(action, **fields):
        return said(client, act(client, queue, id, action=action, **fields))

    assert told("cancel") == f"job {id} cancelled"
    assert queue.get(id).state is State.CANCELLED
    assert f"job {id} is cancelled and was not rescheduled" in told("reschedule", delay="1m")
    told("retry")
    before = queue.store.clock.wall()
    told("reschedule", delay="2h", at="")
    assert 0 <= queue.get(id).due - before - 7_200_000 < 60_000
    told("reschedule", delay="", at=AT)
    assert queue.get(id).due == DUE
    told("reschedule", delay=["", "0s"], at="")  # the button behind the field
    assert queue.get(id).due <= queue.store.clock.wall()
    queue.reserve("mail")
    assert f"job {id} is running and was not cancelled" in told("cancel")
    act(client, queue, other, action="delete")
    assert [job.id for job in queue.jobs.list()] == [id]


def forms(client, id):
    """Return the job that each form of its page says it shows."""
    return re.findall(r'name="shown" value="([^"]+)"', client.get(f"/jobs/{id}").text)


@pytest.mark.parametrize("action", ["delete", "retry"])
def test_an_old_page_does_nothing_to_a_job_that_has_changed_since_it_was_shown(queue, client, action):
    id = dead(queue)
    [old] = forms(client, id)

    def told(shown):
        return said(client, post(client, f"/jobs/{id}", action=action, **shown))

    refusal = f"job {id} has changed since this form was shown and was not {ACTIONS[action].done}"
    queue.jobs.retry(id)
    assert told({"shown": old}) == refusal
    assert queue.get(id).state is State.DELAYED
    [job] = queue.reserve("shop.notify")
    queue.store.apply([Nack(job.id, job.claims, None, "it failed again")])
    assert [told(shown) for shown in ({"shown": old}, {})] == [refusal] * 2
    assert queue.get(id).state is State.DEAD
    [fresh] = forms(client, id)
    assert told({"shown": fresh}) == f"job {id} {ACTIONS[action].done}"


def test_all_forms_of_a_job_act_on_the_job_that_they_show(queue, client):
    id = queue.put("mail", b"", delay=60)
    [shown, other] = forms(client, id)
    assert shown == other
    assert said(client, post(client, f"/jobs/{id}", action="reschedule", at=AT, shown=shown)) == f"job {id} rescheduled"
    assert queue.get(id).due == DUE


SENSELESS = [
    ({}, "delay"), ({"delay": "soon"}, "delay"), ({"at": "tomorrow"}, "at"), ({"at": "1969-01-01T00:00"}, "at"),
    ({"delay": "1m", "at": "2031-01-01T00:00"}, "delay"),
]  # fmt: skip


@pytest.mark.parametrize(("typed", "field"), SENSELESS)
def test_a_due_time_that_makes_no_sense_changes_nothing_and_is_said_at_its_field(queue, client, typed, field):
    ids = [queue.put("mail", b"", delay=60) for _ in range(2)]
    before = queue.jobs.list()
    assert act(client, queue, ids[0], action="reschedule", **typed).status_code == 422
    for given in ({"id": ids}, {"topic": "mail"}):
        answer = post(client, "/bulk", action="reschedule", **given, **typed)
        assert answer.status_code == 400
        assert f'id="{field}-wrong" role="alert"' in answer.text
        for name, value in typed.items():
            assert f'name="{name}" value="{value}"' in answer.text
        assert "Reschedule 2 jobs?" in answer.text
    assert queue.jobs.list() == before


def test_a_retry_whose_key_is_taken_says_so(queue, client):
    id = dead(queue, key="a")
    queue.put("shop.notify", b"", key="a", delay=60)
    answer = act(client, queue, id, action="retry")
    assert answer.status_code == 409
    assert "key" in answer.text
    assert queue.get(id).state is State.DEAD


@pytest.mark.parametrize(
    ("path", "fields", "status"),
    [
        *(("/jobs/1", {"action": action}, 400) for action in ("", "ack", "explode")),
        ("/jobs", {"action": "retry", "scope": "all", "state": "delayed"}, 422),
        *(("/bulk", {"action": "cancel", "id": ids}, 400) for ids in (["x"], [10**30, "1.5"], list(range(1001)))),
        ("/bulk", {"action": "cancel", "error": "x" * 300_000}, 413),
    ],
)
def test_a_form_that_makes_no_sense_is_refused(queue, client, path, fields, status):
    id = queue.put("mail", b"", delay=60)
    assert post(client, path, **fields).status_code == status
    assert queue.get(id).state is State.DELAYED


def test_a_topic_is_paused_and_resumed(queue, client):
    queue.put("mail", b"", delay=60)
    for action, told, paused in (("pause", "mail is paused", True), ("resume", "mail goes on", False)):
        assert told in said(client, post(client, "/topics", topic="mail", action=action))
        assert [topic.paused for topic in queue.topics.list()] == [paused]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/topics", {"topic": "a\r\nb", "action": "pause"}),
        ("/bulk", {"topic": "a\r\nb", "action": "delete"}),
        ("/bulk", {"key": "a\r\nb", "action": "delete"}),
        ("/dead", {"topic": "a\r\nb", "action": "delete", "like": "it failed"}),
        ("/jobs", {"topic": "a\r\nb", "action": "delete", "scope": "all"}),
    ],
)
def test_a_form_does_nothing_by_a_name_with_a_line_end_as_a_browser_sends_one_for_every_other(
    queue, client, path, fields
):
    for name in ("a\nb", "a\rb"):
        dead(queue, name)
        queue.put("mail", b"", key=name, delay=60)
    before = queue.jobs.list(), queue.topics.list()
    answer = post(client, path, **fields)
    assert answer.status_code == 400
    assert "a line end" in answer.text
    assert (queue.jobs.list(), queue.topics.list()) == before


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
        ({"rate": "soon"}, "rate must be text such as"),
    ],
)
def test_a_limit_that_makes_no_sense_is_said_and_not_set(queue, client, typed, why):
    answer = post(client, "/topics", topic="mail", action="limit", **typed)
    assert answer.status_code == 422
    assert why in answer.text
    assert queue.topics.limits("mail") is None


# ---- many at once ----------------------------------------------------------------------------------------------------


def test_a_selection_is_counted_and_then_changed_as_far_as_it_can_be(queue, client):
    ids = [queue.put("mail", b"", delay=60) for _ in range(5)]
    asked = post(client, "/jobs", action="cancel", scope="selected", id=ids[:3], topic="mail")
    assert "Cancel 3 jobs?" in asked.text
    assert all(job.state is State.DELAYED for job in queue.jobs.list())
    queue.cancel(ids[0])
    done = said(client, post(client, "/bulk", action="cancel", id=ids[:3], topic="mail"))
    assert done == "2 of 3 jobs cancelled; the others had changed by then"
    assert [job.state is State.CANCELLED for job in queue.jobs.list()] == [True] * 3 + [False] * 2
    assert "Due in" in post(client, "/jobs", action="reschedule", scope="selected", id=ids[3:4]).text
    answer = post(client, "/bulk", action="reschedule", id=ids[3:4], at=AT)
    assert said(client, answer) == "1 of 1 jobs rescheduled"
    assert [job.due == DUE for job in queue.jobs.list()] == [False] * 3 + [True, False]
    assert said(client, post(client, "/jobs", action="cancel", scope="selected")) == "no job was selected"


@pytest.mark.parametrize(("action", "done"), [("cancel", "cancelled"), ("reschedule", "rescheduled")])
@pytest.mark.parametrize(
    ("query", "number"),
    [({"topic": "mail"}, 40), ({"due_from": "2026-01-01T00:00"}, 41), ({"topic": "mail", "key": "k3"}, 1)],
)
def test_a_whole_search_is_counted_and_then_changed_once_each(queue, client, monkeypatch, action, done, query, number):
    monkeypatch.setattr("pywheel.server.page.bulk._BATCH", 7)
    queue.put_many([queue.job("mail", b"", delay=60 + n, key=f"k{n}") for n in range(40)])
    queue.put("shop", b"", delay=60)
    running = queue.put("mail", b"")
    queue.reserve("mail")
    asked = post(client, "/jobs", action=action, scope="all", **query)
    assert f"{action.title()} {number} job" in asked.text
    at = {"delay": "", "at": AT} if action == "reschedule" else {}
    page = wait_until_over(client, post(client, "/bulk", action=action, **at, **query))
    assert f">{number} {done}. Done.<" in page
    assert ("due at 2031-02-03 04:05:06.000 UTC" in page) is bool(at)
    changed = [job for job in queue.jobs.list() if job.due == DUE or job.state is State.CANCELLED]
    assert len(changed) == number
    assert queue.get(running).state is State.RUNNING


@pytest.mark.parametrize(
    "by", [{"error": "timeout"}, {"topic": "shop.notify", "state": "dead", "like": "timeout after # s"}]
)
def test_a_search_by_error_changes_what_it_finds_alone(queue, client, by):
    for error in ("timeout after 3 s", "refused", "timeout after 9 s"):
        dead(queue, error=error)
    asked = post(client, "/jobs", action="delete", scope="all", **by).text
    assert "Delete 2 jobs?" in asked
    assert all(f'name="{name}" value="{value}"' in asked for name, value in by.items())
    wait_until_over(client, post(client, "/bulk", action="delete", **by))
    assert [job.last_error for job in queue.jobs.list()] == ["refused"]


def test_to_retry_a_search_without_a_state_is_to_retry_the_dead_and_of_a_group_that_group(queue, client):
    for n in range(3):
        dead(queue, error=f"timeout after {n} s")
    other = dead(queue, error="refused")
    queue.ack((queue.put("shop.notify", b""), queue.reserve("shop.notify")[0])[1])
    like = re.search(r'name="like" value="([^"]+)"', client.get("/dead").text)[1]
    wait_until_over(client, post(client, "/dead", topic="shop.notify", like=like, action="retry"))
    assert queue.topics.counts()["shop.notify"][:4] == (3, 0, 1, 1)
    assert queue.get(other).state is State.DEAD
    assert "Retry 1 job?" in post(client, "/jobs", action="retry", scope="all", topic="shop.notify").text
    wait_until_over(client, post(client, "/bulk", action="retry", topic="shop.notify"))
    assert queue.topics.counts()["shop.notify"][:4] == (4, 0, 1, 0)


@pytest.mark.parametrize("fields", [{"action": "cancel"}, {"action": "reschedule", "at": "2031-02-03T04:05:06"}])
def test_a_bulk_action_is_seen_and_stopped_at_every_server_of_the_store(queue, client, sites, monkeypatch, fields):
    monkeypatch.setattr("pywheel.server.page.bulk._BATCH", 1)
    queue.put_many([queue.job("mail", b"", delay=60) for _ in range(3_000)])
    answer = post(client, "/bulk", topic="mail", **fields)
    path = answer.headers["location"]
    with sites(queue).client() as elsewhere:
        assert fields["action"] in elsewhere.get(path).text
        assert post(elsewhere, path, action="stop").status_code == 303
        assert "stopped" in wait_until_over(elsewhere, answer)
    assert "stopped" in client.get(path).text
    assert 0 < sum(job.state is State.DELAYED and job.due != DUE for job in queue.jobs.list(limit=3_000)) <= 3_000


def test_a_bulk_action_ends_when_the_token_that_began_it_is_removed(queue, guarded, monkeypatch):
    monkeypatch.setattr("pywheel.server.access._FRESH", 0.0)
    monkeypatch.setattr(bulk, "_BATCH", 7)
    batch = bulk._batch

    def last_batch(*arguments):
        guarded.tokens.pop("admin", None)
        return batch(*arguments)

    monkeypatch.setattr(bulk, "_batch", last_batch)
    queue.put_many([queue.job("mail", b"", delay=60) for _ in range(40)])
    with guarded.client("admin") as client, guarded.client("viewer") as other:
        page = wait_until_over(other, post(client, "/bulk", action="delete", topic="mail"))
    assert ">7 deleted, then it ended<" in page
    assert "the token is over" in page
    assert len(queue.jobs.list()) == 33


def test_a_bulk_action_whose_server_has_ended_says_so(queue, client, monkeypatch):
    queue.put("mail", b"", delay=60)
    answer = post(client, "/bulk", action="cancel", topic="mail")
    wait_until_over(client, answer)
    [(name, value)] = queue.store.ask(ListNotes("bulk:"))
    queue.store.apply([SetNote(name, value.replace(b'"over":true', b'"over":false'), 60_000)])
    for silent, told in ((60_000, False), (-1, True)):
        monkeypatch.setattr("pywheel.server.page.bulk._SILENT", silent)
        assert ("the server that did it has ended" in client.get(answer.headers["location"]).text) is told


# ---- the dead --------------------------------------------------------------------------------------------------------


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
    groups = re.findall(
        r'class="many"><a href="([^"]+)"[^>]*><strong>(\d+)', client.get("/dead?topic=shop.notify").text
    )
    led = [pages_of(client, html.unescape(link)) for link, _ in groups]
    assert [int(number) for _, number in groups] == list(map(len, led))
    assert sorted(led) == sorted(ids.values())


def summary(client, topic=""):
    """Return the first line of the page of dead jobs, without its thin spaces, and the ids it links to."""
    page = client.get(f"/dead?topic={topic}").text
    said = re.search(r'<p class="note">(.*?)(?: in |<)', page)[1].replace("\u202f", "")
    return said, sorted(map(int, re.findall(r"/jobs/(\d+)", page)))


def test_the_dead_are_found_behind_many_jobs_that_wait_and_however_many_they_are(queue, client, monkeypatch):
    """In an instant: the lists by id scan ten jobs for each part, the ends of a topic's dead jobs come by an index."""
    monkeypatch.setattr("pywheel.stores.sql.lists._FEW", 5)
    monkeypatch.setattr("pywheel.stores.sql.lists._WALK", 10)
    monkeypatch.setattr("pywheel.server.page.jobs._PART_OF_DEAD", 5)
    monkeypatch.setattr("pywheel.server.page.jobs._PATIENCE", 0)
    queue.put_many([queue.job("shop.notify", delay=60)] * 30)
    queue.put_many([queue.job("shop.notify")] * 30)
    for job in queue.reserve("shop.notify", 30):
        queue.ack(job)
    ids = [dead(queue) for _ in range(12)]
    assert summary(client) == ("5 of 12 dead jobs", [ids[-5], ids[-1]])
    monkeypatch.setattr("pywheel.server.page.jobs._PATIENCE", 60)
    assert summary(client) == ("12 dead jobs", [ids[0], ids[-1]])


def test_topics_with_dead_jobs_take_turns_and_the_page_says_how_many_it_looked_at(queue, client, monkeypatch):
    monkeypatch.setattr("pywheel.server.page.jobs._PART_OF_DEAD", 5)
    monkeypatch.setattr("pywheel.server.page.jobs._DEAD", 6)
    many, few = [dead(queue, "many") for _ in range(12)], dead(queue, "few")
    assert summary(client) == ("6 of 13 dead jobs", [many[-5], many[-1], few])
    assert summary(client, "few") == ("1 dead jobs", [few])


def test_dead_jobs_whose_last_attempt_was_lost_are_grouped_by_their_last_error(sites):
    clock = ManualClock()
    with JobQueue("memory:", clock=clock) as queue, sites(queue).client() as client:
        ids = [queue.put("mail", max_attempts=2) for _ in range(2)]
        for job in queue.reserve("mail", 2):
            queue.nack(job, 0, error="wrong")
        queue.reserve("mail", 2, ttr=1)
        clock.advance(2)
        for _ in range(3):  # nobody has ended them, then one, then both
            assert summary(client) == ("2 dead jobs", ids)
            assert client.get("/dead").text.count('name="like" value="wrong"') == 1
            queue.store.apply([Expire(1)])


def test_dead_jobs_that_no_part_has_are_not_said_to_be_none(queue, client, monkeypatch):
    dead(queue)
    monkeypatch.setattr("pywheel.server.page.jobs._dead", lambda *_: iter([[]]))
    assert summary(client) == ("Looked at none yet of 1 dead jobs.", [])
    assert "No job is dead" not in client.get("/dead").text


# ---- who may ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 303), ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403), ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://evil.example"}, 403),
        ({"origin": "https://evil.example"}, 403), ({"origin": "null"}, 403), ({"origin": "http://{host}"}, 303),
        ({"origin": "https://{host}"}, 303), ({}, 403),
    ],
)  # fmt: skip
def test_a_form_of_another_site_changes_nothing(queue, guarded, headers, status):
    id = queue.put("mail", b"", delay=60)
    with guarded.client("admin") as client:
        del client.headers["sec-fetch-site"]
        host = f"127.0.0.1:{guarded.port}"
        client.headers.update({name: value.format(host=host) for name, value in headers.items()})
        assert act(client, queue, id, action="cancel").status_code == status
    assert queue.get(id).state is (State.CANCELLED if status == 303 else State.DELAYED)


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

"""Workers on the page: their running jobs, and orders to them."""

import contextlib
import re

import pytest

from pywheel.jobs.commands import Announce, ClaimPolicy, Reserve
from pywheel.jobs.queries import QUIET, GetNote, Member
from pywheel.server.page import views
from pywheel.stores.notifier import order_note
from tests.jobs.waiting import until

from .site import buttons, post, said
from .test_audit import log


def claim(queue, topic, worker, number=1, **words):
    """Put jobs, and let a worker claim them; return their ids."""
    ids = queue.put_many([queue.job(topic, b"", **words) for _ in range(number)])
    [claimed] = queue.store.apply([Reserve(topic, number, ClaimPolicy(60_000, 5), worker)])
    assert [job.id for job in claimed] == ids
    return ids


def shown(text):
    """Return what runs, as the page says it: by worker the id, the topic and the attempt of each job."""
    runs = {}
    table = text.partition('aria-label="Running jobs by worker"')[2].partition("</table>")[0]
    for body in re.findall(r"<tbody>(.*?)</tbody>", table, re.DOTALL):
        worker = re.search(r'<th scope="rowgroup" rowspan="\d+">(.*?)</th>', body)[1]
        rows = re.findall(
            r'/jobs/(\d+)">\1</a>.*?topic=[^"]+">(.*?)</a>.*?<time datetime="[^"]+".*?<td class="n">(.*?)</td>',
            body,
            re.DOTALL,
        )
        runs[worker] = [(int(id), topic, re.sub("<.*?>", "", attempt)) for id, topic, attempt in rows]
    return runs


def test_each_worker_has_the_jobs_that_it_runs_and_no_other(queue, client, monkeypatch):
    assert "Nothing runs" in client.get("/workers").text
    queue.put("shop.mail", b"", delay=60)
    [first] = claim(queue, "shop.mail", "near:1", max_attempts=3)
    [second] = claim(queue, "bank.pay", "far:2")
    [third] = claim(queue, "bank.pay", "near:1")
    [ended] = claim(queue, "bank.pay", "gone:3")
    queue.ack(queue.get(ended))
    text = client.get("/workers").text
    assert shown(text) == {
        "far:2": [(second, "bank.pay", "1")],
        "near:1": [(first, "shop.mail", "1/3"), (third, "bank.pay", "1")],
    }
    assert "There are more" not in text
    monkeypatch.setattr(views, "_RUNNING", 2)  # so many are shown at most
    text = client.get("/workers").text
    assert sum(map(len, shown(text).values())) == 2
    assert 'There are more: <a href="/jobs?state=running">' in text


@pytest.mark.parametrize("role", ["viewer", "shop_admin"])
def test_a_token_for_some_topics_is_told_what_runs_of_them_alone(queue, guarded, role):
    [foreign] = claim(queue, "bank.pay", "far.example:2")
    [mine] = claim(queue, "shop.mail", "near.example:1")
    with guarded.client(role) as client:
        text = client.get("/workers").text
    assert shown(text)["near.example:1"] == [(mine, "shop.mail", "1")]
    assert ("far.example" in text) is (f"/jobs/{foreign}" in text) is (role == "viewer")


def test_a_worker_is_told_to_be_quiet_to_go_on_and_to_stop(queue, client, monkeypatch):
    monkeypatch.setattr(Member, "gone", False)  # however long an answer takes here
    with contextlib.closing(queue.store.notifier("near:1")) as ear:
        queue.store.apply([Announce(ear.worker, ("mail",))])

        def told(action):
            answer = post(client, "/workers", worker=ear.worker, action=action)
            return said(client, answer), queue.store.ask(GetNote(order_note(ear.worker)))

        assert buttons(client.get("/workers").text) == ["quiet", "stop"]
        text, order = told("quiet")
        assert (text.startswith(f"{ear.worker} takes no new jobs"), order) == (True, b"quiet")
        queue.store.apply([Announce(ear.worker, (QUIET + "mail",))])
        until(lambda: buttons(client.get("/workers").text) == ["resume", "stop"])
        text = client.get("/workers").text
        assert "</span>quiet</span>" in text
        assert 'href="/jobs?topic=mail">mail</a>' in text
        assert [told(action)[1] for action in ("resume", "stop")] == [None, b"stop"]
        wanted = [(word, f"worker {ear.worker}") for word in ("stop", "resume", "quiet")]
        assert [(action, what) for _, action, what, _ in log(client)] == wanted
    for action, status in (("stop", 404), ("kill", 400)):
        assert post(client, "/workers", worker=ear.worker, action=action).status_code == status

"""Workers on the page: their running jobs, and orders to them."""

import contextlib
import re

import pytest

from pywheel.jobs.commands import Announce, ClaimPolicy, Reserve
from pywheel.jobs.queries import QUIET, GetNote
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


def test_each_worker_has_the_jobs_that_it_runs_and_no_other(queue, client):
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


def test_so_many_running_jobs_are_shown_at_most(queue, client, monkeypatch):
    monkeypatch.setattr(views, "_RUNNING", 5)
    ids = claim(queue, "mail", "near:1", 8)
    text = client.get("/workers").text
    assert [id for id, _, _ in shown(text)["near:1"]] == ids[:5]
    assert re.search(r'There are more: <a href="/jobs\?state=running">', text)


@pytest.mark.parametrize("role", ["viewer", "shop_admin"])
def test_a_token_for_some_topics_is_told_what_runs_of_them_alone(queue, guarded, role):
    [foreign] = claim(queue, "bank.pay", "far.example:2")
    [mine] = claim(queue, "shop.mail", "near.example:1")
    with guarded.client(role) as client:
        text = client.get("/workers").text
    assert shown(text)["near.example:1"] == [(mine, "shop.mail", "1")]
    assert ("far.example" in text) is (f"/jobs/{foreign}" in text) is (role == "viewer")


@contextlib.contextmanager
def there(queue, name, *topics):
    """Have a worker that has announced topics, and works on nothing; give its id."""
    with contextlib.closing(queue.store.notifier(name)) as ear:
        queue.store.apply([Announce(ear.worker, topics)])
        yield ear.worker


def ordered(queue, worker):
    return queue.store.ask(GetNote(order_note(worker)))


def test_a_worker_is_told_to_be_quiet_to_go_on_and_to_stop(queue, client):
    with there(queue, "near:1", "mail") as worker:
        assert buttons(client.get("/workers").text) == ["quiet", "stop"]
        answer = post(client, "/workers", worker=worker, action="quiet")
        assert said(client, answer).startswith(f"{worker} takes no new jobs")
        assert ordered(queue, worker) == b"quiet"
        queue.store.apply([Announce(worker, (QUIET + "mail",))])
        until(lambda: buttons(client.get("/workers").text) == ["resume", "stop"])
        text = client.get("/workers").text
        assert "</span>quiet</span>" in text
        assert 'href="/jobs?topic=mail">mail</a>' in text
        post(client, "/workers", worker=worker, action="resume")
        assert ordered(queue, worker) is None
        post(client, "/workers", worker=worker, action="stop")
        assert ordered(queue, worker) == b"stop"
        assert [(action, what) for _, action, what, _ in log(client)] == [
            (word, f"worker {worker}") for word in ("stop", "resume", "quiet")
        ]
    assert post(client, "/workers", worker=worker, action="stop").status_code == 404
    assert post(client, "/workers", worker=worker, action="kill").status_code == 400

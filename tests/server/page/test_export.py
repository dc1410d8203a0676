"""The jobs that a search finds, as JSON Lines."""

import asyncio
import json

import pytest

from pywheel.jobs.queries import GetPage
from pywheel.server import app
from pywheel.server.page import jobs
from tests.jobs.waiting import until
from tests.server.client import Exchange, scope

from .site import dead


def lines(client, **query):
    """Return the records of an export."""
    answer = client.get("/jobs/export", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["content-disposition"] == 'attachment; filename="jobs.jsonl"'
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_line_is_what_the_api_says_of_the_job(queue, client):
    bodies = [b'{\r\n  "a": "\\n",\n  "b": [1.0, 10000000000000000000000]\n}', b"\x00\xff", b"no JSON", b""]
    ids = queue.put_many([queue.job("mail", body, key=f"k{n}", delay=60) for n, body in enumerate(bodies)])
    assert client.get("/jobs/export").content.count(b"\n") == len(ids)
    assert lines(client) == [client.get(f"/v1/jobs/{id}").json() for id in ids] != []


def test_an_export_has_all_that_the_search_finds_and_nothing_else(queue, client):
    ids = queue.put_many([queue.job("mail", b"", delay=60) for _ in range(2_345)])
    for error in ("timeout after 1 s", "timeout after 2 s", "refused"):
        dead(queue, "shop", error)
    assert [int(job["id"]) for job in lines(client, topic="mail")] == ids
    assert [int(job["id"]) for job in lines(client, topic="mail", newest="1")] == ids[::-1]
    found = [
        len(lines(client, **by)) for by in ({"error": "refused"}, {"like": "timeout after # s"}, {}, {"topic": "x"})
    ]
    assert found == [1, 2, 2_348, 0]
    assert client.get("/jobs/export?state=odd").status_code == 422
    assert "/jobs/export?topic=mail&amp;state=delayed" in client.get("/jobs?topic=mail&state=delayed").text


def test_a_token_for_some_topics_exports_them_alone(queue, guarded):
    for topic in ("shop.a", "bank.pay", "shop.b"):
        queue.put_many([queue.job(topic, b"", delay=60) for _ in range(1_100)])
    with guarded.client("shop_admin") as client:
        assert [job["topic"] for job in lines(client)] == ["shop.a"] * 1_100 + ["shop.b"] * 1_100
        assert client.get("/jobs/export?topic=bank.pay").status_code == 403
    with guarded.client("viewer") as client:
        assert len(lines(client)) == 3_300
    with guarded.client("worker") as client:
        assert client.get("/jobs/export").status_code == 303


@pytest.mark.parametrize("ends", ["token", "store"])
def test_an_export_whose_token_or_store_ends_says_so_at_its_end(queue, guarded, monkeypatch, ends):
    queue.put_many([queue.job("mail", b"", delay=60) for _ in range(1_500)])
    real = jobs._page

    def over(*arguments):
        if ends == "token":
            guarded.context.access._known.clear()
            guarded.tokens.pop("viewer", None)
        found = real(*arguments)
        if ends == "store":
            queue.close()
        return found

    monkeypatch.setattr(jobs, "_page", over)
    with guarded.client("viewer") as client:
        found = lines(client)
    assert len(found) == 1_001
    assert found[-1].keys() == {"error"}


def test_an_export_reads_no_further_than_it_has_sent(queue, monkeypatch):
    queue.put_many([queue.job("mail", b"x" * 500_000, delay=60) for _ in range(40)])
    asked, ask = [], queue.store.ask
    monkeypatch.setattr(queue.store, "ask", lambda query: asked.append(type(query) is GetPage) or ask(query))
    service = app(queue, access="open")

    async def exported():
        reader = Exchange(service, scope("/jobs/export"), takes=2)
        await reader.stuck.wait()
        for _ in range(20):  # what should not be read would be by now
            await service.state.context.long(int)
        pages = sum(asked)
        reader.goes_on.set()
        await reader.request
        return pages, [len(message.get("body", b"")) for message in reader.sent]

    pages, sent = asyncio.run(exported())
    assert pages == 1 < 3 < sum(asked)
    assert max(sent) <= 64 << 10
    assert sum(sent) > 40 * 500_000
    assert service.state.context.exports._all == 0
    service.state.context.close()


def test_more_exports_than_the_limit_are_refused(queue, guarded):
    queue.put("mail", b"", delay=60)
    for _ in range(16):
        guarded.context.exports.take("")
    with guarded.client("viewer") as client:
        assert client.get("/jobs/export").status_code == 503
        guarded.context.exports.leave("")
        for _ in range(2):
            until(lambda: guarded.context.exports._all < 16)  # a place is free a moment after the last line
            assert len(lines(client)) == 1

"""Charts of hours and days: drawn on the server from the workers' notes, with the same in numbers."""

import re

import pytest

from pywheel.clock import ManualClock
from pywheel.jobs.ends import FIVE, HOUR, Ends, ends_note
from pywheel.jobs.queries import ListNotes

NOW = 472_222 * HOUR + 31 * 60_000 + 7


@pytest.fixture
def clock():
    return ManualClock(wall=NOW)


@pytest.fixture
def queue(any_queue):
    return any_queue


def keep(queue, at, worker="w", **topics):
    """Keep what became of jobs at a time."""
    slots = {topic.replace("_", "."): {at - at % FIVE: Ends(*ends)} for topic, ends in topics.items()}
    queue.store.apply([ends_note(worker, at, slots)])


def by_topic(text):
    """Return done, failed, dead and latest of each topic."""
    table = text.partition('aria-label="By topic"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>(.*?)</tr>", table)
    cells = {name: re.findall(r'<td class="n">(.*?)</td>', cells) for name, cells in rows}
    return {re.sub("<.*?>", "", name): [re.sub("<.*?>", "", cell) for cell in row] for name, row in cells.items()}


def counts(text):
    """Return the numbers of each chart's bars that are not 0, by what they are of."""
    plots = re.findall(r'data-counts="([^"]*)" data-what="([^"]*)"', text)
    return {what: [int(one) for one in numbers.split(",") if one != "0"] for numbers, what in plots}


def test_a_day_and_two_are_shown_of_all_topics_and_of_one(queue, client):
    now = queue.store.clock.wall()
    keep(queue, now - 60_000, "a", shop_mail=(5, 2, 1, 40), bank_pay=(7,))
    keep(queue, now - 60_000, "b", shop_mail=(1, 0, 0, 90))
    keep(queue, now - 30 * HOUR, "a", shop_mail=(100,))
    text = client.get("/charts").text
    assert by_topic(text) == {
        "bank.pay": ["7", "0", "0", "0\u202fms"], "shop.mail": ["6", "2", "✕ 1", "90\u202fms"],
    }  # fmt: skip
    assert counts(text) == {"done": [13], "failed": [2], "dead": [1], "ms late": [90]}
    assert text.count('role="img" aria-label="') == 4
    assert '<td class="n">13</td>' in text.partition("in numbers</summary>")[2]
    text = client.get("/charts?span=two&topic=shop.mail").text
    assert counts(text) == {"done": [100, 6], "failed": [2], "dead": [1], "ms late": [90]}
    assert by_topic(text)["shop.mail"][0] == "106"
    assert client.get("/charts?span=year").status_code == 404


def test_there_is_a_page_before_there_is_a_job(client):
    text = client.get("/charts").text
    assert "No worker has ended a job" in text
    assert counts(text) == {"done": [], "failed": [], "dead": [], "ms late": []}


def test_an_hour_that_is_over_is_read_once(queue, client, monkeypatch):
    now = queue.store.clock.wall()
    keep(queue, now - 5 * HOUR, mail=(3,))
    client.get("/charts")
    asked, ask = [], queue.store.ask

    def counted(query):
        asked.extend([query.prefix] if isinstance(query, ListNotes) else [])
        return ask(query)

    monkeypatch.setattr(queue.store, "ask", counted)
    keep(queue, now - 60_000, mail=(2,))
    assert counts(client.get("/charts").text)["done"] == [3, 2]
    assert 1 <= len(asked) <= 6  # this hour, and the one before if that may change yet: each to its end


@pytest.mark.parametrize(
    ("role", "seen", "done", "status"),
    [("viewer", {"shop.mail", "bank.pay", "others"}, 13, 200), ("shop_admin", {"shop.mail"}, 5, 403)],
)
def test_a_token_for_some_topics_sees_the_charts_of_these_alone(queue, guarded, role, seen, done, status):
    keep(queue, queue.store.clock.wall() - 60_000, shop_mail=(5,), bank_pay=(7,), **{"": (1,)})
    with guarded.client(role) as client:
        text = client.get("/charts").text
        assert (set(by_topic(text)), counts(text)["done"]) == (seen, [done])
        assert client.get("/charts?topic=bank.pay").status_code == status


@pytest.mark.parametrize("any_url", ["memory"], indirect=True)
def test_hours_that_were_past_while_the_clock_was_ahead_are_read_again_when_they_have_come(queue, clock, client):
    """They were remembered as empty, until the server ended."""
    clock.step(24 * HOUR / 1000)
    client.get("/charts")
    clock.step(-24 * HOUR / 1000)
    clock.advance(5 * HOUR / 1000)
    keep(queue, queue.store.clock.wall() - 3 * HOUR, mail=(3,))
    assert counts(client.get("/charts").text)["done"] == [3]

"""Last answers and disabled targets, in the notes of a store."""

import asyncio
import logging
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywheel import BadOption, JobQueue
from pywheel.jobs.commands import SetNote
from pywheel.outlets import answers as module
from pywheel.outlets.answers import PREFIX, Answer, Answers, enable, known, shown
from pywheel.outlets.contract import delivery_id
from pywheel.outlets.webhook import retry_after
from pywheel.testing import FaultyStore
from tests.outlets.conftest import a_job, deliver, inside
from tests.outlets.loops import on_a_loop

HOOK = "https://a.example/hook?key=x"


@pytest.fixture
def answers(queue):
    found = Answers("webhook")
    found.keep_in(queue.store, "shop")
    return found


def notes(queue):
    return dict(known(queue.store))


@on_a_loop
async def test_the_last_answer_is_kept_when_it_is_closed_and_from_time_to_time(queue, answers, monkeypatch):
    answers.note(HOOK, "200")
    answers.note(HOOK, None, ValueError("no"))
    await answers.flush()
    [(name, answer)] = notes(queue).items()
    assert (name, answer) == ("outlet:shop", answers.last)
    assert (answer.target, answer.status, answer.error) == ("https://a.example/hook", None, "ValueError: no")
    monkeypatch.setattr(module, "_KEEP", 0.01)
    for status in ("200", "204"):
        answers.note(HOOK, status)
        while notes(queue)["outlet:shop"].status != status:
            await asyncio.sleep(0.001)


@on_a_loop
async def test_disabled_targets_are_known_to_others_with_the_same_name(queue, answers):
    other, stranger = Answers("webhook"), Answers("webhook")
    other.keep_in(queue.store, "shop")
    stranger.keep_in(queue.store, "shop2")
    await answers.disable(HOOK, "it answered 410")
    assert await other.disabled(HOOK) == "it answered 410"
    assert await other.disabled("https://a.example/hook") is None  # the query counts
    assert await stranger.disabled(HOOK) is None


@on_a_loop
async def test_more_disabled_targets_than_a_page_are_known_and_enabled(queue, answers, monkeypatch):
    monkeypatch.setattr(module, "_PAGE", 10)
    urls = [f"https://a.example/{number}" for number in range(25)]
    for url in urls:
        await answers.disable(url, "gone")
    assert {answer.target for answer in notes(queue).values()} == set(urls)
    assert [answer.target for answer in enable(queue.store, "shop", urls[3])] == [urls[3]]
    assert len(enable(queue.store, "shop")) == 24
    assert notes(queue) == {}


@on_a_loop
async def test_a_look_that_began_before_a_target_was_disabled_does_not_enable_it(queue, answers, monkeypatch):
    old, asks, ask = threading.Event(), [], queue.store.ask

    def slowly(query):
        asks.append(query)
        found = ask(query)
        if len(asks) == 2:  # the answer to the second look is an old one
            old.wait(60)
        return found

    monkeypatch.setattr(queue.store, "ask", slowly)
    assert await answers.disabled(HOOK) is None
    answers._look_at = time.monotonic()
    assert await answers.disabled(HOOK) is None
    while len(asks) < 2:
        await asyncio.sleep(0)
    await answers.disable(HOOK, "it answered 410")
    old.set()
    await answers._looking
    assert await answers.disabled(HOOK) == "it answered 410"


@pytest.mark.parametrize("first", ["look", "note"])
@on_a_loop
async def test_a_look_that_began_while_a_target_was_being_disabled_does_not_enable_it(
    queue, answers, monkeypatch, first
):
    ends = {"look": threading.Event(), "note": threading.Event()}
    asked, ask, apply = threading.Event(), queue.store.ask, queue.store.apply
    assert await answers.disabled(HOOK) is None

    def slowly(query):
        found = ask(query)
        asked.set()
        ends["look"].wait(60)
        return found

    def late(commands):
        ends["note"].wait(60)
        return apply(commands)

    monkeypatch.setattr(queue.store, "ask", slowly)
    monkeypatch.setattr(queue.store, "apply", late)
    tasks = {"note": asyncio.create_task(answers.disable(HOOK, "it answered 410"))}
    await asyncio.sleep(0)  # it is disabled here, and its note is under way
    answers._look_at = time.monotonic()
    assert await answers.disabled(HOOK) == "it answered 410"
    tasks["look"] = answers._looking
    await asyncio.to_thread(asked.wait, 60)
    for one in sorted(ends, key=lambda one: one != first):
        ends[one].set()
        await tasks[one]
        assert await answers.disabled(HOOK) == "it answered 410"


@pytest.mark.parametrize("value", [b"", b"\xff", b"[]", b"5", b"null", b'"x"'])
def test_a_note_of_somebody_else_is_left_out(queue, value):
    queue.store.apply([SetNote(f"{PREFIX}x", value), SetNote(f"{PREFIX}y", Answer("y", "k", "t").encoded())])
    assert list(notes(queue)) == [f"{PREFIX}y"]


def test_a_store_that_is_away_holds_up_no_delivery(endpoint, queue, caplog):
    store = FaultyStore(queue.store)
    store.away = True
    outlet = inside(endpoint.url())
    outlet.attach("t", store, 1)
    with caplog.at_level(logging.WARNING, "pywheel.jobs"):
        assert deliver(outlet, a_job(), a_job()) == [None, None]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def test_a_name_that_no_note_can_have_is_refused_and_any_topic_gives_one(endpoint):
    for name in ("", "a:b", "x" * 101):
        with pytest.raises(BadOption, match="name of an outlet"):
            inside(name=name)
    for topic in ("a:b", "x" * 16_000, "täglich"):
        with JobQueue("memory:") as queue:
            outlet = inside(endpoint.url())
            outlet.attach(topic, queue.store, 1)
            assert deliver(outlet) is None
            assert len(notes(queue)) == 1


@given(st.text(max_size=60), st.integers(0, 2**63 - 1), st.integers(0, 2**45))
def test_anything_can_be_shown_and_an_id_of_a_delivery_can_be_signed(text, id, created):
    assert "?" not in shown("https://" + text)
    assert "." not in delivery_id(a_job(id=id)._replace(created=created))


@given(
    st.text(max_size=60) | st.from_regex(r"[A-Z][a-z]{2}, \d{1,3} [A-Z][a-z]{2} \d{2,6} \d\d:\d\d:\d\d [A-Z+0-9]{1,6}")
)
def test_whatever_an_endpoint_says_for_retry_after_is_a_time_within_a_day_or_nothing(text):
    delay = retry_after(text, 1_700_000_000)
    assert delay is None or 0 <= delay <= 86_400


@on_a_loop
async def test_all_first_deliveries_know_which_targets_are_disabled(queue, answers):
    """Also after one of them was cancelled while it waited."""
    await answers.disable(HOOK, "it answered 410")
    answers.look_again()
    answers._disabled = {}
    cancelled = asyncio.create_task(answers.disabled(HOOK))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert await asyncio.gather(*(answers.disabled(HOOK) for _ in range(5))) == ["it answered 410"] * 5


def test_a_look_that_a_closed_loop_has_left_holds_up_no_other_look(queue, answers, monkeypatch):
    async def begin():
        beginning = asyncio.create_task(answers.disabled(HOOK))
        await asyncio.sleep(0)
        assert not beginning.done()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    left = asyncio.all_tasks(loop)
    loop.close()
    other = Answers("webhook")
    other.keep_in(queue.store, "shop")
    asyncio.run(other.disable(HOOK, "it answered 410"))
    assert asyncio.run(answers.disabled(HOOK)) == "it answered 410"
    assert left
    for task in left:
        task._log_destroy_pending = False

"""The limits of a topic as an operator sets them."""

from datetime import timedelta

import pytest

from pywheel import BadJob, BadOption, JobQueue, Limit, LimitOverride, Rate
from pywheel.jobs.queries import ListNotes
from pywheel.stores.memory import MemoryStore


def test_what_is_set_is_kept_as_it_was_said_until_the_code_is_to_say_it(queue):
    topics = queue.topics
    assert topics.limits("t") is None
    assert not topics.limit_as_code("t")
    assert topics.limit("t", limit=5, rate="100/m")
    assert not topics.limit("t", limit=5, rate="100/m")
    assert topics.limits("t") == LimitOverride(5, None, "100/m")
    assert topics.limit("t", limit=Limit(2, per=":"), rate=None)
    assert topics.limits("t") == LimitOverride(2, ":", None)
    assert topics.limit("t", limit=None, rate=None)
    assert topics.limits("t") == LimitOverride()
    assert topics.limits("u") is None
    assert topics.limit_as_code("t")
    assert topics.limits("t") is None


@pytest.mark.parametrize(
    ("limit", "rate", "text"),
    [
        (None, None, "no limit"),
        (5, None, "5 at once"),
        (Limit(1, per=":"), "20/10m", "1 at once of each group up to ':', 20/10m"),
        (None, Rate(10, "1s", burst=10), "10/1s burst 10"),
        (None, Rate(10, 0.5), "10/500ms"),
        (None, Rate(1, timedelta(days=1), 3), "1/86400000ms burst 3"),
        (None, "10/s burst 10", "10/s burst 10"),
    ],
)
def test_what_is_read_limits_as_what_was_set_and_says_so_in_words(queue, limit, rate, text):
    queue.handler("t", limit=limit, rate=rate)(print)
    queue.topics.limit("t", limit=limit, rate=rate)
    found = queue.topics.limits("t")
    assert found.limits == queue.handlers["t"].limits
    assert found.text == text


@pytest.mark.parametrize(
    ("limit", "rate", "why"),
    [
        *((number, None, "limit must be a whole number from 1") for number in (0, 1.5, "5", True)),
        (Limit(None, per=":"), None, "limit must be a whole number from 1"),
        (Limit(1, per=""), None, "per= of a Limit"),
        *((None, text, "rate must be text such as '100/m'") for text in ("soon", "100")),
        (None, "1/" + " " * 100_000, "a rate has 100002 characters, at most 100 are allowed"),
        (None, "0/s", "the number of a rate must be"),
        (None, "5/fortnight", "the period of a rate '1?fortnight'( is not understood)?"),
        (None, "5/s burst", "the period of a rate"),
        (None, "5/s burst 0", "the burst of a rate must be"),
        (None, Rate(5, "-1s"), "the period of a rate must not be negative"),
    ],
)
def test_what_is_no_limit_is_refused_and_nothing_is_set(queue, limit, rate, why):
    with pytest.raises(BadOption, match=why):
        queue.topics.limit("t", limit=limit, rate=rate)
    with pytest.raises(BadOption, match=why):
        queue.handler("t", limit=limit, rate=rate)
    with pytest.raises(BadJob, match="topic"):
        queue.topics.limit("", limit=1, rate=None)
    assert queue.store.ask(ListNotes("")) == []


def test_a_topic_that_is_longer_than_the_name_of_a_note_has_limits_of_its_own(queue):
    long = ["\N{SNOWMAN}" * 16_000 + end for end in "ab"]
    queue.topics.limit(long[0], limit=1, rate=None)
    assert [queue.topics.limits(topic) for topic in long] == [LimitOverride(1), None]


def test_several_stores_refuse_a_limit_as_it_is_set():
    class Several(MemoryStore):
        keeps_limits = False

    with JobQueue(Several()) as queue, pytest.raises(BadOption, match="limits want one store"):
        queue.topics.limit("t", limit=1, rate=None)

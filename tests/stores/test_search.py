"""Searches without an index: body, header, worker and priority, on every kind of store, at bounded cost."""

import pytest

from pywheel import BadJob, JobQueue, Keyring
from pywheel.jobs import State
from pywheel.jobs.commands import ClaimPolicy, Reserve
from pywheel.jobs.queries import PAGE_MOST, Filter, GetPage, ListJobs, ListTopics
from pywheel.stores.pages import search
from tests.jobs.fixtures import clock, live_queue, metrics, queue
from tests.worker.each_store import url

__all__ = ["clock", "live_queue", "metrics", "queue", "url"]

WANTED = [
    ({"text": "need"}, {"first", "third"}),
    ({"text": "\u00e9"}, {"second"}),
    ({"text": "nobody"}, set()),
    ({"header": "tenant"}, {"first", "second"}),
    ({"header": "tenant=a"}, {"first"}),
    ({"header": "tenant="}, set()),
    ({"header": "=a"}, set()),
    ({"priority": 5}, {"second", "third"}),
    ({"priority": 0}, {"first", "claimed"}),
    ({"worker": "app1:"}, {"claimed"}),
    ({"worker": "app2:"}, set()),
    ({"text": "need", "priority": 5}, {"third"}),
    ({"header": "tenant", "error": "x"}, set()),
]


@pytest.fixture
def shop(live_queue):
    """A queue, and its jobs by name."""
    put = live_queue.put
    ids = {
        "claimed": put("mail", {"a": 1}),
        "first": put("mail", {"a": "needle"}, delay=60, headers={"tenant": "a"}),
        "second": put("mail", {"a": "\u00e9"}, delay=60, headers={"tenant": "b=c"}, priority=5),
        "third": put("report", b"\xff need \x00", delay=60, priority=5),
    }
    [[claimed]] = live_queue.store.apply([Reserve("mail", 1, ClaimPolicy(60_000, 5), "app1:77")])
    assert claimed.id == ids["claimed"]
    return live_queue, ids


def test_each_word_finds_the_jobs_that_it_means_and_no_other(shop):
    queue, ids = shop
    for words, names in WANTED:
        found = search(queue.store, Filter(**words), "", 10)
        assert {job.id for job in found.jobs} == {ids[name] for name in names}, words
        assert (found.next, found.looked) == (None, 4 if "error" not in words else 0)
        assert {job.id for job in queue.jobs.list(**words)} == {ids[name] for name in names}, words
    [third] = search(queue.store, Filter(text="need", priority=5), "", 10).jobs
    assert third.body == b"\xff need \x00"


def test_a_change_of_many_goes_by_each_word(shop):
    queue, ids = shop
    assert queue.jobs.cancel_many(text="need", dry_run=True) == 2
    assert queue.jobs.cancel_many(header="tenant=a") == 1
    assert queue.jobs.delete_many(priority=5) == 2
    left = {job.id: job.state for job in queue.jobs.list()}
    assert left == {ids["claimed"]: State.RUNNING, ids["first"]: State.CANCELLED}


@pytest.mark.parametrize("newest", [False, True])
def test_parts_of_a_search_have_each_job_once_and_say_how_many_were_looked_at(live_queue, newest):
    ids = live_queue.put_many(
        [live_queue.job("t", b"odd" if number % 2 else b"even", delay=60 + number) for number in range(60)]
    )
    found, after = [], ""
    while after is not None:
        page = search(live_queue.store, Filter("t", text="odd"), after, 7, preview=2, newest=newest)
        assert 0 < page.looked <= 60
        assert len(page.jobs) <= 7
        assert {(job.body, size) for job, size in zip(page.jobs, page.sizes, strict=True)} <= {(b"od", 3)}
        found += [job.id for job in page.jobs]
        after = page.next
    assert found == sorted(ids[1::2], reverse=newest)
    assert [job.id for job in live_queue.jobs.list("t", text="odd", limit=9)] == sorted(ids[1::2])[:9]


def test_a_search_looks_at_a_bounded_number_of_jobs_and_says_where_to_go_on(queue):
    queue.put_many([queue.job("t", b"no", delay=60) for _ in range(PAGE_MOST + 500)])
    queue.put("t", b"yes", delay=60)
    first = search(queue.store, Filter(text="yes"), "", 10)
    assert (first.jobs, first.looked) == ([], PAGE_MOST)
    second = search(queue.store, Filter(text="yes"), first.next, 10)
    assert ([job.body for job in second.jobs], second.looked, second.next) == ([b"yes"], 501, None)
    assert len(queue.jobs.list(text="yes")) == 1  # a list goes on by itself


def test_a_body_is_looked_into_with_its_key_alone(tmp_path):
    url = f"sqlite:///{tmp_path}/jobs.db"
    with JobQueue(url, encryption=Keyring({"a": bytes(range(32))})) as queue:
        queue.put("t", {"a": "needle"}, delay=60)
        assert len(queue.jobs.list(text="needle")) == 1
    with JobQueue(url) as queue:
        for text in ("needle", "pywheel", "a"):  # the last two stand in what is stored: its mark, and its key's name
            assert queue.jobs.list(text=text) == []


def test_a_store_that_is_asked_for_it_itself_says_what_to_ask_for():
    for query in (GetPage, ListJobs):
        with pytest.raises(BadJob, match="plain"):
            query(Filter(text="x"))


@pytest.mark.parametrize(
    "words",
    [
        {"text": b"x"}, {"header": 1}, {"worker": 2}, {"priority": "5"}, {"priority": 10},
        {"text": ""}, {"header": ""}, {"worker": ""}, {"text": "\udcff"},
    ],
)  # fmt: skip
def test_a_word_that_makes_no_sense_is_refused(words):
    with JobQueue("memory:") as queue, pytest.raises(BadJob):
        queue.jobs.list(**words)


def test_topics_are_listed_by_their_names(live_queue):
    live_queue.put_many([live_queue.job(topic, delay=60) for topic in ("b", "ab", "\u00e9", "a", "B")])
    names = [topic.name for topic in live_queue.store.ask(ListTopics())]
    assert names == sorted(names)

"""The gauges of a store, as Prometheus reads them."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from pywheel import JobQueue, StoreAway
from pywheel.jobs.queries import CountJobs
from pywheel.observe.prometheus import PrometheusMetrics
from pywheel.observe.tally import Labels
from pywheel.server.live import Reader
from pywheel.server.metrics import exposition
from pywheel.testing import ManualClock
from tests.asked import when_asked
from tests.jobs.waiting import until, working


@pytest.fixture
def clock():
    return ManualClock(wall=1_700_000_000_000)


@pytest.fixture
def queue(any_queue):
    return any_queue


def samples(queue, accept="", labels=None):
    content_type, text = exposition(queue, Reader(lambda: queue.store).look(set()), labels or Labels(), accept)
    parse = openmetrics if content_type.startswith("application/openmetrics-text") else plain
    families = list(parse(text.decode()))
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value for family in families for sample in family.samples
    }


def test_a_store_is_told_by_topic_and_state(queue):
    queue.put_many([queue.job("a", delay=60), queue.job("a", delay=60), queue.job("b")])
    [job] = queue.reserve("b")
    queue.bury(job)
    queue.topics.pause("a")
    found = samples(queue)
    counts = [found["pywheel_jobs", topic, state] for topic in "ab" for state in ("delayed", "running", "dead")]
    assert counts == [2, 0, 0, 0, 0, 1]
    assert (found["pywheel_topic_paused", "a"], found["pywheel_topic_paused", "b"]) == (1, 0)
    assert (found["pywheel_workers",], found["pywheel_store_up",]) == (0, 1)
    assert found["pywheel_store_info", *sorted((queue.store.url, queue.store.durability))] == 1
    assert queue.store.url.partition(":")[0] != "sqlite" or found["pywheel_store_bytes", "file"] > 0


@pytest.mark.parametrize("any_url", ["memory", "sqlite"], indirect=True)
def test_what_is_due_says_for_how_long_and_that_nobody_handles_it(queue, clock):
    queue.put("late", delay=1)
    queue.put("later", delay=60)
    queue.put("paused", delay=1)
    queue.topics.pause("paused")
    clock.advance(31)
    found = samples(queue)
    assert found["pywheel_oldest_due_seconds", "late"] == 30
    assert found["pywheel_oldest_due_seconds", "later"] == 0
    assert [found["pywheel_topic_without_worker", topic] for topic in ("late", "later", "paused")] == [1, 0, 0]


def test_a_worker_is_counted_for_its_topics(queue):
    queue.handler("a")(lambda job: None)
    queue.put("b")
    with working(queue):
        until(lambda: samples(queue)["pywheel_workers",] == 1)
        queue.put("a", delay=600)
        found = samples(queue)
        assert (found["pywheel_topic_workers", "a"], found["pywheel_topic_workers", "b"]) == (1, 0)


@pytest.fixture
def one():
    with JobQueue("memory:", listeners=[PrometheusMetrics()]) as queue:
        yield queue


def test_what_the_queue_itself_counted_is_there_too_and_openmetrics_says_the_same(one):
    one.put("a")
    found = samples(one)
    assert (found["pywheel_jobs_put_total", "a"], found["pywheel_jobs", "a", "delayed"]) == (1, 1)
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
    assert samples(one, accept).keys() == found.keys()


def test_topics_beyond_the_bound_are_summed_up(one):
    one.put_many([one.job(f"t{n}") for n in range(5)])
    found = samples(one, labels=Labels(2))
    assert {key[1] for key in found if key[0] == "pywheel_topic_paused"} == {"t0", "t1", "_others"}
    assert found["pywheel_jobs", "_others", "delayed"] == 3


def test_a_store_that_is_away_is_told_and_no_error(monkeypatch):
    def away(query):
        raise StoreAway("the server does not answer")

    with JobQueue("memory:") as queue:
        queue.put("a")
        when_asked(monkeypatch, queue.store, CountJobs, away)
        assert samples(queue) == {("pywheel_store_up",): 0}

"""The events of a process, as Prometheus reads them."""

import re
import sys
import threading

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from pywheel import ExtraMissing
from pywheel import events as e
from pywheel.jobs import Job, Outcome, State
from pywheel.observe.prometheus import BUCKETS, PrometheusMetrics
from pywheel.observe.tally import Histogram

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
ENDS = [(Outcome.DONE, State.DONE), (Outcome.FAILED, State.DELAYED), (Outcome.FAILED, State.DEAD)]


@pytest.fixture
def metrics():
    return PrometheusMetrics()


def job(topic="t"):
    return Job(id=7, topic=topic, body=b"", due=0, created=0, state=State.RUNNING, key="a key")


def samples(metrics, accept=""):
    """What is exposed, by name and labels."""
    content_type, text = metrics.exposition(accept)
    parse = openmetrics if content_type.startswith("application/openmetrics-text") else plain
    found = {}
    for family in parse(text.decode()):
        for sample in family.samples:
            found[sample.name, *sorted(sample.labels.values())] = sample.value
    return found


def test_every_event_that_counts_has_a_metric(metrics):
    events = [
        e.JobsPut("t", 3), e.JobsClaimed("t", 2), e.JobStarted(job(), 0.0007), e.JobGivenBack(job()),
        *(e.JobEnded(job(), outcome, state, 0.1, None) for outcome, state in ENDS), e.LeaseLost(job()),
        e.JobRefused(-1, "t", None, "no"), e.PoolStuck("t", 4), e.JobsSpooled("t", 5), e.JobsForwarded("t", 4),
        e.BacklogSeen("t", 9), e.StoreFailed(OSError(), 1, 0), e.ClockStepped(-3.0),
        e.WorkerStarted("w", "memory:"), e.WorkerDrains("w", 30.0),
    ]  # fmt: skip
    for event in events:
        metrics(event)
    found = {name: value for (name, *_), value in samples(metrics).items() if not name.endswith(("_bucket", "_sum"))}
    assert {name.removeprefix("pywheel_"): value for name, value in found.items()} == {
        "jobs_put_total": 3, "jobs_claimed_total": 2, "jobs_done_total": 1, "jobs_retried_total": 1,
        "jobs_dead_total": 1, "jobs_given_back_total": 1, "leases_lost_total": 1, "jobs_stuck_total": 4,
        "jobs_spooled_total": 5, "jobs_forwarded_total": 4, "jobs_refused_total": 1, "backlog_seconds": 9,
        "store_errors_total": 1, "clock_steps_total": 1, "job_lateness_seconds_count": 1,
        "job_run_seconds_count": 3, "store_up": 0, "workers_here": 1, "workers_draining": 1,
    }  # fmt: skip
    for event in (e.StoreBack(1), e.WorkerStopped("w")):
        metrics(event)
    found = samples(metrics)
    assert (found["pywheel_store_up",], found["pywheel_workers_here",], found["pywheel_workers_draining",]) == (1, 0, 0)


def test_a_scraper_that_asks_for_openmetrics_gets_it_and_the_others_text(metrics):
    metrics(e.JobsPut("t", 3))
    kinds = ("application/openmetrics-text", "text/plain")
    others = [f"{kind}; version={version}" for kind in kinds for version in ("abc", "1.x", "1..0", ".")]
    for accept in ("", "text/html, */*", *others):
        content_type, text = metrics.exposition(accept)
        assert content_type.startswith("text/plain")
        assert b"# TYPE pywheel_" in text
    content_type, text = metrics.exposition(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith(b"# EOF\n")
    assert samples(metrics, OPENMETRICS) == samples(metrics)


def test_what_a_worker_has_not_seen_yet_is_told_as_nothing(metrics):
    """A counter that begins with 1 is not an increase: an alert would miss the first dead job."""
    metrics(e.JobsClaimed("t", 2))
    found = samples(metrics)
    for name in ("jobs_done", "jobs_retried", "jobs_dead", "jobs_stuck", "leases_lost"):
        assert found[f"pywheel_{name}_total", "t"] == 0


@pytest.mark.parametrize("event", [e.JobsPut("t", 2), e.JobsSpooled("t", 2)])
def test_what_a_producer_has_not_seen_yet_is_told_as_nothing(metrics, event):
    metrics(event)
    found = samples(metrics)
    assert found["pywheel_jobs_refused_total", "t"] == found["pywheel_jobs_forwarded_total", "t"] == 0


def test_buckets_begin_at_a_millisecond_and_contain_their_edge(metrics):
    assert BUCKETS[0] == 0.001
    for late in (0.001, 0.0011, 9999.0):
        metrics(e.JobStarted(job(), late))
    found = samples(metrics)
    counts = [found["pywheel_job_lateness_seconds_bucket", edge, "t"] for edge in ("0.001", "0.0025", "1800.0", "+Inf")]
    assert counts == [1, 2, 2, 3]


def test_an_id_or_a_key_is_never_a_label(metrics):
    for event in (e.JobsPut("t", 1), e.LeaseLost(job()), e.JobStarted(job(), 1), e.JobRefused(-7, "t", "a key", "no")):
        metrics(event)
    text = metrics.exposition()[1].decode()
    assert "a key" not in text
    assert set(re.findall(r'(\w+)="', text)) == {"topic", "le"}


def test_topics_beyond_the_bound_share_a_label_and_counters_never_go_down():
    metrics, before = PrometheusMetrics(topics=3), {}
    for n in range(10):
        for event in (e.JobsPut(f"t{n}", 1), e.JobStarted(job(f"t{n}"), 0.1), e.JobsPut("x" * 300, 1)):
            metrics(event)
        found = samples(metrics)
        assert all(found.get(key, 0) >= value for key, value in before.items() if "backlog" not in key[0])
        before = found
    assert {key[1] for key in before if key[0] == "pywheel_jobs_put_total"} == {"t0", "t1", "t2", "_others"}
    assert before["pywheel_jobs_put_total", "_others"] == 17
    assert before["pywheel_job_lateness_seconds_count", "_others"] == 7


def test_topics_beyond_the_bound_take_no_memory_and_no_turn_of_the_lock(monkeypatch):
    """Puts and workers wait for the lock: a scrape holds it for one histogram at a time."""
    metrics, turns, cumulated = PrometheusMetrics(topics=3), [], Histogram.cumulated

    class Lock:
        def __init__(self):
            self._lock, self.taken = threading.RLock(), 0

        def __enter__(self):
            self._lock.acquire()
            self.taken += 1

        def __exit__(self, *_):
            self._lock.release()

    def noted(histogram):
        turns.append(metrics._lock.taken)
        return cumulated(histogram)

    for n in range(500):
        for event in (e.JobsPut(f"t{n}", 1), e.JobStarted(job(f"t{n}"), 0.1), e.StoreFailed(OSError(), 1, 0)):
            metrics(event)
    assert (len(metrics.counters), len(metrics._histograms)) == (3 + 1 + 1, 3 + 1 + 1)
    monkeypatch.setattr(metrics, "_lock", Lock())
    monkeypatch.setattr(Histogram, "cumulated", noted)
    found = samples(metrics)
    assert len(turns) == len(set(turns)) <= 5
    assert found["pywheel_jobs_put_total", "_others"] == found["pywheel_job_lateness_seconds_count", "_others"] == 497
    assert found["pywheel_store_errors_total",] == 500


def test_a_label_of_several_topics_tells_the_longest_backlog():
    metrics = PrometheusMetrics(topics=1)
    for event in (e.JobsPut("t0", 1), e.BacklogSeen("t1", 9), e.BacklogSeen("t2", 0)):
        metrics(event)
    assert samples(metrics)["pywheel_backlog_seconds", "_others"] == 9


@pytest.mark.parametrize("topic", ['a"b\\c\nd', "ü 💥", "{x}", "\x00"])
def test_a_topic_of_any_name_can_be_scraped(metrics, topic):
    metrics(e.JobsPut(topic, 2))
    for accept in ("", OPENMETRICS):
        assert samples(metrics, accept)["pywheel_jobs_put_total", topic] == 2


def test_a_registry_of_the_callers_own_has_them_and_takes_no_second():
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    metrics(e.JobsPut("t", 3))
    assert registry.get_sample_value("pywheel_jobs_put_total", {"topic": "t"}) == 3
    with pytest.raises(ValueError, match="Duplicated"):
        PrometheusMetrics(registry)


def test_what_is_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'pywheel-timer\[telemetry\]'"):
        PrometheusMetrics()
    assert issubclass(ExtraMissing, ImportError)

"""The events of a process, as Prometheus reads them."""

import re
import sys

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain

from pywheel import ExtraMissing
from pywheel.events import (
    BacklogSeen,
    ClockStepped,
    JobEnded,
    JobGivenBack,
    JobRefused,
    JobsClaimed,
    JobsForwarded,
    JobsPut,
    JobsSpooled,
    JobStarted,
    LeaseLost,
    PoolStuck,
    StoreBack,
    StoreFailed,
    WorkerDrains,
    WorkerStarted,
    WorkerStopped,
)
from pywheel.jobs import Job, Outcome, State
from pywheel.observe import prometheus
from pywheel.observe.prometheus import BUCKETS, PrometheusMetrics

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


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
    for event in (
        JobsPut("t", 3),
        JobsClaimed("t", 2),
        JobStarted(job(), 0.0007),
        JobEnded(job(), Outcome.DONE, State.DONE, 0.1, None),
        JobEnded(job(), Outcome.FAILED, State.DELAYED, 0.1, "no"),
        JobEnded(job(), Outcome.FAILED, State.DEAD, 0.1, "no"),
        JobGivenBack(job()),
        LeaseLost(job()),
        PoolStuck("t", 4),
        JobsSpooled("t", 5),
        JobsForwarded("t", 4),
        JobRefused(-1, "t", None, "no"),
        BacklogSeen("t", 9),
        StoreFailed(OSError(), 1, 0),
        ClockStepped(-3.0),
        WorkerStarted("w", "memory:"),
        WorkerDrains("w", 30.0),
    ):
        metrics(event)
    found = {name: value for (name, *_), value in samples(metrics).items() if not name.endswith(("_bucket", "_sum"))}
    assert found == {
        "pywheel_jobs_put_total": 3,
        "pywheel_jobs_claimed_total": 2,
        "pywheel_jobs_done_total": 1,
        "pywheel_jobs_retried_total": 1,
        "pywheel_jobs_dead_total": 1,
        "pywheel_jobs_given_back_total": 1,
        "pywheel_leases_lost_total": 1,
        "pywheel_jobs_stuck_total": 4,
        "pywheel_jobs_spooled_total": 5,
        "pywheel_jobs_forwarded_total": 4,
        "pywheel_jobs_refused_total": 1,
        "pywheel_backlog_seconds": 9,
        "pywheel_store_errors_total": 1,
        "pywheel_clock_steps_total": 1,
        "pywheel_job_lateness_seconds_count": 1,
        "pywheel_job_run_seconds_count": 3,
        "pywheel_store_up": 0,
        "pywheel_workers_here": 1,
        "pywheel_workers_draining": 1,
    }
    for event in (StoreBack(1), WorkerStopped("w")):
        metrics(event)
    found = samples(metrics)
    assert (found["pywheel_store_up",], found["pywheel_workers_here",], found["pywheel_workers_draining",]) == (1, 0, 0)


@pytest.mark.parametrize("kind", ["application/openmetrics-text", "text/plain"])
@pytest.mark.parametrize("version", ["abc", "1.x", "1..0", "."])
def test_a_version_that_is_none_gets_text(metrics, kind, version):
    content_type, text = metrics.exposition(f"{kind}; version={version}")
    assert content_type.startswith("text/plain")
    assert b"# TYPE pywheel_" in text


def test_a_scraper_that_asks_for_openmetrics_gets_it_and_the_others_text(metrics):
    metrics(JobsPut("t", 3))
    assert metrics.exposition()[0].startswith("text/plain; version=0.0.4")
    assert metrics.exposition("text/html, */*")[0].startswith("text/plain")
    content_type, text = metrics.exposition(OPENMETRICS)
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith(b"# EOF\n")
    assert samples(metrics, OPENMETRICS) == samples(metrics)


def test_what_a_worker_has_not_seen_yet_is_told_as_nothing(metrics):
    """A counter that begins with 1 is no increase: an alert would miss the first dead job."""
    metrics(JobsClaimed("t", 2))
    found = samples(metrics)
    for name in ("jobs_done", "jobs_retried", "jobs_dead", "leases_lost"):
        assert found[f"pywheel_{name}_total", "t"] == 0


def test_buckets_begin_at_a_millisecond_and_contain_their_edge(metrics):
    assert BUCKETS[0] == 0.001
    for late in (0.001, 0.0011, 9999.0):
        metrics(JobStarted(job(), late))
    found = samples(metrics)
    counts = [found["pywheel_job_lateness_seconds_bucket", edge, "t"] for edge in ("0.001", "0.0025", "1800.0", "+Inf")]
    assert counts == [1, 2, 2, 3]


def test_an_id_or_a_key_is_never_a_label(metrics):
    for event in (JobsPut("t", 1), JobStarted(job(), 0.1), LeaseLost(job()), JobRefused(-7, "t", "a key", "no")):
        metrics(event)
    text = metrics.exposition()[1].decode()
    assert "a key" not in text
    assert set(re.findall(r'(\w+)="', text)) == {"topic", "le"}


def test_topics_beyond_the_bound_share_a_label_and_counters_never_go_down():
    metrics = PrometheusMetrics(topics=3)
    before = {}
    for n in range(50):
        for event in (JobsPut(f"t{n}", 1), JobStarted(job(f"t{n}"), 0.1), JobsPut("x" * 300, 1)):
            metrics(event)
        found = samples(metrics)
        assert all(found.get(key, 0) >= value for key, value in before.items() if "backlog" not in key[0])
        before = found
    assert {key[1] for key in before if key[0] == "pywheel_jobs_put_total"} == {"t0", "t1", "t2", "_others"}
    assert before["pywheel_jobs_put_total", "_others"] == 97
    assert before["pywheel_job_lateness_seconds_count", "_others"] == 47


@pytest.mark.parametrize("topic", ['a"b\\c\nd', "ü 💥", "{x}", "\x00"])
def test_a_topic_of_any_name_can_be_scraped(metrics, topic):
    metrics(JobsPut(topic, 2))
    for accept in ("", OPENMETRICS):
        assert samples(metrics, accept)["pywheel_jobs_put_total", topic] == 2


def test_a_registry_of_the_callers_own_has_them_and_takes_no_second():
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    metrics(JobsPut("t", 3))
    assert registry.get_sample_value("pywheel_jobs_put_total", {"topic": "t"}) == 3
    with pytest.raises(ValueError, match="Duplicated"):
        PrometheusMetrics(registry)


def test_what_is_missing_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(ExtraMissing, match=r"pip install 'pywheel-timer\[telemetry\]'"):
        PrometheusMetrics()
    assert issubclass(ExtraMissing, ImportError)


def test_a_name_is_of_one_metric_alone():
    names = [name for table in (prometheus.COUNTERS, prometheus.HISTOGRAMS) for name, _ in table.values()]
    assert len(names) == len(set(names))

"""A listener that counts, in bounded memory."""

import math
import sys
import threading
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pywheel import Tally
from pywheel import events as e
from pywheel.jobs import Job, Outcome, State
from pywheel.observe import Histogram
from tests.timers.crowd import Crowd


def job(topic):
    return Job(id=1, topic=topic, body=b"", due=0, created=0, state=State.RUNNING)


def test_events_become_counters_by_topic():
    tally = Tally()
    ends = [(Outcome.DONE, State.DONE), (Outcome.FAILED, State.DELAYED), (Outcome.FAILED, State.DEAD)]
    events = [
        e.JobsPut("a", 3), e.JobsPut("b", 1), e.JobsClaimed("a", 2), e.JobGivenBack(job("a")), e.LeaseLost(job("b")),
        *(e.JobEnded(job("a"), outcome, state, 0.1, None) for outcome, state in ends), e.JobDied(job("b")),
        e.StoreFailed(OSError(), 1, 0), e.StoreBack(1),
    ]  # fmt: skip
    for event in events:
        tally(event)
    assert dict(tally.counters) == {
        ("put", "a"): 3, ("put", "b"): 1, ("claimed", "a"): 2, ("done", "a"): 1, ("retried", "a"): 1, ("dead", "a"): 1,
        ("dead", "b"): 1, ("released", "a"): 1, ("lease_lost", "b"): 1, ("store_error", ""): 1,
    }  # fmt: skip
    assert (tally.total("put"), tally.total("put", "b"), tally.total("put", "c")) == (4, 1, 0)
    assert tally.count("run_time") == tally.count("run_time", "a") == 3


def test_a_gauge_keeps_the_latest_value_and_sums_topics():
    tally = Tally()
    for topic, count in (("a", 7), ("a", 5), ("b", 2)):
        tally(e.BacklogSeen(topic, count))
    assert (tally.gauge("backlog", "a"), tally.gauge("backlog"), tally.gauge("backlog", "c")) == (5, 7, 0)
    assert tally.percentile("backlog", 0.5) is None


def test_percentiles_are_of_a_topic_or_of_all():
    tally = Tally()
    for n in range(100):
        tally(e.JobStarted(job("a"), n / 1000))
        tally(e.JobStarted(job("b"), 100 + n))
    assert 0.05 <= tally.percentile("lateness", 0.51, "a") <= 0.06
    assert tally.percentile("lateness", 1, "a") == 0.099
    assert 0.098 <= tally.percentile("lateness", 0.5) <= 0.1091
    assert tally.percentile("lateness", 1) == 199
    assert tally.percentile("lateness", 0.5, "c") is None


def test_a_histogram_with_edges_of_its_own_says_how_many_values_do_not_exceed_each():
    histogram = Histogram(edges=[0.001, 0.01, 1.0])
    for value in (0.0, 0.001, 0.002, 0.5, 7.0):
        histogram.add((value,))
    counts, total = histogram.cumulated()
    assert counts == [2, 3, 4, 5]
    assert total == pytest.approx(7.503)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0, 1))
def test_a_percentile_is_never_too_small_and_at_most_a_bucket_too_large(values, part):
    histogram = Histogram()
    for value in values:
        histogram.add((value,))
    exact = sorted(values)[max(math.ceil(part * len(values)), 1) - 1]
    assert exact * (1 - 1e-9) <= histogram.percentile(part) <= max(exact * 2 ** (1 / 8) * (1 + 1e-9), 1e-6)


@pytest.mark.parametrize("value", [-5.0, 0.0, 1e-300, 1e300])
def test_values_beyond_the_buckets_are_counted(value):
    histogram = Histogram()
    histogram.add((value,))
    assert (histogram.count, histogram.percentile(0.5)) == (1, value)


def test_many_jobs_take_no_more_memory_than_a_thousand():
    """And reading a percentile costs by the buckets: whoever watches does it several times a second."""

    def size(count):
        tally, started = Tally(), job("t")
        for n in range(count):
            tally(e.JobStarted(started, n % 500_000 / 1000))
        histogram = tally._histograms["lateness", "t"]
        return sys.getsizeof(histogram._buckets), len(histogram._buckets)

    assert size(1_000) == size(20_000)
    assert size(1)[1] < 500


def test_threads_lose_no_event():
    tally, started = Tally(), job("t")

    def tell():
        for _ in range(5_000):
            tally(e.JobStarted(started, 0.001))

    Crowd().run(*[tell] * 4)
    assert tally.count("lateness") == 20_000


def test_a_signal_handler_may_put_while_a_put_of_its_thread_is_counted():
    tally = Tally()

    class Interrupted(Counter):
        def __setitem__(self, name, count):
            if not self:
                super().__setitem__(name, count)
                tally(e.JobsPut("other", 2))
            super().__setitem__(name, count)

    tally.counters = Interrupted()
    program = threading.Thread(target=tally, args=(e.JobsPut("t", 1),), daemon=True)
    program.start()
    program.join(60)
    assert not program.is_alive()
    assert dict(tally.counters) == {("put", "t"): 1, ("put", "other"): 2}


def test_a_backlog_ends_with_its_worker():
    tally = Tally()
    for event in (e.BacklogSeen("a", 5.0), e.BacklogSeen("b", 2.0), e.WorkerStopped("w")):
        tally(event)
    assert tally.gauge("backlog") == 0

"""Prometheus: the events of a process, as counters and histograms. Needs the extra ``telemetry``.

    queue = JobQueue(url, listeners=[metrics := PrometheusMetrics()])

The gauges of a store's contents are in `pywheel.server.metrics`: one exporter reads them, not each worker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..events import Event, StoreBack, StoreFailed, WorkerDrains, WorkerStarted, WorkerStopped
from ..jobs.checks import needed
from .tally import TOPICS, Histogram, Labels, Tally

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

V = TypeVar("V")
BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)
"""The largest values of the histograms' buckets, in seconds."""

# By the name in Tally: the metric and its help text.
COUNTERS: Final = {
    "put": ("pywheel_jobs_put", "Jobs put, durably."),
    "claimed": ("pywheel_jobs_claimed", "Jobs claimed by workers."),
    "done": ("pywheel_jobs_done", "Attempts that ended well."),
    "retried": ("pywheel_jobs_retried", "Attempts that failed, of jobs that are tried again."),
    "dead": ("pywheel_jobs_dead", "Jobs that have no attempt left."),
    "released": ("pywheel_jobs_given_back", "Claims given back, unspent."),
    "stuck": ("pywheel_jobs_stuck", "Jobs given back as the handlers of their topic made no progress."),
    "lease_lost": ("pywheel_leases_lost", "Claims that were over before they were settled: delivered again."),
    "spooled": ("pywheel_jobs_spooled", "Jobs put into the spool, as the store was away."),
    "forwarded": ("pywheel_jobs_forwarded", "Jobs forwarded from the spool to the store."),
    "refused": ("pywheel_jobs_refused", "Jobs of the spool that the store refused."),
}
_OF_SPOOL: Final = ("forwarded", "refused")
_FROM_ZERO: Final = {
    "claimed": ("done", "retried", "dead", "lease_lost", "stuck"),
    "put": _OF_SPOOL,
    "spooled": _OF_SPOOL,
}
"""The counters that start at 0 with another one of their topic, or the first one would be no increase."""
_ALONE: Final = {
    "store_error": ("pywheel_store_errors", "Times that the store could not do what it was asked."),
    "clock_step": ("pywheel_clock_steps", "Steps of the store's wall clock."),
}
HISTOGRAMS: Final = {
    "lateness": ("pywheel_job_lateness_seconds", "From the due time to the start of the handler."),
    "run_time": ("pywheel_job_run_seconds", "How long handlers ran."),
}


class PrometheusMetrics(Tally):
    """A listener that is a collector: ``pywheel_jobs_put_total``, ``pywheel_job_lateness_seconds`` and others.

    A job costs three additions, however often the metrics are scraped. The only label is the topic: never an id or a
    key. Counters and histograms are kept by label, so memory and scrapes do not grow with the topics beyond the bound:
    `total` and the like take labels here.

    Args:
        registry: the registry to register with; by default a new one.
        topics: how many topics are labels; later topics share the label ``_others``.
        buckets: the largest values of the histograms' buckets, in seconds.

    Raises:
        ExtraMissing: prometheus-client is not installed.
        ValueError: the registry already has such a collector.
    """

    def __init__(
        self, registry: CollectorRegistry | None = None, *, topics: int = TOPICS, buckets: Sequence[float] = BUCKETS
    ) -> None:
        super().__init__(edges=sorted(float(edge) for edge in buckets))
        self._label = self._labels = Labels(topics)
        self._core = needed("prometheus_client.core", "telemetry")
        self._client = needed("prometheus_client", "telemetry")
        self._store_up = 1
        self._working = 0
        self._draining = 0
        self.registry: CollectorRegistry = self._client.CollectorRegistry() if registry is None else registry
        self.registry.register(self)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        super().__call__(event)
        match event:
            case StoreFailed():
                self._store_up = 0
            case StoreBack():
                self._store_up = 1
            case WorkerStarted():
                self._working += 1
            case WorkerDrains():
                self._draining += 1
            case WorkerStopped():
                self._working, self._draining = max(self._working - 1, 0), max(self._draining - 1, 0)

    @property
    def draining(self) -> bool:
        """Whether all workers of this process claim nothing more."""
        return 0 < self._working <= self._draining

    def collect(self) -> Iterable[Metric]:
        """Return all metrics as they are now. O(labels + topics with a backlog so far)."""
        counter, histogram = self._core.CounterMetricFamily, self._core.HistogramMetricFamily
        gauge = self._core.GaugeMetricFamily
        with self._lock:
            counters, backlogs, kept = self.counters.copy(), self._gauges.copy(), self._histograms.copy()
        counts, gauges = _by_word(counters.items()), _by_word(backlogs.items())
        histograms = _by_word((key, self._cumulated(histogram)) for key, histogram in kept.items())
        for first, words in _FROM_ZERO.items():
            for word in words:
                counts[word] = dict.fromkeys(counts[first], 0) | counts[word]
        families: list[Any] = []
        for word, (name, text) in COUNTERS.items():
            families.append(counter(name, text, labels=["topic"]))
            for label, count in counts[word].items():
                families[-1].add_metric([label], count)
        edges = [*map(self._client.utils.floatToGoString, self._edges), "+Inf"]
        for word, (name, text) in HISTOGRAMS.items():
            families.append(histogram(name, text, labels=["topic"]))
            for label, (filled, total) in histograms[word].items():
                families[-1].add_metric([label], list(zip(edges, filled, strict=True)), total)
        text = "For how long workers here have not claimed all jobs that are due."
        families.append(gauge("pywheel_backlog_seconds", text, labels=["topic"]))
        for label, seconds in self._labels.merged(gauges["backlog"].items(), max).items():
            families[-1].add_metric([label], seconds)
        return [
            *families,
            *(counter(name, text, sum(counts[word].values())) for word, (name, text) in _ALONE.items()),
            gauge("pywheel_store_up", "Whether the store did what it was last asked.", self._store_up),
            gauge("pywheel_workers_here", "Workers in this process.", self._working),
            gauge("pywheel_workers_draining", "Those of them that claim nothing more.", self._draining),
        ]

    def _cumulated(self, histogram: Histogram) -> tuple[list[int], float]:
        with self._lock:  # for one at a time: puts and workers wait for it
            return histogram.cumulated()

    describe = collect
    """The names by which a registry refuses a second collector."""

    def exposition(self, accept: str = "") -> tuple[str, bytes]:
        """Return the registry's content type and text: OpenMetrics if the scraper's Accept header asks for it."""
        return exposed(self.registry, accept)


def _by_word(items: Iterable[tuple[tuple[str, str | None], V]]) -> defaultdict[str, dict[str, V]]:
    """Return values by label or topic, by the name in `Tally`, without values for all topics."""
    found: defaultdict[str, dict[str, V]] = defaultdict(dict)
    for (word, topic), value in items:
        if topic is not None:
            found[word][topic] = value
    return found


def exposed(registry: Any, accept: str = "") -> tuple[str, bytes]:
    """Return the content type and text of a registry, or of a single collector, as an Accept header asks."""
    choose = needed("prometheus_client.exposition", "telemetry").choose_encoder
    try:
        encode, content_type = choose(accept)
    except (TypeError, ValueError):  # it fails on a version in the header that is none
        encode, content_type = choose("")
    return content_type, encode(registry)

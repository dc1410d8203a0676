"""``/metrics``: what the store holds, for Prometheus. One exporter reads it, however many workers there are."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary, ref

from .._errors import StoreError
from ..client.queue import JobQueue
from ..jobs.checks import needed
from ..jobs.job import Counts
from ..jobs.queries import CountJobs, GetNextDues, ListTopics, ListWorkers
from ..observe.prometheus import PrometheusMetrics, exposed
from ..observe.tally import Labels
from ..stores.contract import Store

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["GAUGES", "StoreCollector", "exposition"]

_SILENT: Final = 5.0
"""Seconds without a beat after which a worker is not counted: more than any store lets pass between two."""
_NONE: Final = Counts()
_FRESH: Final = 1.0  # seconds for which what was read is told again
GAUGES: Final = {
    "jobs": ("pywheel_jobs", "Jobs in each state.", ("topic", "state")),
    "late": ("pywheel_oldest_due_seconds", "Seconds since the oldest unclaimed job was due.", ("topic",)),
    "paused": ("pywheel_topic_paused", "Whether the topic is paused.", ("topic",)),
    "abandoned": ("pywheel_topic_without_worker", "Whether a job is due that no worker handles.", ("topic",)),
    "handled": ("pywheel_topic_workers", "Workers that handle the topic.", ("topic",)),
    "workers": ("pywheel_workers", "Workers that are there.", ()),
    "bytes": ("pywheel_store_bytes", "What the store takes, as far as it says.", ("part",)),
    "up": ("pywheel_store_up", "Whether the store did what it was last asked.", ()),
    "info": ("pywheel_store_info", "Which store it is, and what a put promises.", ("store", "durability")),
    "seconds": ("pywheel_store_read_seconds", "How long it took to read this.", ()),
}


class TopicGauges(NamedTuple):
    """A topic."""

    counts: Counts
    paused: bool
    late: float  # seconds since the oldest job was due that is not claimed; 0 if none is due
    workers: int  # that handle it

    @property
    def abandoned(self) -> bool:
        """Whether a job is due, nobody has paused its topic, and no worker handles it."""
        return self.late > 0 and not self.paused and self.workers == 0


class StoreGauges(NamedTuple):
    """A store."""

    topics: Mapping[str, TopicGauges]
    workers: int  # that are there
    about: Mapping[str, Any]  # what the store says of its place; names of sizes end in ``bytes``


def gauges(store: Store) -> StoreGauges:
    """Return what a store holds now. O(topics x log jobs + running jobs + workers), in five queries.

    Raises:
        StoreError: the store cannot do it.
    """
    counts, now = store.ask(CountJobs()), store.clock.wall()
    paused = {topic.name: topic.paused for topic in store.ask(ListTopics())}
    dues = store.ask(GetNextDues())
    there = [member for member in store.ask(ListWorkers()) if member.silent <= _SILENT]
    handled = Counter(topic for member in there for topic in member.topics)
    topics = {
        name: TopicGauges(
            counts.get(name, _NONE),
            paused.get(name, False),
            max(now - dues.get(name, now), 0) / 1000,
            handled[name],
        )
        for name in sorted(counts.keys() | paused.keys())
    }
    return StoreGauges(topics, len(there), store.about())


def exposition(queue: JobQueue, accept: str = "") -> tuple[str, bytes]:
    """Return content type and text of what a queue's store holds: OpenMetrics if `accept`, a header, asks for it.

    What a `PrometheusMetrics` among the queue's listeners has counted is there too. The store is read at most once a
    second. A store that is away is no error here: ``pywheel_store_up`` is 0, and what it holds is not there.
    O(topics x log jobs + running jobs + workers).

    Raises:
        ExtraMissing: prometheus-client is not installed.
    """
    with _lock:
        collector = _collectors.get(queue)
        if collector is None:
            collector = _collectors[queue] = StoreCollector(queue)
    return exposed(collector, accept)


class StoreCollector:
    """The gauges of a queue's store as a collector of prometheus-client. One for a store: each reads all of it."""

    def __init__(self, queue: JobQueue) -> None:
        needed("prometheus_client", "telemetry")
        self._queue = ref(queue)  # else it would keep the key alive that it is kept by
        self._labels = Labels()
        self._lock = threading.Lock()
        self._until = 0.0
        self._families: dict[str, Any] = {}

    def collect(self) -> Iterable[Metric]:
        """Return the gauges, at most a second old, then what the queue's own listeners have counted."""
        queue = self._queue()
        if queue is None:
            return []
        with self._lock:
            if time.monotonic() >= self._until:
                self._families = self._read(queue)
                self._until = time.monotonic() + _FRESH
            families = [family for family in self._families.values() if family.samples]
        for listener in queue.events.listeners:
            if isinstance(listener, PrometheusMetrics):
                families += [family for family in listener.collect() if family.name != GAUGES["up"][0]]
        return families

    def _read(self, queue: JobQueue) -> dict[str, Any]:
        gauge = needed("prometheus_client.core", "telemetry").GaugeMetricFamily
        families = {word: gauge(name, text, labels=labels) for word, (name, text, labels) in GAUGES.items()}
        began = time.monotonic()
        try:
            store = gauges(queue.store)
        except StoreError:
            families["up"].add_metric([], 0)
            return families
        families["seconds"].add_metric([], time.monotonic() - began)
        families["up"].add_metric([], 1)
        families["workers"].add_metric([], store.workers)
        families["info"].add_metric([queue.store.url, queue.store.durability], 1)
        for name, value in store.about.items():
            if name.endswith("bytes") and isinstance(value, int):
                families["bytes"].add_metric([name.removesuffix("bytes").strip(" _")], value)
        self._add_topics(families, store)
        return families

    def _add_topics(self, families: dict[str, Any], store: StoreGauges) -> None:
        """Add what there is of each topic. Those that share a label: their sum, or the worst of them."""
        states: dict[str, list[int]] = {}
        worst: dict[str, list[float]] = {}
        for name, topic in store.topics.items():
            label = self._labels(name)
            before = states.setdefault(label, [0] * len(topic.counts))
            states[label] = [a + b for a, b in zip(before, topic.counts, strict=True)]
            here = [topic.late, topic.paused, topic.abandoned, topic.workers]
            worst[label] = list(map(max, here, worst.get(label, here)))
        fields = next(iter(store.topics.values())).counts._fields if store.topics else ()
        for label, counts in states.items():
            for state, count in zip(fields, counts, strict=True):
                families["jobs"].add_metric([label, state], count)
            for word, value in zip(("late", "paused", "abandoned", "handled"), worst[label], strict=True):
                families[word].add_metric([label], float(value))


_lock: Final = threading.Lock()
_collectors: Final[WeakKeyDictionary[JobQueue, StoreCollector]] = WeakKeyDictionary()

"""``/metrics``: the store's figures for Prometheus. One exporter reads them, however many workers there are."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, Final

from .._errors import StoreError
from ..client.queue import JobQueue
from ..jobs.checks import needed
from ..jobs.job import Counts
from ..observe.prometheus import PrometheusMetrics, exposed
from ..observe.tally import Labels
from ..stores.contract import Store
from .live import Snapshot

GAUGES: Final = {
    "jobs": ("pywheel_jobs", "Jobs in each state.", ("topic", "state")),
    "late": ("pywheel_oldest_due_seconds", "Seconds since the oldest unclaimed job was due.", ("topic",)),
    "paused": ("pywheel_topic_paused", "Whether the topic is paused.", ("topic",)),
    "abandoned": ("pywheel_topic_without_worker", "Whether a job is due that no worker handles.", ("topic",)),
    "handled": ("pywheel_topic_workers", "Workers that handle the topic.", ("topic",)),
    "workers": ("pywheel_workers", "Workers that are there.", ()),
    "bytes": ("pywheel_store_bytes", "The room that the store takes, if the store can tell.", ("part",)),
    "up": ("pywheel_store_up", "Whether the store did what it was last asked.", ()),
    "info": ("pywheel_store_info", "Which store it is, and what a put promises.", ("store", "durability")),
    "seconds": ("pywheel_store_read_seconds", "How long it took to read this.", ()),
}


def exposition(queue: JobQueue, snapshot: Snapshot, labels: Labels, accept: str = "") -> tuple[str, bytes]:
    """Return content type and text of the metrics of a queue's store: OpenMetrics if `accept`, a header, asks for it.

    They include the counts of each `PrometheusMetrics` among the queue's listeners. An unreachable store is not an
    error here: ``pywheel_store_up`` is 0, and the figures of its contents are missing. O(topics + workers).

    Raises:
        ExtraMissing: prometheus-client is not installed.
    """
    families = [family for family in _gauges(queue.store, snapshot, labels).values() if family.samples]
    for listener in queue.events.listeners:
        if isinstance(listener, PrometheusMetrics):
            families += [family for family in listener.collect() if family.name != GAUGES["up"][0]]
    return exposed(SimpleNamespace(collect=lambda: families), accept)


def _gauges(store: Store, snapshot: Snapshot, labels: Labels) -> dict[str, Any]:
    """Return the gauges of a store, including those without samples."""
    gauge = needed("prometheus_client.core", "telemetry").GaugeMetricFamily
    families = {word: gauge(name, text, labels=names) for word, (name, text, names) in GAUGES.items()}
    try:
        about = store.about() if snapshot.error is None else None
    except StoreError:
        about = None
    families["up"].add_metric([], about is not None)
    if about is None:
        return families
    there = [member for member in snapshot.members if not member.gone]
    families["seconds"].add_metric([], snapshot.took)
    families["workers"].add_metric([], len(there))
    families["info"].add_metric([store.url, store.durability], 1)
    for name, value in about.items():
        if name.endswith("bytes") and isinstance(value, int):
            families["bytes"].add_metric([name.removesuffix("bytes").strip(" _")], value)
    handled = Counter(topic for member in there for topic in member.topics)
    labelled: dict[str, list[str]] = {}
    for name in snapshot.topics:
        labelled.setdefault(labels(name), []).append(name)
    for label, topics in labelled.items():  # for topics that share a label: the sum, or the worst
        counts = [snapshot.topics.counts[name] for name in topics]
        for place, state in enumerate(Counts._fields):
            families["jobs"].add_metric([label, state], sum(each[place] for each in counts))
        late = paused = abandoned = workers = 0
        for topic in map(snapshot.topics.__getitem__, topics):
            overdue, working = topic.overdue(snapshot.at), handled[topic.name]
            late, paused, workers = max(late, overdue), max(paused, topic.paused), max(workers, working)
            abandoned = abandoned or (overdue > 0 and not topic.paused and not working)
        worst = {"late": late / 1000, "paused": paused, "abandoned": abandoned, "handled": workers}
        for word, value in worst.items():
            families[word].add_metric([label], float(value))
    return families
